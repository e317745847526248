"""Random programs on random rows, for as long as the user chooses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...arithmetic import LogitRows
from ...backends.library.binding import Library
from ...contract import ParameterError
from ...params import SamplingParams
from ..cases import KINDS
from ..results import FAILED, NOT_PROMISED, PASSED, CheckResult
from ..trials import built_in_parts
from .bench import Room, Settings, Tally, mask_of, problem_of
from .situations import supported

_SIZES = (1, 2, 7, 40, 255, 256, 257, 1000, 4099, 33_000)
_KINDS = [name for name in KINDS if name != "extreme"]


def random_programs(library: Library, seconds: float, seed: int = 0) -> CheckResult:
    """Random programs for `seconds`; a failure names the seed of its step, with which it comes first."""
    tally, programs, end = Tally(), 0, time.monotonic() + seconds
    number = seed
    while time.monotonic() < end:
        random = np.random.default_rng([7, number])
        for what, problem in _tried(library, random, tally):
            programs += 1
            if problem is not None:
                return CheckResult("random programs", FAILED, f"seed {number}, {what}: {problem}")
            if time.monotonic() >= end:
                break
        number += 1
    detail = f"{programs:,} programs from seed {seed} in {seconds:g} s: {tally}"
    return CheckResult("random programs", PASSED if programs else NOT_PROMISED, detail)


def _tried(library: Library, random: np.random.Generator, tally: Tally) -> Iterator[tuple[str, str | None]]:
    """Some steps of several programs each, in a context of their own."""
    room = Room(library, int(random.choice(_SIZES)))
    chains = supported(room, [_settings(random) for _ in range(12)])[:5]
    for _ in range(3 if chains else 0):
        n = int(random.integers(1, 4 if room.size > 10_000 else 30))
        rows = random.permutation(n + int(random.integers(0, n + 1)))[:n]
        logits = np.full((int(rows.max()) + 1, room.size), np.float32(np.nan))
        logits[rows] = [KINDS[random.choice(_KINDS)](random, room.size) for _ in range(n)]
        masked = [g for g in chains if g in supported(room, chains, masked=True)] if n % 2 else []
        groups = []
        for settings, share in zip(chains, np.array_split(rows, len(chains)), strict=True):
            if len(share):
                prompts = [_history(random, room.size) for _ in share]
                requests = room.requests(
                    settings,
                    random.integers(0, 2**63, len(share)),
                    positions=random.integers(0, 1 << int(random.integers(1, 50)), len(share)),
                    prompts=prompts,
                )
                groups.append(room.group(settings, requests, share, masked=settings in masked))
        bits = random.random((len(logits), room.size)) < random.choice([0.02, 0.5, 0.98])
        step = room.step(groups, LogitRows(logits, room.size), mask_of(bits) if masked else None)
        if room.runs(step):
            yield f"{room.size} tokens", problem_of(room, step, tally)


def _settings(random: np.random.Generator) -> Settings:
    """The examples of up to five samplers and selectors together."""
    given = [dict(example.params) for part in built_in_parts() for example in part.examples]
    while True:
        together: dict[str, Any] = {}
        for i in random.permutation(len(given))[: random.integers(0, 6)]:
            together |= given[i]
        try:
            SamplingParams(**together)
        except ParameterError:  # two selectors, say
            continue
        return together


def _history(random: np.random.Generator, size: int) -> list[int]:
    few: list[int] = random.integers(0, min(size, 4), int(random.integers(0, 60))).tolist()
    return few
