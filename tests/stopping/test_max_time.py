from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler
from engine_sampler.contract import StopVerdict, Vocabulary
from engine_sampler.stopping import max_time
from engine_sampler.stopping.max_time import MaxTimeCriteria

CRITERION = MaxTimeCriteria()


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the clock."""

    def set_clock(seconds: float) -> None:
        monkeypatch.setattr(max_time.time, "monotonic", lambda: seconds)

    set_clock(100.0)
    return set_clock


def test_it_ends_a_request_at_the_first_token_after_the_deadline(at: Callable[[float], None]) -> None:
    state = CRITERION.new_state(SamplingParams(max_time=2.5), np.empty(0, np.int64), Vocabulary(9))
    for seconds, verdict in ((100, None), (102.5, None), (102.6, StopVerdict("max_time", "length"))):
        at(seconds)
        assert CRITERION.check(state, [0], "") == verdict


def test_forks_keep_the_deadline_and_rollbacks_do_not_change_it(at: Callable[[float], None]) -> None:
    state = CRITERION.new_state(SamplingParams(max_time=1), np.empty(0, np.int64), Vocabulary(9))
    at(102)
    CRITERION.rollback(state, 3)
    assert CRITERION.check(CRITERION.fork(state), [0], "") is not None


@pytest.mark.parametrize("value", [-1, float("inf"), float("nan"), "1", True])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"max_time=.* is not allowed: a finite number of at least 0"):
        SamplingParams(max_time=value)


def test_in_a_scheduler_each_request_has_its_own_deadline(at: Callable[[float], None]) -> None:
    scheduler = Scheduler(9)
    scheduler.add(SamplingParams(max_time=5))
    at(103)
    scheduler.add(SamplingParams(max_time=5))
    scheduler.add(SamplingParams())
    at(106)
    result = scheduler.step(np.zeros((3, 9), np.float32))
    assert result.finish_reasons == ["length", None, None]
    assert result.stop_reasons == ["max_time", None, None]
    assert (result.token_ids >= 0).all()
