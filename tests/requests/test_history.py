"""The pool that holds all histories, and histories attached to it or not."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine_sampler import SamplingParams
from engine_sampler.contract import Vocabulary
from engine_sampler.params import build_chain
from engine_sampler.registry import default_registry
from engine_sampler.requests.draws import DrawnTokens
from engine_sampler.requests.history import History, TokenPool
from engine_sampler.requests.slots import Slots
from engine_sampler.requests.state import RequestState

VOCABULARY = Vocabulary(50)

ids = st.lists(st.integers(0, 49), max_size=90)
note = st.one_of(st.none(), st.floats(0, 9))


class Plain:
    """A request's tokens and notes, as lists."""

    def __init__(self, prompt: list[int], output: list[int]) -> None:
        self.prompt, self.output = prompt, list(output)
        self.notes: list[float | None] = [None] * len(output)

    def check(self, history: History) -> None:
        assert history.prompt_token_ids.tolist() == self.prompt
        assert history.output_token_ids.tolist() == self.output
        assert history.token_ids.tolist() == self.prompt + self.output
        assert len(history) == len(self.prompt + self.output)
        assert [None if math.isnan(n) else n for n in history.output_notes.tolist()] == self.notes


class SlotChanges(RuleBasedStateMachine):
    """Requests join, accept tokens, roll back, fork and leave; lists record the expected content."""

    def __init__(self) -> None:
        super().__init__()
        self.slots = Slots(VOCABULARY, default_registry().catalogue.params, capacity=1)
        self.plain: dict[int, Plain] = {}
        self.left: list[tuple[History, Plain]] = []
        self.epochs: set[int] = set()
        self.pools: set[int] = set()

    def put(self, slot: RequestState, plain: Plain) -> None:
        number = self.slots.put(slot, {}, 0)
        self.plain[number] = plain
        self.expect_new_epoch(number)

    def expect_new_epoch(self, number: int) -> None:
        epoch = int(self.slots.epochs[number])
        assert epoch not in self.epochs
        self.epochs.add(epoch)

    def pick(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.plain)))

    @rule(prompt=ids, output=ids)
    def join(self, prompt: list[int], output: list[int]) -> None:
        slot = RequestState(build_chain(SamplingParams()), History(prompt, output))
        slot.open(SamplingParams(), VOCABULARY)
        self.put(slot, Plain(prompt, output))

    @precondition(lambda self: self.plain)
    @rule(data=st.data(), more=st.lists(st.tuples(st.integers(0, 49), note), max_size=200))
    def accept(self, data: st.DataObject, more: list[tuple[int, float | None]]) -> None:
        number = self.pick(data)
        tokens, notes = [t for t, _ in more], [n for _, n in more]
        self.slots.append(number, tokens, notes)
        self.plain[number].output += tokens
        self.plain[number].notes += notes

    @precondition(lambda self: self.plain)
    @rule(data=st.data(), times=st.integers(1, 90))
    def extend(self, data: st.DataObject, times: int) -> None:
        numbers = data.draw(st.lists(st.sampled_from(sorted(self.plain)), unique=True, min_size=1))
        for step in range(times):
            tokens = (np.arange(len(numbers)) + step) % 50
            notes = np.where(tokens % 3 == 0, np.nan, tokens / 4)
            self.slots.extend(DrawnTokens.of(np.array(numbers), tokens, notes))
            for i, number in enumerate(numbers):
                self.plain[number].output.append(int(tokens[i]))
                self.plain[number].notes.append(None if math.isnan(notes[i]) else float(notes[i]))

    @precondition(lambda self: self.plain)
    @rule(data=st.data())
    def rollback(self, data: st.DataObject) -> None:
        number = self.pick(data)
        plain = self.plain[number]
        n = data.draw(st.integers(0, len(plain.output)))
        self.slots.rollback(number, n)
        del plain.output[len(plain.output) - n :], plain.notes[len(plain.notes) - n :]
        self.expect_new_epoch(number)

    @precondition(lambda self: self.plain)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        number = self.pick(data)
        child = Plain(self.plain[number].prompt, self.plain[number].output)
        child.notes = self.plain[number].notes.copy()
        self.put(self.slots.entries[number].fork(), child)

    @precondition(lambda self: self.plain)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        number = self.pick(data)
        history = self.slots.entries[number].history
        self.slots.remove(number)
        self.left.append((history, self.plain.pop(number)))

    @invariant()
    def arrays_and_histories_hold_what_the_lists_hold(self) -> None:
        slots = self.slots
        for number, plain in self.plain.items():
            plain.check(slots.entries[number].history)
            start, length = int(slots.offsets[number]), int(slots.lengths[number])
            assert slots.tokens[start : start + length].tolist() == plain.prompt + plain.output
            assert slots.prompt_lengths[number] == len(plain.prompt)
            assert slots.positions[number] == length
        for history, plain in self.left:
            plain.check(history)

    @invariant()
    def every_cell_belongs_to_one_region_or_is_unused(self) -> None:
        pool = self.slots.pool
        regions = [(int(pool.offsets[n]), int(pool._sizes[n])) for n in self.plain]
        cells = sorted([*regions, *pool._gaps, *pool._left])
        assert [0, *map(sum, cells)] == [*(start for start, _ in cells), len(pool.tokens)]

    @invariant()
    def the_pool_stays_within_a_constant_factor_of_its_content(self) -> None:
        held = sum(len(p.prompt + p.output) for p in self.plain.values())
        detached = sum(len(p.prompt + p.output) for _, p in self.left)
        assert len(self.slots.tokens) <= 16 * (held + detached + 200 * (len(self.plain) + len(self.left) + 1))


