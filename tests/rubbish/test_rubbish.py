"""Whatever a plugin returns, raises, or does to its arguments: `step` returns, and the other requests get the
same tokens.

Each method of each contract is tried with everything in the catalogue, at its first call and at a later one,
on the backends by turns. A quick run tries an eighth of the cases; ENGINE_SAMPLER_TEST_ROUNDS=2 tries all.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from engine_sampler import SamplingParams
from engine_sampler.contract import INTERRUPTIONS, failure

from ..chaos.world import BACKENDS
from ..engines import outcome
from .cases import SOUND, Behaviour, Case, behaviours
from .victims import VICTIMS, Victim

THOROUGH = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1")) > 1
SHARE = 8
"""One of so many cases is tried in a quick run."""

BEHAVIOURS = dict(behaviours())


pytestmark = pytest.mark.filterwarnings("ignore")  # NumPy's, about what plugins compute


@functools.cache
def expected(backend: str) -> dict[str, Any]:
    """What becomes of the sound requests with a sound company."""
    case = Case(
        lambda scheduler, params: scheduler.add(params, [1], request_id="victim"), _unused, 0, backend
    )
    case.run({}, isolated=False)
    return {name: outcome(case.scheduler.record(name)) for name in SOUND}


def _unused(*arguments: Any) -> None:
    raise AssertionError


def cases(victim: Victim) -> Iterator[tuple[str, Behaviour, int, str]]:
    """(name, behaviour, calls that go well, backend) of the cases to try."""
    calls = calls_of(victim)
    turns = itertools.count(VICTIMS.index(victim))
    for name, behaviour in BEHAVIOURS.items():
        for after in sorted({0, calls // 2}):
            turn = next(turns)
            if THOROUGH or turn % SHARE == 0:
                yield name, behaviour, after, BACKENDS[turn // SHARE % len(BACKENDS)]


def calls_of(victim: Victim) -> int:
    """How often the method is called if nothing goes wrong."""
    case = Case(_unused, _unused, 10**9, BACKENDS[-1])  # the native one calls every method, if it is there
    victim.prepare(case, victim.method)
    case.run(expected(BACKENDS[-1]))
    assert case.calls, f"{victim} is never called"
    return case.calls


def run_all(victim: Victim) -> tuple[Counter[str], list[str]]:
    """Run the cases of a victim; returns the outcomes, counted, and the failures."""
    outcomes: Counter[str] = Counter()
    failures = []
    for name, behaviour, after, backend in cases(victim):
        case = Case(_unused, behaviour, after, backend)
        victim.prepare(case, victim.method)
        try:
            case.run(expected(backend), victim.isolated)
        except INTERRUPTIONS:
            raise
        except BaseException as error:
            failures.append(f"{name}, after {after}, {backend}: {failure(str(victim), error)}"[:400])
        outcomes[case.outcome if case.calls > after else "not called"] += 1
    return outcomes, failures


@pytest.mark.parametrize("victim", VICTIMS, ids=str)
def test_a_plugin_harms_only_its_own_request(victim: Victim) -> None:
    logging.getLogger("engine_sampler").setLevel(logging.CRITICAL)
    outcomes, failures = run_all(victim)
    logging.getLogger("engine_sampler").setLevel(logging.NOTSET)
    assert not failures, f"{len(failures)} of {outcomes.total()}:\n" + "\n".join(failures[:20])
    assert outcomes.total() > 40


def test_the_sound_requests_are_of_every_kind() -> None:
    found = expected(BACKENDS[0])
    assert all(isinstance(params, SamplingParams) for params in SOUND.values())
    assert all(len(tokens) >= 3 and finish is not None for tokens, _, finish, *_ in found.values())
    assert len(BEHAVIOURS) > 300
