"""Random programs and random requests, for as long as the user chooses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from ...backends.library.binding import HOST, Device, Library
from ...backends.library.header import number as code_of
from ...contract import Chain
from ..cases import times
from ..results import FAILED, NOT_PROMISED, PASSED, CheckResult
from .bench import Room, Tally, observed_problem
from .boundaries import boundary_steps
from .observing import LibraryStep, Observed
from .random_steps import (
    Repertoire,
    random_chain,
    random_notes,
    random_request,
    random_size,
    random_step,
    random_tokens,
    rows_for,
)
from .settings import Random

BUDGET = 5.0
"""Seconds of processor time that each of the three takes unless the user chooses; ENGINE_SAMPLER_TEST_ROUNDS
multiplies them."""

Trying = Callable[[str], None]
"""Called with what is tried, before it is."""

Search = Callable[[Library, Repertoire, int, Tally], Iterator[str | None]]
"""Steps of one seed; yields what is wrong with each, or None."""


def random_programs(
    library: Library, seconds: float, seed: int = 0, trying: Trying = lambda what: None
) -> CheckResult:
    """Random programs on random rows, from `seed` on; a failure names the seed with which it comes first.

    seconds  for how long; 0: for `BUDGET` of processor time.
    """
    return searched("random programs", "programs", _programs, library, seconds, seed, trying)


def random_requests(
    library: Library, seconds: float, seed: int = 0, trying: Trying = lambda what: None
) -> CheckResult:
    """Random requests, which join, fork, are rolled back, and leave their slots to others."""
    return searched("random requests", "steps", _requests, library, seconds, seed, trying)


def random_boundaries(
    library: Library, seconds: float, seed: int = 0, trying: Trying = lambda what: None
) -> CheckResult:
    """Numbers at the value at which a result changes."""
    return searched("random boundaries", "boundaries", boundary_steps, library, seconds, seed, trying)


def searched(
    name: str,
    unit: str,
    search: Search,
    library: Library,
    seconds: float,
    seed: int,
    trying: Trying,
    device: Device = HOST,
) -> CheckResult:
    """The result of a search from `seed` on, for `seconds` or, if these are 0, for `BUDGET`."""
    clock, limit = (time.monotonic, seconds) if seconds > 0 else (time.process_time, times(1) * BUDGET)
    tally, done, end, number = Tally(), 0, clock() + limit, seed
    known = Repertoire.of(library, device)
    if not known.selectors:
        return CheckResult(name, NOT_PROMISED, "it runs no selector")
    while clock() < end:
        trying(f"seed {number}")
        for problem in search(library, known, number, tally):
            done += 1
            if problem is not None:
                return CheckResult(name, FAILED, f"seed {number}, step {done}: {problem}")
            if clock() >= end:
                break
        number += 1
    spent = f"{seconds:g} s" if seconds > 0 else f"{limit:g} s of processor time"
    detail = f"{done:,} {unit} from seed {seed} in {spent}: {tally}"
    return CheckResult(name, PASSED if done else NOT_PROMISED, detail)


def program_steps(library: Library, known: Repertoire, number: int) -> Iterator[tuple[Room, LibraryStep]]:
    """Some steps of several programs each, in a context of their own."""
    random = np.random.default_rng([7, number])
    room = Room(library, random_size(random))
    chains = list(filter(None, (random_chain(random, room, known) for _ in range(random.integers(1, 7)))))
    for _ in range(3 if chains else 0):
        chosen = [chains[random.integers(len(chains))] for _ in range(rows_for(random, room))]
        requests = [(chain, random_request(random, room, chain)) for chain in chosen]
        step = random_step(random, room, requests)
        if step is not None:
            yield room, step
        if room.size > 10_000:
            break


def _programs(library: Library, known: Repertoire, number: int, tally: Tally) -> Iterator[str | None]:
    for room, step in program_steps(library, known, number):
        yield observed_problem(room, step, tally)[0]


# --- requests ------------------------------------------------------------------------------------

_STEPS, _MOST_LIVE = 24, 12


class Life:
    """Requests of a room in few slots, which change hands. Subclasses may take other steps."""

    def __init__(self, room: Room, known: Repertoire, random: Random, tally: Tally) -> None:
        self._random, self._tally, self._room = random, tally, room
        chains = (random_chain(random, room, known) for _ in range(4))
        self._chains = self._together([chain for chain in chains if chain is not None])
        self._live: list[tuple[Chain, int]] = []

    def steps(self) -> Iterator[str | None]:
        """Its steps, and what is wrong with each."""
        random = self._random
        for _ in range(_STEPS if self._chains else 0):
            self._change()
            if not self._live:
                continue
            some = random.permutation(len(self._live))[: random.integers(1, len(self._live) + 1)]
            chosen = self._within_limits([self._live[i] for i in some])
            step = random_step(random, self._room, chosen) if chosen else None
            if step is not None:
                problem, observed = self._try(step)
                yield problem
                if observed is not None and random.random() < 0.8:
                    self._continue(step, observed)

    def _together(self, chains: list[Chain]) -> list[Chain]:
        """Those chains that may be in one call."""
        return chains

    def _within_limits(self, chosen: list[tuple[Chain, int]]) -> list[tuple[Chain, int]]:
        """Those requests that a call may have."""
        return chosen

    def _try(self, step: LibraryStep) -> tuple[str | None, Observed | None]:
        """Take a step; what is wrong with it, and what it did."""
        return observed_problem(self._room, step, self._tally)

    def _change(self) -> None:
        """Requests join, are rolled back, fork, go on with tokens from elsewhere, and leave."""
        random, slots = self._random, self._room.slots
        for chain, slot in list(self._live):
            kind, output = random.random(), slots.entries[slot].history.output_length
            if kind < 0.2 and output:
                n = int(random.integers(1, min(output, int(random.choice([2, 40, 400]))) + 1))
                slots.rollback(slot, n)
            if kind < 0.1 or 0.4 < kind < 0.55:
                n = int(random.choice([1, 2, 5, 30, 120]))
                slots.accept(slot, random_tokens(random, self._room.size, n), random_notes(random, n))
            elif kind > 0.9:
                slots.remove(slot)
                self._live.remove((chain, slot))
            elif kind > 0.8 and len(self._live) < _MOST_LIVE:
                child = slots.put(slots.entries[slot].fork(), slots.given(slot), int(random.integers(2**63)))
                self._live.append((chain, child))
        while len(self._live) < _MOST_LIVE and random.random() < 0.6:
            chain = self._chains[random.integers(len(self._chains))]
            self._live.append((chain, random_request(random, self._room, chain)))

    def _continue(self, step: LibraryStep, observed: Observed) -> None:
        """The requests get the tokens that the library drew, or others that make repeats likelier."""
        random, slots = self._random, self._room.slots
        for i, (row, slot) in enumerate(zip(step.index.tolist(), step.slot_numbers.tolist(), strict=True)):
            if observed.code == code_of("ES_OK") and observed.status[i] == code_of("ES_ROW_OK"):
                drawn = [int(observed.token_ids[row])]
                tokens = drawn if random.random() < 0.6 else random_tokens(random, self._room.size, 1)
                slots.accept(slot, tokens, [float(observed.notes[row])])


def _requests(library: Library, known: Repertoire, number: int, tally: Tally) -> Iterator[str | None]:
    random = np.random.default_rng([9, number])
    room = Room(library, int(random.choice([3, 40, 300])), capacity=2)
    return Life(room, known, random, tally).steps()
