from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler
from engine_sampler.contract import StopVerdict, Vocabulary
from engine_sampler.stopping.max_tokens import MaxTokensCriteria

CRITERION = MaxTokensCriteria()
VOCABULARY = Vocabulary(9)
REACHED = StopVerdict("max_tokens", "length")


def state_for(limit: int) -> Any:
    return CRITERION.new_state(SamplingParams(max_tokens=limit), np.arange(5), VOCABULARY)


def test_it_counts_output_tokens_and_not_the_prompt() -> None:
    state = state_for(3)
    assert [CRITERION.check(state, [0], "") for _ in range(3)] == [None, None, REACHED]


def test_tokens_may_come_together() -> None:
    state = state_for(3)
    assert CRITERION.check(state, [0, 0], "") is None
    assert CRITERION.check(state, [0, 0], "") == REACHED


def test_rollback_restores_the_count() -> None:
    state = state_for(2)
    CRITERION.check(state, [0], "")
    CRITERION.rollback(state, 1)
    assert [CRITERION.check(state, [0], "") for _ in range(2)] == [None, REACHED]


def test_a_fork_counts_separately() -> None:
    parent = state_for(2)
    CRITERION.check(parent, [0], "")
    child = CRITERION.fork(parent)
    assert CRITERION.check(child, [0], "") == REACHED
    CRITERION.rollback(parent, 1)
    assert CRITERION.check(parent, [0], "") is None


@pytest.mark.parametrize("value", [0, -1, 2.5, "3", True])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(
        ParameterError, match=r"max_tokens=.* is not allowed: an integer of at least 1, or None"
    ):
        SamplingParams(max_tokens=value)


def test_the_tokens_of_a_resumed_request_count() -> None:
    scheduler = Scheduler(9)
    scheduler.add(SamplingParams(max_tokens=3), [1, 2, 3, 4], output_token_ids=[5])
    logits = np.zeros((1, 9), np.float32)
    assert scheduler.step(logits).finish_reasons == [None]
    result = scheduler.step(logits)
    assert (result.finish_reasons, result.stop_reasons) == (["length"], ["max_tokens"])


def test_a_stop_at_the_last_token_counts_as_a_stop() -> None:
    scheduler = Scheduler(9, eos_token_ids=[0])
    scheduler.add(SamplingParams(max_tokens=1, allowed_token_ids=[0]))
    assert scheduler.step(np.zeros((1, 9), np.float32)).finish_reasons == ["stop"]
