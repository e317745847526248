from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler import ParameterError, SamplingParams, Scheduler
from engine_sampler.contract import StopVerdict, Vocabulary
from engine_sampler.stopping import RepetitionCriteria
from engine_sampler.stopping.repetition import PeriodTracker, Repetition

from ..conftest import example_count

REPEATED = StopVerdict("repetition_detected", "repetition")


def ends_with_repeats(tokens: Sequence[int], repetition: Repetition) -> bool:
    """Whether a pattern of an allowed size occurs `min_count` times in a row at the end."""
    for size in range(repetition.min_pattern_size, repetition.max_pattern_size + 1):
        whole = size * repetition.min_count
        if whole <= len(tokens) and list(tokens[-whole:]) == list(tokens[-size:]) * repetition.min_count:
            return True
    return False


@st.composite
def settings_of(draw: st.DrawFn) -> Repetition:
    max_size = draw(st.integers(1, 6))
    return Repetition(max_size, draw(st.integers(1, max_size)), draw(st.integers(2, 4)))


@settings(max_examples=example_count(300))
@given(settings_of(), st.lists(st.integers(0, 2), max_size=100), st.lists(st.integers(0, 9), max_size=100))
def test_it_agrees_with_a_search_of_all_tokens(
    repetition: Repetition, tokens: list[int], undone: list[int]
) -> None:
    tracker, output = PeriodTracker(repetition), []
    for token, n in zip(tokens, undone + [0] * len(tokens), strict=False):
        output.append(token)
        assert tracker.add(token) == ends_with_repeats(output, repetition)
        n = min(n // 5, len(output))
        tracker.drop(n)
        del output[len(output) - n :]


def test_one_repeated_token_is_a_pattern() -> None:
    criterion = RepetitionCriteria({"max_pattern_size": 1, "min_count": 4})
    state = criterion.new_state({}, np.empty(0, np.int64), Vocabulary(9))
    assert [criterion.check(state, [7], "") for _ in range(4)] == [None, None, None, REPEATED]


def test_in_a_scheduler_the_prompt_does_not_count() -> None:
    scheduler = Scheduler(9)
    repetition = {"max_pattern_size": 2, "min_pattern_size": 2, "min_count": 2}
    scheduler.add(SamplingParams(temperature=0, repetition_detection=repetition), [1, 2, 1, 2, 1, 2])
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
        {"max_pattern_size": 2, "min_pattern_size": 3}, {"max_pattern_size": 5000}, {"max_pattern_size": 2,
        "min_count": 1}, {"max_pattern_size": 2.5}, {"max_pattern_size": False}, {"pattern": 2}, 7, "2",
        [1, 2],
    ],
)  # fmt: skip
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match="max_pattern_size"):
        SamplingParams(repetition_detection=value)


@pytest.mark.parametrize("value", [{}, {"max_pattern_size": 0}, {"min_count": 3}])
def test_no_pattern_size_turns_it_off_as_in_vllm(value: Any) -> None:
    assert SamplingParams(repetition_detection=value) == SamplingParams()
