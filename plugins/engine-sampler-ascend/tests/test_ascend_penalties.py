"""Penalties on the best tokens of a row: the tokens are NumPy's, and rows stay on the chip."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from ascend_arrays import NpuArray
from ascend_building import vendor_library
from ascend_harness import Chip, Host, Step
from engine_sampler_ascend import AscendBackend

from engine_sampler import SamplingParams, Scheduler

VOCAB = 4096
ROW = VOCAB * 4

LOWERING: tuple[dict[str, Any], ...] = (
    {"repetition_penalty": 1.3, "top_k": 20, "temperature": 0.8},
    {"frequency_penalty": 0.4, "presence_penalty": 0.2, "temperature": 0.0},
    {"repetition_penalty": 1.1, "presence_penalty": 1.5, "penalty_scope": "all", "top_k": 5},
    {"repetition_penalty": 2.0, "penalty_scope": "output", "temperature": 0.0},
    {"frequency_penalty": 1.5, "top_k": 3, "order": "vllm", "temperature": 0.6},
    {"repetition_penalty": 1.2, "penalty_last_n": 1000, "top_k": 9},
    {"repetition_penalty": 1e30, "frequency_penalty": 1e30, "temperature": 0.0},
)
"""What only lowers logits, by counts of the whole history."""

OTHERS: tuple[dict[str, Any], ...] = (
    {"repetition_penalty": 0.8, "top_k": 5},
    {"presence_penalty": -0.5, "temperature": 0.0},
    {"repetition_penalty": 1.2, "penalty_last_n": 3, "top_k": 5},
    {"repetition_penalty": 1.5, "repetition_penalty_range": 8, "repetition_penalty_slope": 2.0, "top_k": 5},
    {"repetition_penalty": 1.5, "penalty_last_n": 8, "penalty_decay_range": 60, "top_k": 5},
)


@pytest.fixture
def backend(chip: Chip) -> Iterator[AscendBackend]:
    yield AscendBackend("ascend", library=vendor_library())
    gc.collect()  # other tests of this module count what is alive


def prompt_of(seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCAB, 30).tolist()


def new_scheduler(backend: Any, settings: Sequence[dict[str, Any]]) -> Scheduler:
    scheduler = Scheduler(VOCAB, backend=backend)
    for seed, given in enumerate(settings):
        scheduler.add(SamplingParams(seed=seed, **given), prompt_of(seed), request_id=seed)
    return scheduler


def logits_for(scheduler: Scheduler, number: int) -> np.ndarray:
    """Rows whose best tokens have occurred."""
    rows = []
    for request_id in scheduler.request_ids:
        rng = np.random.default_rng((int(request_id), number))
        row = rng.normal(0, 2, VOCAB).astype(np.float32)
        row[prompt_of(int(request_id))] += 6
        row[rng.integers(0, VOCAB, 5)] += 5
        rows.append(row)
    return np.stack(rows)


def step_both(chip: Chip, ours: Scheduler, reference: Scheduler, number: int) -> NpuArray:
    """One step of both; they are equal. Returns the logits, which are freed."""
    logits = logits_for(ours, number)
    array = NpuArray(chip, logits)
    result, expected = ours.step(array), reference.step(logits)
    array.free()
    assert result.token_ids.tolist() == expected.token_ids.tolist()
    assert result.errors == expected.errors
    return array


def test_the_tokens_are_those_of_the_reference_and_no_row_is_copied(
    chip: Chip, backend: AscendBackend
) -> None:
    ours, reference = new_scheduler(backend, LOWERING), new_scheduler("numpy", LOWERING)
    for number in range(6):
        before = chip.counters().bytes_down
        assert step_both(chip, ours, reference, number).read == 0
        assert chip.counters().bytes_down - before < len(LOWERING) * ROW / 8


def test_what_may_raise_logits_or_counts_a_part_runs_on_the_host(chip: Chip, backend: AscendBackend) -> None:
    ours, reference = new_scheduler(backend, OTHERS), new_scheduler("numpy", OTHERS)
    before = chip.counters().bytes_down
    for number in range(4):
        step_both(chip, ours, reference, number)
    assert chip.counters().bytes_down - before >= 4 * len(OTHERS) * ROW


def test_histories_follow_requests_that_come_go_and_are_rolled_back(
    chip: Chip, backend: AscendBackend
) -> None:
    ours, reference = new_scheduler(backend, LOWERING), new_scheduler("numpy", LOWERING)
    for number in range(12):
        step_both(chip, ours, reference, number)
        for scheduler in (ours, reference):
            if number == 2:
                scheduler.rollback(0, 2)
            if number == 3:
                scheduler.accept(1, [5, 5, 6])
            if number == 4:
                scheduler.remove(2)
            if number == 5:
                scheduler.add(SamplingParams(seed=9, **LOWERING[0]), prompt_of(40), request_id=40)
            if number == 6:
                scheduler.fork(4, new_request_id=41, seed=3)
            if number == 8:
                scheduler.rollback(40, 1)


def test_drafts_see_the_history_that_they_would_have(chip: Chip, backend: AscendBackend) -> None:
    settings = LOWERING[:2]
    ours, reference = new_scheduler(backend, settings), new_scheduler("numpy", settings)
    for number in range(3):
        logits = np.repeat(logits_for(ours, number), 3, axis=0)
        drafts = [logits[3 * i].argsort()[-2:].tolist() for i in range(2)]
        array = NpuArray(chip, logits)
        result = ours.step(array, draft_token_ids=drafts)
        assert result.token_ids.tolist() == reference.step(logits, draft_token_ids=drafts).token_ids.tolist()
        array.free()


def test_a_long_history_needs_more_candidates(chip: Chip, backend: AscendBackend) -> None:
    """All that would have been best has occurred."""
    settings = ({"presence_penalty": 50.0, "temperature": 0.0},)
    for seen, is_read in ((400, False), (3000, True)):
        logits = np.random.default_rng(2).normal(0, 2, (1, VOCAB)).astype(np.float32)
        best = np.argsort(-logits[0])[:seen].tolist()
        schedulers = []
        for each in (backend, "numpy"):
            scheduler = Scheduler(VOCAB, backend=each)
            scheduler.add(SamplingParams(**settings[0]), [0], output_token_ids=best)
            schedulers.append(scheduler)
        array = NpuArray(chip, logits)
        before = chip.counters().bytes_down
        found = schedulers[0].step(array).token_ids.tolist()
        assert found == schedulers[1].step(logits).token_ids.tolist()
        assert (chip.counters().bytes_down - before >= ROW) == is_read
        array.free()


# --- by the table --------------------------------------------------------------------------------

OK, DECLINED = 0, 5
JOINED, LEFT, GREW = 0, 1, 2


class Histories:
    """The tokens of two requests, as the library is told them."""

    def __init__(self, host: Host, step: Step) -> None:
        self.host, self.step = host, step
        self.lengths, self.prompt_lengths = np.array([4, 2], np.int64), np.array([3, 2], np.int64)
        self.offsets, self.tokens = np.array([0, 8], np.int64), np.zeros(16, np.int64)
        self.tokens[:4], self.tokens[8:10] = [5, 5, 9, 7], [1, 2]
        for name in ("lengths", "prompt_lengths", "offsets", "tokens"):
            setattr(step._table, name, host.ffi.from_buffer("int64_t[]", getattr(self, name)))

    def tell(self, *changes: tuple[int, int, int]) -> None:
        """(slot, kind, tokens before) each."""
        ffi = self.host.ffi
        slots, kinds, befores = (np.array(column) for column in zip(*changes, strict=True))
        held = slots.astype(np.int32), kinds.astype(np.int32), befores.astype(np.int64)
        struct = self.host.table.new(
            "es_changes",
            n=len(changes),
            table=self.step._table,
            slots=ffi.from_buffer("int32_t[]", held[0]),
            kinds=ffi.from_buffer("int32_t[]", held[1]),
            befores=ffi.from_buffer("int64_t[]", held[2]),
        )
        assert self.host.api.update(self.host.context, struct) == OK


def penalized_step(host: Host) -> Step:
    logits = np.zeros((2, 64), np.float32)
    logits[:, 5], logits[:, 9], logits[:, 20] = 4, 3, 2.5
    params = {"frequency_penalty": 1.0, "counting_reach": -1, "repetition_penalty": 1.0}
    return Step(host, logits, [["penalties", "greedy"]], params=params)


def test_counts_of_prompt_and_output_lower_tokens(host: Host) -> None:
    step = penalized_step(host)
    histories = Histories(host, step)
    histories.tell((0, JOINED, 0), (1, JOINED, 0))
    assert step.finish(step.run()).tokens.tolist() == [20, 5]  # 5 is lowered to 2, and 9 to 2
    step.free()


def test_rows_whose_history_is_not_known_are_declined(host: Host) -> None:
    step = penalized_step(host)
    histories = Histories(host, step)
    assert step.finish(step.run()).status.tolist() == [DECLINED] * 2
    histories.tell((0, JOINED, 0), (1, JOINED, 0))
    histories.tell((0, LEFT, 0))
    assert step.finish(step.run()).status.tolist() == [DECLINED, OK]
    histories.tell((0, JOINED, 0), (1, GREW, 1))  # one that does not fit what is known
    assert step.finish(step.run()).status.tolist() == [OK, DECLINED]
    step.free()


def test_rows_whose_history_changes_while_the_step_is_open_are_declined(host: Host) -> None:
    step = penalized_step(host)
    histories = Histories(host, step)
    histories.tell((0, JOINED, 0), (1, JOINED, 0))
    assert step.run() == OK
    histories.lengths[1] = 3
    histories.tell((1, GREW, 2))
    assert step.finish().status.tolist() == [OK, DECLINED]
    assert step.finish(step.run()).status.tolist() == [OK, OK]
    step.free()
