from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler
from engine_sampler.contract import StopVerdict, Vocabulary
from engine_sampler.stopping.stop_token_ids import StopTokenIdsCriteria

CRITERION = StopTokenIdsCriteria()
VOCABULARY = Vocabulary(9)
NO_PROMPT = np.empty(0, np.int64)


def test_it_watches_the_given_ids() -> None:
    assert CRITERION.is_active(SamplingParams(stop_token_ids=[2]), VOCABULARY)
    assert not CRITERION.is_active(SamplingParams(stop_token_ids=[]), VOCABULARY)


def test_the_first_stop_token_ends_a_request_and_is_the_reason() -> None:
    state = CRITERION.new_state(SamplingParams(stop_token_ids=[2, 7]), NO_PROMPT, VOCABULARY)
    assert CRITERION.check(state, [0, 1], "") is None
    assert CRITERION.check(state, [1, 7, 2], "") == StopVerdict(7, "stop")
    CRITERION.rollback(state, 3)
    assert CRITERION.check(CRITERION.fork(state), [2], "") == StopVerdict(2)


@pytest.mark.parametrize(
    ("value", "expected"),
    [([3, 1, 3], (3, 1)), ((5,), (5,)), (np.array([4, 0]), (4, 0)), ({6}, (6,)), ([np.int32(2)], (2,))],
)
def test_ids_are_kept_in_order_without_duplicates(value: Any, expected: tuple[int, ...]) -> None:
    assert SamplingParams(stop_token_ids=value).stop_token_ids == expected


@pytest.mark.parametrize(
    "value", ["12", b"12", 5, [1.5], ["a"], [True], [np.True_], [-1], [float("inf")], [float("nan")], [None]]
)
def test_other_values_are_refused(value: Any) -> None:
    for made in (SamplingParams, StopTokenIdsCriteria):
        with pytest.raises(ParameterError, match=r"stop_token_ids=.* is not allowed: a list of token ids"):
            made(stop_token_ids=value)


def test_ids_outside_the_vocabulary_are_refused_when_a_request_is_added() -> None:
    with pytest.raises(ParameterError, match="stop_token_ids names token id 9, allowed are 0 to 8"):
        Scheduler(9).add(SamplingParams(stop_token_ids=[9]))


def test_in_a_scheduler() -> None:
    scheduler = Scheduler(9)
    scheduler.add(SamplingParams(stop_token_ids=[4], temperature=0))
    logits = np.zeros((1, 9), np.float32)
    assert scheduler.step(logits).finish_reasons == [None]
    logits[0, 4] = 1
    result = scheduler.step(logits)
    assert (result.finish_reasons, result.stop_reasons) == (["stop"], [4])
    assert scheduler.record(0).token_ids == [0, 4]