TestSlotChanges = SlotChanges.TestCase
TestSlotChanges.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)


def test_cells_of_requests_that_left_are_reused() -> None:
    pool = TokenPool(4)
    tokens = np.arange(1000)
    for _ in range(200):
        pool.open(0, tokens)
        assert pool.tokens_of(0).tolist() == tokens.tolist()
        pool.close(0)
    assert len(pool.tokens) <= 8000


def test_requests_that_join_an_empty_pool_have_few_others_moved() -> None:
    pool, moved = TokenPool(64), 0
    for slot in range(64):
        before = pool.tokens
        pool.open(slot, np.arange(100))
        moved += 0 if pool.tokens is before else slot
    assert moved < 64


def test_regions_that_are_nearly_full_move_together() -> None:
    pool = TokenPool(8)
    for slot in range(8):
        pool.open(slot, np.zeros(60 + slot, np.int64))
    moves, offsets = 0, pool.offsets.copy()
    for step in range(400):
        pool.extend(np.arange(8), np.full(8, step), np.zeros(8))
        moves += (pool.offsets != offsets).any()
        offsets = pool.offsets.copy()
    assert 1 <= moves <= 400 // 16
    assert all(pool.tokens_of(slot)[60 + slot :].tolist() == list(range(400)) for slot in range(8))


def test_an_array_that_is_still_referenced_is_not_rewritten_when_the_pool_grows() -> None:
    pool = TokenPool(2)
    pool.open(0, np.array([7, 8]))
    kept = pool.tokens_of(0)
    pool.open(1, np.arange(5000))
    pool.close(1)
    pool.open(1, np.arange(9000))
    assert kept.tolist() == [7, 8] == pool.tokens_of(0).tolist()


def test_tokens_chosen_elsewhere_have_no_notes() -> None:
    history = History([1], [2])
    history.accept([3, 4], [0.5, None])
    history.accept([5])
    assert np.flatnonzero(~np.isnan(history.output_notes)).tolist() == [1]
    assert history.fork().output_notes[1] == 0.5


@pytest.mark.parametrize("length", [0, 1, 200])
def test_a_history_keeps_its_content_when_it_is_attached_and_detached(length: int) -> None:
    history, pool = History(range(length), [3]), TokenPool(1)
    history.accept([4], [1.25])
    before = history.token_ids.tolist(), history.output_notes.tolist()[-1]
    history.attach(pool, 0)
    assert (history.token_ids.tolist(), history.output_notes.tolist()[-1]) == before
    history.detach()
    assert (history.token_ids.tolist(), history.output_notes.tolist()[-1]) == before
    assert pool.lengths[0] == 0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, NumPy asks for no huge pages")
def test_notes_far_from_each_other_take_little_memory() -> None:
    """As those of siblings with a long prompt are."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    pool = TokenPool(64)
    pool.reserve(300_000, 64)
    before = resident()
    for slot in range(64):
        pool.notes[slot * 301_000] = 0.5
    assert resident() - before < 16 << 20
