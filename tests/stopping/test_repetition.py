from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler import ParameterError, SamplingParams, Scheduler, StopVerdict, Vocabulary
from engine_sampler.stopping import RepetitionCriteria
from engine_sampler.stopping.repetition import PeriodTracker, Repetition

REPEATED = StopVerdict("repetition_detected", "repetition")


def goes_in_circles(tokens: Sequence[int], asked: Repetition) -> bool:
    """Whether a pattern of an allowed size stands `min_count` times at the end."""
    for size in range(asked.min_pattern_size, asked.max_pattern_size + 1):
        whole = size * asked.min_count
        if whole <= len(tokens) and list(tokens[-whole:]) == list(tokens[-size:]) * asked.min_count:
            return True
    return False


@st.composite
def settings_of(draw: st.DrawFn) -> Repetition:
    most = draw(st.integers(1, 6))
    return Repetition(most, draw(st.integers(1, most)), draw(st.integers(2, 4)))


@settings(max_examples=300)
@given(settings_of(), st.lists(st.integers(0, 2), max_size=100), st.lists(st.integers(0, 9), max_size=100))
def test_it_sees_what_a_look_at_all_tokens_sees(
    asked: Repetition, tokens: list[int], undone: list[int]
) -> None:
    circles, said = PeriodTracker(asked), []
    for token, n in zip(tokens, undone + [0] * len(tokens), strict=False):
        said.append(token)
        assert circles.add(token) == goes_in_circles(said, asked)
        n = min(n // 5, len(said))
        circles.drop(n)
        del said[len(said) - n :]


def test_one_token_again_and_again_is_a_circle() -> None:
    criterion = RepetitionCriteria({"max_pattern_size": 1, "min_count": 4})
    state = criterion.new_state({}, np.empty(0, np.int64), Vocabulary(9))
    assert [criterion.check(state, [7], "") for _ in range(4)] == [None, None, None, REPEATED]


def test_in_a_scheduler_the_prompt_does_not_count() -> None:
    scheduler = Scheduler(9)
    asked = {"max_pattern_size": 2, "min_pattern_size": 2, "min_count": 2}
    scheduler.add(SamplingParams(temperature=0, repetition_detection=asked), [1, 2, 1, 2, 1, 2])
    for token in (1, 2, 1, 2):
        result = scheduler.step(np.eye(9, dtype=np.float32)[[token]])
    assert (result.finish_reasons, result.stop_reasons) == (["repetition"], ["repetition_detected"])
    assert len(scheduler.record(0).token_ids) == 4


def test_it_waits_for_min_tokens() -> None:
    scheduler = Scheduler(9)
    scheduler.add(SamplingParams(temperature=0, min_tokens=6, repetition_detection={"max_pattern_size": 1}))
    reasons = [scheduler.step(np.eye(9, dtype=np.float32)[[3]]).finish_reasons[0] for _ in range(6)]
    assert reasons == [None] * 5 + ["repetition"]


@pytest.mark.parametrize(
    "value",
    [
        {}, {"max_pattern_size": 0}, {"max_pattern_size": 2, "min_pattern_size": 3}, {"max_pattern_size":
        5000}, {"max_pattern_size": 2, "min_count": 1}, {"max_pattern_size": 2.5}, {"pattern": 2}, 7, "2",
        [1, 2],
    ],
)  # fmt: skip
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match="max_pattern_size"):
        SamplingParams(repetition_detection=value)
