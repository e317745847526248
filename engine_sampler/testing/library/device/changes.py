"""Requests that change between calls, and what a library near the logits is told of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ....backends.library.binding import Device, Library
from ....contract import Chain
from ....params import SamplingParams, build_chain
from ..bench import Settings, Tally, normal_rows
from ..observing import LibraryStep
from ..random_steps import random_tokens
from .calling import CallOnDevice, CallOptions, attempt, judged_on_device, own_plans
from .checks import Tried
from .room import RoomOnDevice
from .steps import PENALTIES, by_random_kind, chains_on, most_rows

_SIZE, _TURNS = 13, 5


class _Request(NamedTuple):
    given: Settings
    slot: int


def changes(library: Library, device: Device, tally: Tally) -> Tried:
    """Histories that grow, are rolled back and grow otherwise; slots that change hands; notices in pieces,
    early, and again. The tokens follow from the histories."""
    with RoomOnDevice(library, device, _SIZE, capacity=2) as probe:
        kinds = by_random_kind(probe, chains_on(probe, PENALTIES))
    for together in kinds:
        for seed in range(_TURNS):
            with RoomOnDevice(library, device, _SIZE, capacity=2) as room:
                yield from _Story(room, together, seed, tally).told()


class _Story:
    def __init__(self, room: RoomOnDevice, chains: Sequence[Settings], seed: int, tally: Tally) -> None:
        self._room, self._chains, self._tally = room, chains, tally
        self._random = np.random.default_rng(seed)
        self._most = most_rows(room, chains, 99)
        self._requests = [self._joined(i) for i in range(5)]

    def told(self) -> Tried:
        yield from self._step("requests that have joined")
        self._grow(3)
        yield from self._step("histories that have grown")
        self._roll_back(2)
        yield from self._step("histories that are rolled back")
        self._grow(1)
        self._tell()
        self._grow(2)
        yield from self._step("told in pieces")
        self._roll_back(2)
        self._grow(2)
        yield from self._step("rolled back, and as long as before")
        self._roll_back(3)
        self._tell()
        self._grow(5)
        yield from self._step("rolled back, told, and longer than before")
        self._roll_back(1 << 20)
        self._grow(20)
        yield from self._step("rolled back to the prompt, and longer than before")
        for i in (0, 3):
            self._leave(i)
            self._requests[i] = self._joined(i + 2)
        yield from self._step("slots given to others at once")
        for i in (1, 4):
            self._leave(i)
        self._tell()
        for i in (4, 1):
            self._requests[i] = self._joined(i + 1)
        yield from self._step("slots given to others later")
        yield from self._while_open()
        self._requests += [self._forked(request) for request in self._requests[:3]]
        self._grow(1)
        yield from self._step("forks")
        self._grow(150)
        yield from self._step("long histories")
        self._grow(400)
        yield from self._step("long histories")
        for i in (5, 4, 2):
            self._leave(i)
            del self._requests[i]
        yield from self._step("those that are left")

    def _joined(self, i: int) -> _Request:
        random, given = self._random, self._chains[i % len(self._chains)]
        prompt = random_tokens(random, _SIZE, int(random.integers(0, 9)))
        rows = self._room.requests(given, [int(random.integers(2**63))], prompts=[prompt])
        slot = int(rows.slot_numbers[0])
        self._room.slots.accept(slot, random_tokens(random, _SIZE, 4), [float("nan")] * 4)
        return _Request(given, slot)

    def _forked(self, request: _Request) -> _Request:
        slots = self._room.slots
        entry = slots.entries[request.slot].fork()
        return _Request(
            request.given, slots.put(entry, slots.given(request.slot), int(self._random.integers(99)))
        )

    def _grow(self, n: int) -> None:
        for request in self._requests:
            tokens = random_tokens(self._random, _SIZE, n)
            self._room.slots.accept(request.slot, tokens, [float("nan")] * n)

    def _roll_back(self, n: int) -> None:
        """n tokens of each, or all that are no prompt."""
        slots = self._room.slots
        for request in self._requests:
            slots.rollback(request.slot, min(n, slots.entries[request.slot].history.output_length))

    def _leave(self, i: int) -> None:
        self._room.slots.remove(self._requests[i].slot)

    def _tell(self) -> None:
        self._room.notices.tell(self._random)

    def _step(self, what: str) -> Tried:
        """All requests draw, in as many calls as the library wants."""
        self._tell()
        for first in range(0, len(self._requests), self._most):
            step = self._of(self._requests[first : first + self._most])
            yield what, attempt(self._room, step, self._tally)[0]

    def _of(self, requests: Sequence[_Request]) -> LibraryStep:
        room, groups = self._room, []
        for given in self._chains:
            mine = [(i, request.slot) for i, request in enumerate(requests) if request.given is given]
            if mine:
                chain: Chain = build_chain(SamplingParams(**given))
                group = room.group_of(chain, [slot for _, slot in mine], np.array([i for i, _ in mine]))
                group.want_processed = False
                groups.append(group)
        return room.step(groups, normal_rows(self._random, len(requests), _SIZE, 0.7))

    def _while_open(self) -> Tried:
        """Others change while a call is open."""
        room = self._room
        others = self._requests[2 : 2 + self._most]
        first, second = (self._of(few) for few in (self._requests[: min(2, self._most)], others))
        self._tell()
        early, late = CallOnDevice(room, first), CallOnDevice(room, second)
        plans = own_plans(room, [early, late])
        late.drop()
        early.begin()
        for request in others:
            room.slots.rollback(request.slot, 1)
            room.slots.accept(request.slot, random_tokens(self._random, _SIZE, 2), [float("nan")] * 2)
        self._tell()
        late = CallOnDevice(room, second, CallOptions(polls=True, plan=plans[1] if plans else None))
        late.begin()
        for call, step in ((late, second), (early, first)):
            problem = judged_on_device(room, step, self._tally, call.finish())[0]
            yield "others change while a call is open", problem
        for plan in plans:
            room.release(plan)
