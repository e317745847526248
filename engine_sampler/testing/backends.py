"""`BackendContract`: the laws of backends as a test class to subclass."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..arithmetic import Logprobs, row_logprobs
from ..backends.numpy import NumpyBackend
from ..contract import (
    LOGPROBS_KINDS,
    Backend,
    LogprobsRequest,
    Rows,
    Sampler,
    Selector,
)
from ..contract import unpack_bitmask as unpacked
from ..params import SamplingParams
from ..registry import check_object, default_registry, structured_in
from ..scheduler import Scheduler
from .batches import new_batch, packed, results_of, run_batch
from .cases import times
from .chains import FOREIGN, ChainTrial, random_settings, vocabulary_of
from .devices import FAULTS, DeviceLaws
from .search.surroundings import in_all_surroundings, leaving_them_alone

STEPS = 5


class BackendContract(DeviceLaws):
    """The laws of backends, tried on random chains. Subclass it; pytest does the rest.

        class TestMine(BackendContract):
            backend = Mine()

    The reference is the NumPy backend; the chains that `backend` does not support are left to it, as in a
    scheduler. Of a backend that is not `exact`, the tokens need only be among those that the chain leaves.

    `place` puts logits on the backend's device; by default they stay on the host.

    vocab_sizes  sizes to try.
    chains       random chains of every size, and random steps. ENGINE_SAMPLER_TEST_ROUNDS multiplies them.
    seconds, seed  as in `Searching`: how much more is tried at random.
    """

    # --- laws of the declaration ---------------------------------------------------------------------

    def test_the_declaration_is_sound(self) -> None:
        check_object(self.backend, (Backend,))
        owner = type(self.backend).__name__
        assert "__doc__" in vars(type(self.backend)), f"{owner} has no docstring"
        for device in ("cpu", "cuda:0", "npu:0"):
            score = self.backend.score(device)
            number = isinstance(score, (int, float)) and math.isfinite(score) and score >= 0
            assert number, f"{owner} has the score {score!r} for {device}; allowed is a number of at least 0"
            reads = self.backend.reads_from(device)
            assert isinstance(reads, bool), (
                f"reads_from({device!r}) gives {reads!r}; allowed are True and False"
            )
        assert isinstance(self.backend.reason, str), f"{owner} has reason={self.backend.reason!r}, not a text"

    def test_supports_gives_a_bool_and_the_same_one_again(self) -> None:
        catalogue = default_registry().catalogue
        parts: list[Sampler | Selector] = [
            *catalogue.samplers.values(),
            *catalogue.selectors.values(),
            *FOREIGN,
        ]
        for part in parts:
            first, second = self.backend.supports(part), self.backend.supports(part)
            assert isinstance(first, bool), (
                f"supports({part.name}) gives {first!r}; allowed are True and False"
            )
            assert first == second, f"supports({part.name}) gives {first}, then {second}"
            if first:
                name = self.backend.runs_as(part)
                assert isinstance(name, str), f"runs_as({part.name}) gives {name!r}; allowed is a text"
        for trial in self.trials():
            for sampler in trial.chain.samplers:
                runs = self.backend.runs(sampler, trial.chain)
                assert isinstance(runs, bool), (
                    f"runs({sampler.name}, …) gives {runs!r}; allowed are True and False"
                )

    def test_some_chain_is_supported(self) -> None:
        assert any(True for _ in self.trials()), f"{self.backend.name} supports none of the chains tried"

    # --- laws of run ---------------------------------------------------------------------------------

    def test_tokens_and_notes_are_those_of_the_reference(self) -> None:
        for trial in self.trials():
            self.compare(trial, "in a batch")

    def test_survivors_are_those_of_the_reference(self) -> None:
        for trial in self.trials():
            outcome = self.compare(trial, "with want_processed", want_processed=True)
            for i, error in enumerate(outcome.errors):
                missing = error is None and i not in outcome.processed
                assert not missing, f"survivors lacks row {i} with want_processed, {trial}"

    def test_several_chains_share_a_batch(self) -> None:
        for pair in _pairs(self.trials()):
            logits = np.concatenate([trial.logits for trial in pair])
            parts = np.split(np.arange(len(logits)), [len(pair[0].rows)])
            found, right = (
                self.run(b, logits, [self.group(b, one, part) for one, part in zip(pair, parts, strict=True)])
                for b in (self.backend, NumpyBackend())
            )
            self.expect(pair[0], found, right, f"in a batch with another group ({pair[1]})")

    def test_a_row_depends_on_itself_only(self) -> None:
        for number, trial in enumerate(self.trials()):
            together = self.run(self.backend, trial.logits, [self.group(self.backend, trial)])
            n = len(trial.rows)
            order = np.random.default_rng(number).permutation(n)[: max(1, n - 3)]
            width, index = 2 * n + 3, np.random.default_rng(number).permutation(2 * n + 3)[: len(order)]
            logits = (
                np.random.default_rng(number).normal(0, 3, (width, trial.case.vocab_size)).astype(np.float32)
            )
            logits[index] = trial.logits[order]
            group = replace(self.group(self.backend, trial), index=index, rows=trial.rows.take(order))
            found = self.run(self.backend, logits, [group])
            for row, i in zip(index.tolist(), order.tolist(), strict=True):
                same = found.row(row) == together.row(i)
                assert same, f"row {i} has another result in other company: {found.row(row)[:3]}, {trial}"
            rest = np.setdiff1d(np.arange(width), index)
            touched = (found.token_ids[rest] != -1).any() or any(found.errors[i] for i in rest.tolist())
            assert not touched, f"rows that no group names are filled, {trial}"

    def test_masks_are_heeded(self) -> None:
        for number, trial in enumerate(self.trials()):
            n, size = len(trial.rows), trial.case.vocab_size
            random = np.random.default_rng(number)
            bits = random.random((n, size)) < random.choice([0.05, 0.5, 0.95])
            bits[np.arange(n), random.integers(0, size, n)] = True
            mask = packed(bits)
            outcome = self.compare(trial, "under a mask", bitmask=mask, want_processed=True)
            for i, token in enumerate(outcome.token_ids.tolist()):
                forbidden = outcome.errors[i] is None and not unpacked(mask[i], size)[token]
                assert not forbidden or self._may_leave_mask(trial), f"token {token} is masked, {trial}"

    def test_a_mask_holds_for_groups_that_are_masked_only(self) -> None:
        for trial in self.trials():
            mask = packed(np.zeros((len(trial.rows), trial.case.vocab_size), bool))
            groups = [self.group(b, trial) for b in (self.backend, NumpyBackend())]
            found = self.run(self.backend, trial.logits, [groups[0]], mask)
            where = "under a mask of other groups"
            self.expect(trial, found, run_batch(NumpyBackend(), trial.logits, [groups[1]], mask), where)

    def test_a_fault_stays_in_its_row(self) -> None:
        for number, trial in enumerate(self.trials()):
            logits = trial.logits.copy()
            for i, fault in enumerate(FAULTS.values()):
                row = (3 * i + number) % len(logits)
                logits[row] = fault if fault == -np.inf else np.where(logits[row] > -np.inf, logits[row], 0)
                logits[row, (7 * i + number) % logits.shape[1]] = fault
            found = self.compare(trial, "with faulty rows", logits=logits)
            for i, error in enumerate(found.errors):
                message = error is None or isinstance(error, str)
                assert message, f"row {i} has the error {error!r}; allowed are None and a message, {trial}"

    def test_a_sampler_that_raises_ends_its_row_alone(self) -> None:
        for trial in self.trials():
            column = trial.slots.column("foreign_fault")
            column[trial.rows.slot_numbers[::3]] = True
            self.compare(trial, "with a sampler that raises in some rows")
            column[:] = False

    def test_inputs_are_only_read(self) -> None:
        for trial in self.trials():
            mask = packed(np.ones((len(trial.rows), trial.case.vocab_size), bool))
            group = self.group(self.backend, trial, masked=True)
            inputs = {
                "the logits": trial.logits.copy(),
                "the mask": mask,
                "the index": group.index,
                "the seeds": trial.slots.seeds,
                "the positions": trial.slots.positions,
                "the tokens": trial.slots.tokens,
            }
            before = {name: array.copy() for name, array in inputs.items()}
            self.run(self.backend, inputs["the logits"], [group], mask)
            for name, array in inputs.items():
                assert np.array_equal(array, before[name]), f"{self.backend.name} writes to {name}, {trial}"

    def test_logits_may_have_any_layout(self) -> None:
        for trial in self.trials():
            n, size = trial.logits.shape
            wide = np.full((n, size + 7), 50, np.float32)
            wide[:, :size] = trial.logits
            halves = np.clip(trial.logits, -60000, 60000).astype(np.float16)
            halves[trial.logits == -np.inf] = -np.inf
            layouts = {
                "with padding": wide,
                "with a negative stride": np.ascontiguousarray(trial.logits[::-1])[::-1],
                "of float16": halves,
            }
            for name, logits in layouts.items():
                self.compare(trial, f"for logits {name}", logits=logits)

    def test_a_batch_may_be_run_again_with_its_cache(self) -> None:
        for trial in self.trials():
            group, cache = self.group(self.backend, trial), dict[Any, Any]()
            right = self.group(NumpyBackend(), trial)
            for logits in (trial.logits, trial.logits[::-1].copy()):
                found = self.run(self.backend, logits, [group], cache=cache)
                self.expect(
                    trial, found, run_batch(NumpyBackend(), logits, [right]), "with the cache of a batch"
                )

    def test_a_batch_may_be_repeated_in_other_rows(self) -> None:
        for trial in self.trials():
            if not self.backend.follows_rows:
                assert self.backend.repeated({}) is None, "it repeats batches, and does not follow rows"
                continue
            own, right = (
                replace(self.group(b, trial), want_processed=False) for b in (self.backend, NumpyBackend())
            )
            batch, rows = new_batch(trial.logits, [own], None), own.index[::-1].copy()
            self.backend.run(batch)
            repeat = self.backend.repeated(batch.cache)
            if repeat is not None and repeat(rows):
                moved = run_batch(NumpyBackend(), trial.logits, [replace(right, index=rows)])
                self.expect(trial, results_of(batch), moved, "repeated in other rows")

    def test_surroundings_do_not_matter(self) -> None:
        there = None if not self.takes_bits else RowsElsewhere(self)
        with leaving_them_alone(self.backend.name):
            expected = self.rows_of_some_trials()
        for where, rows in in_all_surroundings(self.rows_of_some_trials, there):
            for i, (row, right) in enumerate(zip(rows, expected, strict=True)):
                assert row == right, f"row {i} gives {row}, not {right}, {where}"

    # --- laws of requests that continue --------------------------------------------------------------

    def test_tokens_rollback_and_forks_are_followed(self) -> None:
        for number, trial in enumerate(self.trials()):
            slots, numbers = trial.slots, trial.rows.slot_numbers.tolist()
            random = np.random.default_rng(number)
            for slot in numbers:
                self._accept(trial, slot, random, STEPS)
            self.compare(trial, "after tokens arrived")
            for slot in numbers[::2]:
                slots.rollback(slot, 2)
            self.compare(trial, "after rollback")
            children = [
                slots.put(slots.entries[slot].fork(), slots.given(slot), 7 + slot) for slot in numbers[:4]
            ]
            for slot in (*children, *numbers):
                self._accept(trial, slot, random, 1 + slot % 2)
            self.compare(trial, "after a fork continued")
            rows = Rows(slots, np.array(children, np.int64))
            fork = replace(trial, rows=rows, case=trial.case.take(range(len(children))))
            self.compare(fork, "in a fork")

    def test_a_slot_may_change_hands(self) -> None:
        for trial in self.trials():
            self.compare(trial, "before a slot changes hands")
            numbers, slots = trial.rows.slot_numbers, trial.slots
            entries = [(slots.entries[slot].fork(), dict(slots.given(slot))) for slot in numbers.tolist()]
            for slot in numbers.tolist():
                slots.remove(slot)
            turned = entries[1:] + entries[:1]
            again = [slots.put(entry, given, 99 + i) for i, (entry, given) in enumerate(turned)]
            rows = Rows(slots, np.array(again, np.int64))
            self.compare(replace(trial, rows=rows), "after slots changed hands")

    def test_a_scheduler_gives_the_same_results(self) -> None:
        for size in self.vocab_sizes:
            for number in range(times(max(1, self.chains // 8))):
                found, right = (self.generation(b, size, number) for b in (self.backend, NumpyBackend()))
                if self.backend.exact:
                    where = f"vocabulary {size}, generation {number}"
                    for step, (one, other) in enumerate(zip(found, right, strict=True)):
                        assert one == other, f"step {step} of a scheduler gives {one}, not {other}, {where}"

    def test_random_steps_are_those_of_the_reference(self) -> None:
        from .search import steps  # which needs Hypothesis

        self.search(partial(steps.StepMachine, self), steps.LENGTH, self.chains)

    def test_drafts_get_the_results_of_the_reference(self) -> None:
        for trial in self.trials():
            plan = self.backend.compile(trial.chain)
            ahead, follows = self.backend.draws_ahead(plan), self.backend.follows_drafts(plan, 64)
            assert type(ahead) is bool, f"draws_ahead gives {ahead!r}, not a bool, {trial}"
            assert type(follows) is bool, f"follows_drafts gives {follows!r}, not a bool, {trial}"
        for size in self.vocab_sizes:
            for number in range(times(max(1, self.chains // 4))):
                found, right = (self.drafted(b, size, number) for b in (self.backend, NumpyBackend()))
                where = f"vocabulary {size}, requests {number}"
                for step, (one, other) in enumerate(zip(found, right, strict=True)):
                    same = one == other or not self.backend.exact
                    assert same, f"step {step} with drafts gives {one}, not {other}, {where}"

    def test_what_is_decided_is_counted_and_never_less(self) -> None:
        for trial in self.trials():
            plan, counts = self.backend.compile(trial.chain), [(0, 0)]
            for asked in (None, plan, None):
                self.run(self.backend, trial.logits, [self.group(self.backend, trial)])
                found = self.backend.decisions(trial.slots, asked)
                kinds = [type(n) for n in found] if isinstance(found, tuple) else None
                assert kinds == [int, int], f"decisions gives {found!r}, not two counts, {trial}"
                if asked is None:
                    counts.append(found)
            for before, now in itertools.pairwise(counts):
                assert min(n - b for n, b in zip(now, before, strict=True)) >= 0, (
                    f"decisions gives {now} after {before}, {trial}"
                )

    # --- laws of apply, select and logprobs ----------------------------------------------------------

    def test_apply_and_select_are_those_of_the_reference(self) -> None:
        for trial in self.trials():
            found, right = trial.logits.copy(), trial.logits.copy()
            reference, rows = NumpyBackend(), trial.rows
            plan, plain = self.backend.compile(trial.chain), reference.compile(trial.chain)
            self.backend.apply(plan, found, rows)
            reference.apply(plain, right, rows)
            plus = found + np.float32(0), right + np.float32(0)
            same = plus[0].tobytes() == plus[1].tobytes()
            assert same or not self.backend.exact, f"apply differs from the reference, {trial}"
            alive = np.flatnonzero((right.max(axis=1) > -np.inf) & (right.max(axis=1) < np.inf))
            if len(alive):
                some = rows.take(alive)
                chosen = np.asarray(self.backend.select(plan, right[alive], some).columns)
                expected = reference.select(plain, right[alive], some).columns
                same = np.array_equal(chosen, expected)
                assert same or not self.backend.exact, f"select gives {chosen}, not {expected}, {trial}"

    def test_logprobs_are_those_of_the_reference(self) -> None:
        for trial in self.trials():
            n = len(trial.rows)
            group = self.group(self.backend, trial, want_processed=True)
            group.edits = self.backend.compile(trial.chain.edits_only())
            batch = new_batch(self.place(trial.logits), [group], None)
            tables = [Logprobs.empty(n, 3) for _ in LOGPROBS_KINDS]
            kinds = np.full(n, (1 << len(LOGPROBS_KINDS)) - 1, np.uint8)
            batch.logprobs = LogprobsRequest(kinds, np.full(n, 3), tuple(tables), np.zeros(n, bool))  # type: ignore[arg-type]
            self.backend.run(batch)
            rows = batch.logits
            right = run_batch(
                NumpyBackend(), trial.logits, [self.group(NumpyBackend(), trial, want_processed=True)]
            )
            for i in np.flatnonzero(batch.logprobs.done).tolist():
                if right.errors[i] is None:
                    token, group = int(batch.token_ids[i]), self.group(NumpyBackend(), trial)
                    raw = batch.logits.row(i)
                    of_kinds = self.logprobs_of_reference(group, i, raw, token, 3, right.processed[i])
                    for kind, table, answer in zip(LOGPROBS_KINDS, tables, of_kinds, strict=True):
                        self.expect_logprobs(trial, table, i, answer, f"{kind} logprobs")
            answer = self.backend.logprobs(rows, np.zeros(n, np.int64), 3)
            for i in range(n if answer is not None else 0):
                if answer is not None:
                    self.expect_logprobs(trial, answer, i, row_logprobs(rows.row(i), 0, 3), "logprobs")

    # --- inside ----------------------------------------------------------------------------------

    def rows_of_some_trials(self) -> list[Any]:
        """The token, the note and whether it fails, for each row of some trials."""
        some = itertools.islice(self.trials(), 3)
        results = [self.run(self.backend, trial.logits, [self.group(self.backend, trial)]) for trial in some]
        return [found.row(i)[:3] for found in results for i in range(len(found.token_ids))]

    def generation(self, backend: Backend, size: int, number: int) -> list[Any]:
        """What a scheduler gives while requests come, fork, roll back and leave."""
        random = np.random.default_rng([size, number])
        vocabulary = vocabulary_of(size)
        scheduler = Scheduler(size, vocabulary.tokenizer, backend=backend)
        results: list[Any] = []
        for step in range(STEPS):
            for _ in range(2):
                modes, seed = LOGPROBS_KINDS[: int(random.integers(1, 4))], int(random.integers(2**63))
                settings = {**random_settings(random), "logprobs": 2, "logprobs_mode": modes, "seed": seed}
                prompt = random.integers(0, min(size, 3), 6).tolist()
                if random.random() < 0.3 and not structured_in(settings):
                    settings["regex"] = "[ab]+"
                try:
                    scheduler.add(SamplingParams(**settings), prompt)
                except ValueError as error:  # a grammar or ids that this vocabulary lacks
                    results.append(str(error))
            ids = scheduler.request_ids
            logits = random.normal(0, 3, (len(ids), size)).astype(np.float32)
            logits[random.random(logits.shape) < 0.1] = -np.inf
            logits[:, 0] = 0
            if ids:
                given = self.place(logits) if backend is self.backend else logits
                results.append(_summary(scheduler.step(given)))
            for request_id in scheduler.request_ids[: int(random.integers(0, 2))]:
                scheduler.rollback(request_id, 1)
                scheduler.fork(request_id)
            for request_id in scheduler.request_ids[8:]:
                scheduler.remove(request_id)
            results.append(step)
        return results

    def drafted(self, backend: Backend, size: int, number: int) -> list[Any]:
        """What a scheduler gives for two requests with drafts that are likely to be right."""
        random = np.random.default_rng([size, number, 1])
        scheduler = Scheduler(size, vocabulary_of(size).tokenizer, backend=backend)
        penalties = {"temperature": 0.0, "presence_penalty": 2.0}  # history counts
        for settings in (penalties, random_settings(random)):
            seeded = {**settings, "seed": int(random.integers(2**63))}
            with contextlib.suppress(ValueError):  # ids that this vocabulary lacks
                scheduler.add(SamplingParams(**seeded), random.integers(0, min(size, 3), 6).tolist())
        results: list[Any] = []
        while scheduler.request_ids and len(results) < STEPS:
            each = random.normal(0, 3, (len(scheduler.request_ids), size)).astype(np.float32)
            drafts = [[int(row.argmax())] * 2 for row in each]
            logits = np.repeat(each, 3, axis=0)
            given = self.place(logits) if backend is self.backend else logits
            results.append(_summary(scheduler.step(given, draft_token_ids=drafts)))
        return results

    def _accept(self, trial: ChainTrial, slot: int, random: np.random.Generator, n: int) -> None:
        few = min(trial.case.vocab_size, 3)
        trial.slots.accept(slot, random.integers(0, few, n).tolist(), random.uniform(0, 9, n).tolist())

    def _may_leave_mask(self, trial: ChainTrial) -> bool:
        return any(sampler.restores for sampler in trial.chain.samplers)


def _pairs(trials: Iterator[ChainTrial]) -> Iterator[list[ChainTrial]]:
    """Trials of one vocabulary, two at a time. Both have slots of their own, as two schedulers' would."""
    last: ChainTrial | None = None
    for trial in trials:
        if last is not None and last.case.vocab_size == trial.case.vocab_size:
            yield [last, trial]
        last = trial


def _summary(result: Any) -> Any:
    logprobs = {} if result.logprobs is None else result.logprobs.by_mode
    tables = [(mode, table.token_ids.tolist(), _rounded(table.logprobs)) for mode, table in logprobs.items()]
    failed = [error is not None for error in result.errors]
    return result.token_ids.tolist(), list(result.text), list(result.finish_reasons), failed, tables


def _rounded(logprobs: np.ndarray) -> list[Any]:
    """Logprobs that can be compared: without NaN, to four places."""
    return np.round(np.nan_to_num(logprobs.astype(np.float64), nan=1.0, neginf=-1e9), 4).tolist()


class RowsElsewhere:
    """A task: the rows of some trials of the kit's backend."""

    def __init__(self, kit: BackendContract) -> None:
        self._backend, self._sizes, self._chains = kit.backend, tuple(kit.vocab_sizes), kit.chains

    def __call__(self) -> list[Any]:
        attributes = {"backend": self._backend, "vocab_sizes": self._sizes, "chains": self._chains}
        kit: BackendContract = type("There", (BackendContract,), attributes)()
        return kit.rows_of_some_trials()
