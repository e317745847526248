"""Whatever a plugin returns, raises, or does to its arguments: `step` returns, and the other requests get the
same tokens.

Each method of each contract is tried with everything in the catalogue, at its first call and at a later one.
ENGINE_SAMPLER_TEST_ROUNDS above 1 tries every case on every backend, otherwise they take turns.
"""

from __future__ import annotations

import functools
import logging
import os
from collections import Counter
from typing import Any

import pytest

from engine_sampler import SamplingParams
from engine_sampler.contract import failure

from ..chaos.world import BACKENDS
from ..engines import outcome
from .cases import SOUND, Case, behaviours
from .victims import VICTIMS, Victim

THOROUGH = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1")) > 1
AFTER = (0, 3)
"""How many calls go well before the method misbehaves."""

BEHAVIOURS = dict(behaviours())


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


def run_all(victim: Victim) -> tuple[Counter[str], list[str]]:
    """Run every case of a victim; returns the outcomes, counted, and the failures."""
    outcomes: Counter[str] = Counter()
    failures = []
    turn = 0
    for name, behaviour in BEHAVIOURS.items():
        for after in AFTER:
            turn += 1
            for backend in BACKENDS if THOROUGH else (BACKENDS[turn % len(BACKENDS)],):
                case = Case(_unused, behaviour, after, backend)
                victim.prepare(case, victim.method)
                try:
                    case.run(expected(backend), victim.isolated)
                except BaseException as error:
                    if isinstance(error, (KeyboardInterrupt, SystemExit)):
                        raise
                    failures.append(f"{name}, after {after}, {backend}: {failure(str(victim), error)}"[:400])
                outcomes[case.outcome if case.calls > after else "not called"] += 1
    return outcomes, failures


@pytest.mark.parametrize("victim", VICTIMS, ids=str)
def test_a_plugin_harms_only_its_own_request(victim: Victim) -> None:
    logging.getLogger("engine_sampler").setLevel(logging.CRITICAL)
    outcomes, failures = run_all(victim)
    logging.getLogger("engine_sampler").setLevel(logging.NOTSET)
    assert not failures, f"{len(failures)} of {outcomes.total()}:\n" + "\n".join(failures[:20])
    assert outcomes.total() > 100


def test_the_sound_requests_are_of_every_kind() -> None:
    found = expected(BACKENDS[0])
    assert all(isinstance(params, SamplingParams) for params in SOUND.values())
    assert all(len(tokens) >= 3 and finish is not None for tokens, _, finish, *_ in found.values())
    assert len(BEHAVIOURS) > 300
