"""What a call to a library reuses from step to step, and what it must read again."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.arithmetic import LogitRows
from engine_sampler.backends.library import LibraryBackend
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.contract import Batch, Group, Rows

from ...random_chains import random_rows
from .building import toy

SIZE = 70
N = 5


@pytest.fixture(params=["toy", "native"])
def backend(request: pytest.FixtureRequest) -> LibraryBackend:
    return LibraryBackend(toy() if request.param == "toy" else request.getfixturevalue("packaged"))


@pytest.fixture
def group() -> Group:
    chain, rows = random_rows(np.random.default_rng(0), SamplingParams(top_k=12, temperature=0.9), N, SIZE)
    return Group(chain, np.arange(N), rows)


def some_logits(seed: int = 0, rows: int = N, width: int = SIZE) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 2, (rows, width)).astype(np.float32)


def batch_of(logits: Any, *groups: Group, cache: dict[Any, Any] | None = None, **given: Any) -> Batch:
    rows = logits if isinstance(logits, LogitRows) else LogitRows(logits, SIZE)
    n = len(rows)
    empty = np.full(n, -1, np.int64), np.full(n, np.nan), [None] * n
    return Batch(rows, list(groups), *empty, cache={} if cache is None else cache, **given)


def expect_tokens_of_numpy(backend: LibraryBackend, batch: Batch) -> None:
    expected = batch_of(batch.logits, *batch.groups, bitmask=batch.bitmask)
    NumpyBackend().run(expected)
    backend.run(batch)
    assert batch.errors == expected.errors
    np.testing.assert_array_equal(batch.token_ids, expected.token_ids)


# --- layouts of logits ----------------------------------------------------------------------------


def padded(logits: np.ndarray) -> np.ndarray:
    wide = np.full((N, SIZE + 9), np.nan, logits.dtype)
    wide[:, :SIZE] = logits
    return wide


def misaligned(logits: np.ndarray) -> np.ndarray:
    memory = np.zeros(logits.nbytes + 1, np.uint8)
    view = memory[1:].view(logits.dtype).reshape(logits.shape)
    view[:] = logits
    return view


def read_only(logits: np.ndarray) -> np.ndarray:
    logits.flags.writeable = False
    return logits


LAYOUTS = {
    "compact": lambda x: x,
    "padded": padded,
    "padded and cut": lambda x: padded(x)[:, :SIZE],
    "from last to first": lambda x: x[::-1],
    "every other row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "one row for all": lambda x: np.broadcast_to(x[0], x.shape),
    "columns first": np.asfortranarray,
    "misaligned": misaligned,
    "in a record": lambda x: np.rec.fromarrays(
        [np.zeros(N, "S3"), x], dtype=[("a", "S3"), ("x", "f4", SIZE)]
    )["x"],
    "read-only": read_only,
    "float16": lambda x: x.astype(np.float16),
    "float16 from last to first": lambda x: x.astype(np.float16)[::-1],
    "bfloat16": lambda x: LogitRows.from_bfloat16_bits((x.view(np.uint32) >> 16).astype(np.uint16), SIZE),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_logits_may_have_any_layout(backend: LibraryBackend, group: Group, layout: str) -> None:
    expect_tokens_of_numpy(backend, batch_of(LAYOUTS[layout](some_logits()), group))


def test_the_layout_may_change_from_step_to_step(backend: LibraryBackend, group: Group) -> None:
    cache: dict[Any, Any] = {}
    for _ in range(2):
        for layout in LAYOUTS.values():
            expect_tokens_of_numpy(backend, batch_of(layout(some_logits()), group, cache=cache))


def test_bfloat16_bits_are_the_upper_halves_of_floats() -> None:
    rows = LogitRows.from_bfloat16_bits(np.array([[0x3FC0, 0xC000, 0xFF80]], np.uint16), 2)
    assert (rows.row(0) == np.float32([1.5, -2.0])).all()
    assert (len(rows), rows.width) == (1, 3)


# --- the same groups again -----------------------------------------------------------------------


def test_a_batch_may_be_run_again(backend: LibraryBackend, group: Group) -> None:
    logits = some_logits()
    batch = batch_of(logits, group)
    for seed in range(3):
        logits[:] = some_logits(seed)  # an engine that keeps its buffer
        expect_tokens_of_numpy(backend, batch)


def test_new_logits_and_outputs_are_seen(backend: LibraryBackend, group: Group) -> None:
    cache: dict[Any, Any] = {}
    for seed in range(3):
        expect_tokens_of_numpy(backend, batch_of(some_logits(seed), group, cache=cache))


def test_more_rows_of_logits_are_seen(backend: LibraryBackend, group: Group) -> None:
    cache: dict[Any, Any] = {}
    for rows in (N, 3 * N, N + 1):
        expect_tokens_of_numpy(backend, batch_of(some_logits(rows, rows), group, cache=cache))


def test_new_tokens_are_seen_when_slots_and_pool_have_grown(packaged: Path) -> None:
    backend = LibraryBackend(packaged)
    random = np.random.default_rng(1)
    chain, rows = random_rows(random, SamplingParams(dry_multiplier=2.0, repetition_penalty=1.5), 2, SIZE)
    slots = rows.slots
    batch = batch_of(some_logits(), Group(chain, np.arange(2), rows))
    for step in range(120):
        for slot in rows.slot_numbers.tolist():
            slots.accept(slot, [step % 4])
        if step % 3 == 0:
            slots.put(slots.entries[0].fork(), slots.given(0), 5)
        expect_tokens_of_numpy(backend, batch)


@pytest.mark.parametrize("grow", ["slots", "pool"])
def test_offsets_are_replaced_whenever_another_array_is(group: Group, grow: str) -> None:
    slots = group.rows.slots
    names = ("seeds", "positions", "lengths", "prompt_lengths", "epochs", "tokens", "notes")
    for _ in range(300):
        before, offsets = [getattr(slots, name) for name in names], slots.offsets
        if grow == "slots":
            slots.put(slots.entries[0].fork(), slots.given(0), 5)
        else:
            slots.accept(0, [1] * 7)
        replaced = any(getattr(slots, name) is not array for name, array in zip(names, before, strict=True))
        assert not replaced or slots.offsets is not offsets


def test_masks_are_read_again_in_every_step(backend: LibraryBackend, group: Group) -> None:
    group.masked = True
    cache: dict[Any, Any] = {}
    random = np.random.default_rng(3)
    words = np.zeros((N, 2 * 3), np.int32)
    for _ in range(4):
        words[:] = random.integers(-(2**31), 2**31, words.shape)
        for mask in (words.copy()[:, :3], words[:, :3], words[:, ::2]):
            expect_tokens_of_numpy(backend, batch_of(some_logits(), group, bitmask=mask, cache=cache))


def test_rows_that_no_group_names_stay_untouched(backend: LibraryBackend, group: Group) -> None:
    part = Group(group.plan, np.array([4, 1]), group.rows.take(np.array([0, 3])))
    batch = batch_of(some_logits(), part)
    batch.token_ids[:] = -7
    backend.run(batch)
    assert (batch.token_ids == -7).tolist() == [True, False, True, True, False]


def test_a_batch_without_rows_does_nothing(backend: LibraryBackend, group: Group) -> None:
    backend.run(batch_of(some_logits(rows=0)))
    empty = Group(group.plan, np.zeros(0, np.int64), group.rows.take(np.zeros(0, np.int64)))
    backend.run(batch_of(some_logits(rows=0), empty))


def test_logits_are_not_kept_alive(backend: LibraryBackend, group: Group) -> None:
    cache: dict[Any, Any] = {}
    logits = some_logits()
    alive = weakref.ref(logits)
    backend.run(batch_of(logits, group, cache=cache))
    del logits
    gc.collect()
    assert alive() is None
    expect_tokens_of_numpy(backend, batch_of(some_logits(1), group, cache=cache))


# --- other calls ----------------------------------------------------------------------------------


@pytest.mark.parametrize("extreme", [0.0, 3e38, -3e38, np.inf, -np.inf])
def test_apply_and_select_do_what_numpy_does(backend: LibraryBackend, group: Group, extreme: float) -> None:
    logits = some_logits()
    logits[1, 3] = extreme
    expected = logits.copy()
    NumpyBackend().apply(group.plan, expected, group.rows)
    backend.apply(group.plan, logits, group.rows)
    np.testing.assert_array_equal(logits, expected)
    chosen, right = (b.select(group.plan, expected, group.rows) for b in (backend, NumpyBackend()))
    np.testing.assert_array_equal(chosen.columns, right.columns)
    assert chosen.notes is right.notes is None


def test_apply_and_select_work_on_a_subset_of_columns(backend: LibraryBackend, group: Group) -> None:
    ids = np.sort(np.random.default_rng(5).permuted(np.tile(np.arange(SIZE), (N, 1)), axis=1)[:, :30], axis=1)
    rows: Rows = group.rows.take(slice(None), ids)
    logits = np.take_along_axis(some_logits(), ids, axis=1)
    expected = logits.copy()
    NumpyBackend().apply(group.plan, expected, rows)
    backend.apply(group.plan, logits, rows)
    np.testing.assert_array_equal(logits, expected)
    assert (backend.select(group.plan, logits, rows).columns < 30).all()


def test_process_and_logprobs_are_those_of_numpy(backend: LibraryBackend) -> None:
    def run(who: Any) -> tuple[np.ndarray, np.ndarray]:
        scheduler = Scheduler(SIZE, backend=who)
        modes = ("raw", "penalized", "processed")
        for seed in range(3):
            given = {"top_k": 9, "temperature": 0.5, "frequency_penalty": 0.5 * seed}
            scheduler.add(SamplingParams(**given, seed=seed, logprobs=2, logprobs_mode=modes), [1, 2])
        for step in range(3):
            result = scheduler.step(some_logits(step, 3))
        joined = np.concatenate([result.logprobs.by_mode[mode].logprobs for mode in modes])
        return scheduler.process(some_logits(9, 3)), joined

    for mine, right in zip(run(backend), run("numpy"), strict=True):
        np.testing.assert_array_equal(mine, right)


def test_drafts_are_checked_round_by_round(backend: LibraryBackend) -> None:
    def run(who: Any) -> list[int]:
        scheduler = Scheduler(SIZE, backend=who)
        request = scheduler.add(SamplingParams(top_k=2, seed=1, repetition_penalty=1.2), [4, 5])
        for step in range(8):
            logits = some_logits(step, 3)
            scheduler.step(logits, draft_token_ids=[logits[:2].argmax(axis=1).tolist()])
        return scheduler.record(request).token_ids

    tokens = run(backend)
    assert tokens == run("numpy")
    assert len(tokens) > 8
