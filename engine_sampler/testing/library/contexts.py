"""Several contexts of one library: interleaved, and at once from two threads."""

from __future__ import annotations

import threading

import numpy as np

from ...backends.library.binding import Library
from ..results import FAILED, NOT_PROMISED, PASSED, CheckResult
from .bench import Room, Tally, normal_rows, problem_of
from .observing import LibraryStep
from .situations import supported

_TURNS, _SIZE, _ROWS = 12, 30_011, 6


def contexts(library: Library) -> CheckResult:
    """Two contexts whose programs have the same numbers and other parts, used in turn, then by two threads at
    once."""
    made = [_room_with_step(library, seed) for seed in (0, 1)]
    pairs = [pair for pair in made if pair is not None]
    if len(pairs) < 2:
        return CheckResult("contexts", NOT_PROMISED, "it runs no program that is tried")
    tally = Tally()
    for room, step in pairs * 2:
        problem = problem_of(room, step, tally)
        if problem is not None:
            return CheckResult("contexts", FAILED, f"in turn: {problem}")
    problem = _at_once(pairs, tally)
    if problem is not None:
        return CheckResult("contexts", FAILED, f"two threads at once: {problem}")
    return CheckResult("contexts", PASSED, f"2 contexts, in turn and from two threads at once: {tally}")


def _room_with_step(library: Library, seed: int) -> tuple[Room, LibraryStep] | None:
    """A context in which the chains are compiled in another order for every seed."""
    room, random = Room(library, _SIZE + seed), np.random.default_rng(seed)
    chains = supported(room)[:4]
    if seed % 2:
        chains.reverse()
    if not chains:
        return None
    groups = []
    for number, index in enumerate(np.array_split(np.arange(_ROWS), len(chains))):
        if len(index):
            requests = room.requests(chains[number], random.integers(0, 2**63, len(index)))
            groups.append(room.group(chains[number], requests, index))
    return room, room.step(groups, normal_rows(random, _ROWS, room.size, 0.5))


def _at_once(pairs: list[tuple[Room, LibraryStep]], tally: Tally) -> str | None:
    problems: list[str] = []
    start = threading.Barrier(len(pairs))

    def turns(room: Room, step: LibraryStep) -> None:
        try:
            start.wait()
            own = Tally()
            for _ in range(_TURNS):
                if problems:
                    return
                problem = problem_of(room, step, own)
                if problem is not None:
                    problems.append(problem)
            tally.calls += own.calls
            tally.rows += own.rows
        except Exception as error:
            problems.append(str(error))

    threads = [threading.Thread(target=turns, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems[0] if problems else None
