"""`SamplerContract`: the laws of samplers as a test class to subclass."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ..arithmetic import draw64
from ..contract import Example, Rows, Sampler, Truncation
from .bounded import WorkCounter
from .cases import Case, with_padding
from .exactness import ExactContract
from .laws import STEPS
from .row_functions import RowFunction
from .search.live import Live
from .search.surroundings import quiet
from .single import apply_sampler, settings


class SamplerContract(ExactContract):
    """The laws every sampler keeps, tried on random rows. Subclass it; pytest does the rest.

        class TestMinP(SamplerContract):
            sampler = MinP()
            params = [dict(min_p=0.05), dict(min_p=1.0), dict(min_p=0.9, min_keep=3)]

    The sampler need not be registered. Beside the attributes of `Contract`:

    may_empty         True for masks, which may leave no token.
    removes           False for samplers that only change logits: finite logits then stay finite.
    apply_at_neutral  False if neutral values have no meaning in `apply` (such as top_k = 0). A chain
                      never calls it with them.
    """

    sampler: ClassVar[Sampler]
    may_empty: ClassVar[bool] = False
    removes: ClassVar[bool] = True
    apply_at_neutral: ClassVar[bool] = True

    @property
    def part(self) -> Sampler:
        return self.sampler

    # --- laws ------------------------------------------------------------------------------------

    def test_params_turn_it_on(self) -> None:
        for given in self.tried_params:
            assert self.sampler.is_active(settings(self.sampler, given)), f"{given} leaves it off"

    def test_parameters_change_some_row(self) -> None:
        for case in self.cases():
            changed = Live(self, case).outcome() != with_padding(case.logits)
            if changed.any():
                return
        raise AssertionError(
            f"{self.sampler.name} changes no row for any of the params: `apply` must write to the array "
            "that it is given"
        )

    def test_neutral_values_change_nothing(self) -> None:
        if self.apply_at_neutral:
            for case in self.cases(wide=True):
                neutral = replace(case, params=({},) * len(case))
                outcome = Live(self, neutral).outcome()
                where = (
                    "from the input at neutral values; if they have no meaning in `apply`, set "
                    "apply_at_neutral = False in the kit"
                )
                neutral.expect_equal(outcome, with_padding(case.logits), where)

    def test_removed_tokens_stay_removed(self) -> None:
        for case in self.cases(wide=True):
            self._check_removed(case, Live(self, case).outcome())

    def test_a_token_is_left(self) -> None:
        for case in self.cases(wide=True):
            self._check_left(case, Live(self, case).outcome())

    def test_results_are_finite_or_removed(self) -> None:
        for case in self.cases(wide=True):
            self._check_finite(case, Live(self, case).outcome())

    def test_the_best_token_stays_the_best_if_claimed(self) -> None:
        if self.sampler.argmax_invariant:
            for case in self.cases(wide=True):
                outcome = Live(self, case).outcome()
                moved = outcome.argmax(axis=1) != case.logits.argmax(axis=1)
                case.refuse(moved, "the best token changes")

    def test_keep_agrees_with_apply_and_only_reads(self) -> None:
        if isinstance(self.sampler, Truncation):
            for case in self.cases(wide=True):
                live = Live(self, case)
                logits = case.logits.copy()
                with quiet():
                    mask = self.sampler.keep(logits, live.rows)
                case.refuse((logits != case.logits).any(axis=1), "keep writes to the logits")
                kept = with_padding(np.where(mask, logits, -np.inf))
                case.expect_equal(live.outcome(), kept, "between keep and apply")

    def test_keep_columns_agrees_with_keep(self) -> None:
        if getattr(type(self.sampler), "keep_columns", None) in (None, Truncation.keep_columns):
            return
        for case in self.cases(wide=True):
            expected = Live(self, case).outcome() > -np.inf
            for one, right in zip(case.alone(), expected, strict=True):
                for ids in (None, np.flatnonzero(one.alive[0])):
                    self._check_columns(one, ids, right)

    def test_the_row_function_equals_apply(self) -> None:
        function = self.sampler.row_function
        if function is None or self.sampler.lazy:
            return
        ran = [self._compare_row_function(case) for case in self.cases(wide=True)]
        assert any(ran), f"the row_function of {self.sampler.name} fails on every row"

    def test_preparing_with_little_work_at_a_time_changes_no_result(self) -> None:
        if type(self.sampler).prepare is Sampler.prepare:
            return
        at_once, in_parts = WorkCounter(), WorkCounter()
        for case in self.cases():
            self._prepare_everywhere(case, at_once, in_parts)
        in_parts.expect_like(at_once)

    # --- what the shared laws need ---------------------------------------------------------------

    def with_part(self, part: Any) -> SamplerContract:
        other = copy.copy(self)
        vars(other)["sampler"] = part
        return other

    def run(self, logits: np.ndarray, rows: Rows) -> None:
        with quiet():
            self.sampler.apply(logits, rows)

    def outcome(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        """The new logits by token id, and the greatest of the padding columns: [n, vocab + 1]."""
        out = logits.copy()
        self.run(out, rows)
        if rows.ids is None:
            return with_padding(out)
        by_id = np.full((len(out), rows.vocabulary.size + 1), -np.inf, np.float32)
        np.maximum.at(by_id, (np.arange(len(out))[:, None], rows.ids), out)
        return by_id

    def accepted(self, outcome: np.ndarray, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        few = np.uint64(min(rows.vocabulary.size, 3))
        token_ids = (draw64(rows.seed, rows.position, stream=1) % few).astype(np.int64)
        return token_ids, np.full(len(rows), None)

    def check_outcome(self, case: Case, outcome: np.ndarray) -> None:
        self._check_removed(case, outcome)
        self._check_left(case, outcome)
        self._check_finite(case, outcome)

    def check_example(self, example: Example) -> None:
        given = dict(example.params)
        result = apply_sampler(self.sampler, example.logits, given, **self.history_of(example))
        right = np.allclose(result, np.array(example.expect), rtol=1e-5, atol=1e-6)
        assert right, f"{list(example.logits)} with {given} gives {result.tolist()}, not {example.expect}"

    # --- helpers ---------------------------------------------------------------------------------

    def _check_columns(self, case: Case, ids: np.ndarray | None, right: np.ndarray) -> None:
        """Compare `keep_columns` for the only row of `case`, or some of its columns, with the tokens that
        stay."""
        assert isinstance(self.sampler, Truncation), "only a Truncation has keep_columns"
        row = case.logits[0].copy() if ids is None else case.logits[0, ids]
        before, rows = row.copy(), Live(self, case).rows
        if ids is not None:
            rows = rows.take(slice(None), ids[None]).bind(self.sampler)
        with quiet():
            columns = self.sampler.kept_columns(row, rows)
        case.refuse((row != before).any(keepdims=True), "keep_columns writes to the logits")
        kept = np.zeros((1, case.vocab_size), bool)
        kept[0, columns if ids is None else ids[columns]] = True
        case.refuse(
            (kept & case.alive) != right[None, : case.vocab_size], "differs between keep_columns and keep"
        )

    def _prepare_everywhere(self, case: Case, at_once: WorkCounter, in_parts: WorkCounter) -> None:
        """Compare the results after `prepare`, at once and with little work at a time, with those without it,
        while requests continue."""
        token_ids = case.some_token_ids(STEPS)
        plain, whole, parted = requests = [Live(self, case) for _ in range(3)]

        def compare(where: str) -> None:
            whole.prepare(at_once.at_once)
            parted.prepare(lambda call: in_parts.in_parts(call, where))
            for live in (whole, parted):
                case.expect_equal(live.outcome(), plain.outcome(), where)

        for step in range(STEPS):
            compare("after prepare")
            for live in requests:
                live.accept(token_ids[:, step : step + 1])
        for live in requests:
            live.rollback(2)
        compare("after rollback and prepare")
        plain, whole, parted = forks = [live.fork(case.seeds) for live in requests]
        for live in forks:
            live.accept(token_ids[:, :1])
        compare("after prepare in a fork")

    def _compare_row_function(self, case: Case) -> bool:
        """Compare the C function with `apply`, while requests continue; False if it fails on every row."""
        live, ran = Live(self, case), False
        seeds = [seed ^ 1 for seed in case.seeds]
        token_ids = case.some_token_ids(STEPS)
        function = RowFunction(self.sampler, live.rows.slots)
        for step in range(STEPS):
            ran |= self._compare_rows(case, live, function, "between row_function and apply")
            live.accept(token_ids[:, step : step + 1])
        live.rollback(2)
        ran |= self._compare_rows(case, live, function, "between row_function and apply, after rollback")
        child = live.fork(seeds)
        child.accept(token_ids[:, :1])
        self._compare_rows(case, child, function, "between row_function and apply, in a fork")
        self._compare_rows(case, live, function, "between row_function and apply, after a fork continued")
        return ran

    def _compare_rows(self, case: Case, live: Live, function: RowFunction, where: str) -> bool:
        ran = False
        expected = live.outcome()
        for i, slot in enumerate(live.rows.slot_numbers.tolist()):
            for ids in (None, np.flatnonzero(case.alive[i])):
                row = case.logits[i].copy() if ids is None else case.logits[i, ids]
                if function.run(row, ids, slot):
                    ran, whole = True, np.full((1, case.vocab_size), -np.inf, np.float32)
                    whole[0, slice(None) if ids is None else ids] = row
                    case.take([i]).expect_equal(with_padding(whole), expected[i : i + 1], where)
        return ran

    def _check_removed(self, case: Case, outcome: np.ndarray) -> None:
        removed = with_padding(case.logits) == -np.inf
        if self.sampler.restores:
            removed &= (outcome > -np.inf).sum(axis=1, keepdims=True) > 1
        case.refuse(removed & (outcome != -np.inf), "was removed before and is back")

    def _check_left(self, case: Case, outcome: np.ndarray) -> None:
        if not self.may_empty:
            case.refuse((outcome == -np.inf).all(axis=1), "no token is left")

    def _check_finite(self, case: Case, outcome: np.ndarray) -> None:
        case.refuse(np.isnan(outcome), "becomes NaN")
        case.refuse(outcome == np.inf, "becomes infinite")
        if not self.removes:
            lost = (outcome == -np.inf) & (with_padding(case.logits) > -np.inf)
            case.refuse(lost, "is removed by a sampler that removes nothing")
