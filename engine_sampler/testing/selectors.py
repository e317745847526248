"""`SelectorContract`: the laws of selectors as a test class to subclass."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import numpy as np

from ..contract import Example, Rows, Selection, Selector
from .cases import Case
from .exactness import ExactContract
from .search.live import Live
from .search.surroundings import quiet
from .single import select


class SelectorContract(ExactContract):
    """The laws every selector keeps, tried on random rows. Subclass it; pytest does the rest.

        class TestMirostat(SelectorContract):
            selector = Mirostat()
            params = [dict(mirostat=1), dict(mirostat=1, mirostat_tau=2.0)]

    The attributes are those of `Contract`.
    """

    selector: ClassVar[Selector]

    @property
    def part(self) -> Selector:
        return self.selector

    # --- laws ------------------------------------------------------------------------------------

    def test_a_surviving_token_is_chosen(self) -> None:
        for case in self.cases(wide=True):
            self.check_outcome(case, Live(self, case).outcome())

    def test_logits_are_only_read(self) -> None:
        for case in self.cases():
            logits = case.logits.copy()
            self.run(logits, Live(self, case).rows)
            case.refuse((logits != case.logits).any(axis=1), "select writes to the logits")

    def test_the_same_seed_twice_gives_the_same_token(self) -> None:
        for case in self.cases():
            first, second = np.split(Live(self, case.take([*range(len(case))] * 2)).outcome(), 2)
            case.expect_equal(second, first, "between two equal rows of a batch")

    def test_the_choice_is_one_of_the_candidates(self) -> None:
        for case in self.cases(wide=True):
            logits, ids = case.compact(case.alive, 2)
            rows = Live(self, case).rows
            for some, of_them in (
                (case.logits, rows),
                (logits, rows.take(slice(None), ids).bind(self.selector)),
            ):
                self._check_candidates(case, some, of_them)

    # --- what the shared laws need ---------------------------------------------------------------

    def with_part(self, part: Any) -> SelectorContract:
        other = copy.copy(self)
        vars(other)["selector"] = part
        return other

    def run(self, logits: np.ndarray, rows: Rows) -> Selection:
        with quiet():
            return self.selector.select(logits, rows)

    def outcome(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        """The chosen token's id and note, NaN for none: float64 [n, 2]."""
        selection = self.run(logits, rows)
        notes = np.full(len(rows), np.nan) if selection.notes is None else selection.notes
        return np.stack([rows.token_ids_at(selection.columns).astype(np.float64), notes], axis=1)

    def accepted(self, outcome: np.ndarray, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        notes = outcome[:, 1].astype(object)
        notes[np.isnan(outcome[:, 1])] = None
        return outcome[:, 0].astype(np.int64), notes

    def check_outcome(self, case: Case, outcome: np.ndarray) -> None:
        token_ids = outcome[:, 0].astype(np.int64)
        outside = (token_ids < 0) | (token_ids >= case.vocab_size)
        case.refuse(outside, "the choice is outside the vocabulary")
        removed = ~case.alive[np.arange(len(case)), token_ids]
        case.refuse(removed, "the choice is a token that was removed")
        case.refuse(np.isinf(outcome[:, 1]), "the note is infinite")

    def check_example(self, example: Example) -> None:
        given = dict(example.params)
        chosen = select(self.selector, example.logits, given, **self.history_of(example)).columns.tolist()
        right = chosen == [example.token]
        assert right, f"{list(example.logits)} with {given} gives token {chosen[0]}, not {example.token}"

    # --- helpers ---------------------------------------------------------------------------------

    def _check_candidates(self, case: Case, given: np.ndarray, rows: Rows) -> None:
        logits = given.copy()
        with quiet():
            found = self.selector.candidates(logits, rows)
        case.refuse((logits != given).any(axis=1), "candidates writes to the logits")
        if found is None:
            return
        mask, _ = found
        right = np.shape(mask) == logits.shape and mask.dtype == bool
        assert right, f"candidates gives {mask!r}; allowed is bool [n, columns]"
        chosen = self.run(logits, rows).columns
        case.refuse(~mask[np.arange(len(case)), chosen], "the choice is not among the candidates")
