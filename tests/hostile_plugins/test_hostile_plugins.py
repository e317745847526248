"""Whatever a plugin returns, raises, or does to its arguments: `step` returns, and the other requests get the
same tokens.

Each method of each contract is tried with everything in the catalogue, at its first call and at a later one,
on the backends by turns. A quick run tries a 24th of the cases; ENGINE_SAMPLER_TEST_ROUNDS=2 tries all.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from engine_sampler import Logprobs, ParameterError, SamplingParams, logprobs
from engine_sampler.base.errors import INTERRUPTIONS, failure
from engine_sampler.contract import BackendError
from engine_sampler.explain import trace

from ..engines import outcome
from ..stateful.workload import BACKENDS
from .cases import SOUND, Behaviour, Case, behaviours
from .contracts import METHODS, FaultyMethod, PlainBackend, PlainSampler, registered

THOROUGH = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1")) > 1
SHARE = 24
"""One of so many cases is tried in a quick run."""

BEHAVIOURS = dict(behaviours())
ALONE = {name: behaviour for name, behaviour in BEHAVIOURS.items() if not name.startswith("calls")}
"""Those that use no scheduler."""


pytestmark = pytest.mark.filterwarnings("ignore")  # NumPy's, about what plugins compute


@functools.cache
def expected(backend: str) -> dict[str, Any]:
    """What becomes of the sound requests with a sound company."""
    case = Case(
        lambda scheduler, params: scheduler.add(params, [1], request_id="faulty"), _unused, 0, backend
    )
    case.run({}, isolated=False)
    return {name: outcome(case.scheduler.record(name)) for name in SOUND}


def _unused(*arguments: Any) -> None:
    raise AssertionError


def cases(faulty: FaultyMethod) -> Iterator[tuple[str, Behaviour, int, str]]:
    """(name, behaviour, calls that go well, backend) of the cases to try."""
    calls = calls_of(faulty)
    turns = itertools.count(METHODS.index(faulty))
    for name, behaviour in (ALONE if faulty.outside else BEHAVIOURS).items():
        for after in sorted({0, calls // 2}):
            turn = next(turns)
            if THOROUGH or turn % SHARE == 0:
                yield name, behaviour, after, BACKENDS[turn // SHARE % len(BACKENDS)]


def calls_of(faulty: FaultyMethod) -> int:
    """How often the method is called if nothing goes wrong."""
    case = Case(_unused, _unused, 10**9, BACKENDS[-1])  # the native one calls every method, if it is there
    faulty.prepare(case, faulty.method)
    case.run(expected(BACKENDS[-1]))
    assert case.calls, f"{faulty} is never called"
    return case.calls


def run_all(faulty: FaultyMethod) -> tuple[Counter[str], list[str]]:
    """Run the cases of a faulty method; returns the outcomes, counted, and the failures."""
    outcomes: Counter[str] = Counter()
    failures = []
    for name, behaviour, after, backend in cases(faulty):
        case = Case(_unused, behaviour, after, backend)
        faulty.prepare(case, faulty.method)
        try:
            case.run(expected(backend), faulty.isolated)
        except INTERRUPTIONS:
            raise
        except BaseException as error:
            failures.append(f"{name}, after {after}, {backend}: {failure(str(faulty), error)}"[:400])
        outcomes[case.outcome if case.calls > after else "not called"] += 1
    return outcomes, failures


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("faulty", METHODS, ids=str)
def test_a_plugin_harms_only_its_own_request(faulty: FaultyMethod) -> None:
    logging.getLogger("engine_sampler").setLevel(logging.CRITICAL)
    outcomes, failures = run_all(faulty)
    logging.getLogger("engine_sampler").setLevel(logging.NOTSET)
    assert not failures, f"{len(failures)} of {outcomes.total()}:\n" + "\n".join(failures[:20])
    assert outcomes.total() > 12


# --- backends outside of a scheduler ---------------------------------------------------------------


def broken_backend(method: str, behaviour: Behaviour) -> PlainBackend:
    """A backend one method of which behaves as `behaviour`, which needs no case."""
    broken = PlainBackend()
    right = getattr(broken, method)
    setattr(broken, method, lambda *arguments: behaviour(None, right, arguments))  # type: ignore[arg-type]
    return broken


ROWS = np.random.default_rng(1).normal(0, 3, (3, 9)).astype(np.float32)


def test_a_hostile_value_from_the_selector_of_a_backend_is_no_token_of_a_trace() -> None:
    params = SamplingParams(top_k=3, seed=1)
    right = trace(ROWS[0], params, backend=PlainBackend())[-1].token_id
    for name, behaviour in ALONE.items():
        try:
            drawn = trace(ROWS[0], params, backend=broken_backend("select", behaviour))[-1].token_id
        except (BackendError, ValueError):
            continue
        except INTERRUPTIONS:
            continue
        assert drawn == right or name.startswith(("returns", "spoils")), name
        assert drawn in np.argsort(-ROWS[0])[:3], name


def test_a_hostile_value_from_a_backend_is_no_logprob(monkeypatch: pytest.MonkeyPatch) -> None:
    right = logprobs(ROWS, [1, 2, 3], 2)
    for name, behaviour in ALONE.items():
        backend = broken_backend("logprobs", behaviour)
        monkeypatch.setattr(
            "engine_sampler.stateless.scoring.best_backend", lambda device, backend=backend: backend
        )
        try:
            found = logprobs(ROWS, [1, 2, 3], 2)
        except (BackendError, *INTERRUPTIONS):
            continue
        assert np.array_equal(found.token_ids[:, 0], [1, 2, 3]), name
        assert found.token_ids.shape == right.token_ids.shape, name


@pytest.mark.parametrize(
    "spoil",
    [
        lambda right: Logprobs(right.entry_token_ids[1:], *fields(right)[1:]),
        lambda right: Logprobs(right.entry_token_ids + 1, *fields(right)[1:]),
        lambda right: Logprobs(right.entry_token_ids - 9, *fields(right)[1:]),
        lambda right: Logprobs(right.entry_token_ids.astype(np.int32), *fields(right)[1:]),
        lambda right: Logprobs(*fields(right)[:2], right.starts[::-1].copy(), right.ranks),
        lambda right: Logprobs(*fields(right)[:2], right.starts[:-1], right.ranks[:-1]),
        lambda right: Logprobs(*fields(right)[:3], right.ranks + 99),
        lambda right: Logprobs(*fields(right)[:3], right.ranks.tolist()),
        lambda right: None if right is None else "logprobs",
    ],
)
def test_logprobs_of_other_rows_are_refused(spoil: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    right = logprobs(ROWS, [1, 2, 3], 2)
    backend = broken_backend("logprobs", lambda case, method, arguments: spoil(right))
    monkeypatch.setattr("engine_sampler.stateless.scoring.best_backend", lambda device: backend)
    with pytest.raises(BackendError, match="hostile_backend failed"):
        logprobs(ROWS, [1, 2, 3], 2)


def fields(found: Logprobs) -> tuple[Any, ...]:
    return found.entry_token_ids, found.entry_logprobs, found.starts, found.ranks


def test_a_check_that_fails_refuses_only_requests_with_its_parameters() -> None:
    class Picky(PlainSampler):
        fails = False

        def check(self, params: Any) -> None:
            if self.fails:
                raise RuntimeError("refuses everything")

    with registered(picky := Picky()):
        picky.fails = True
        assert SamplingParams(temperature=0.5).temperature == 0.5
        with pytest.raises(ParameterError, match="refuses everything"):
            SamplingParams(hostile=True)


def test_the_sound_requests_are_of_every_kind() -> None:
    found = expected(BACKENDS[0])
    assert all(isinstance(params, SamplingParams) for params in SOUND.values())
    assert all(len(tokens) >= 3 and finish is not None for tokens, _, finish, *_ in found.values())
    assert len(BEHAVIOURS) > 300
