from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler import ParameterError, SamplingParams, Scheduler
from engine_sampler.arithmetic import repeats
from engine_sampler.stopping import LoopCriteria, loop
from engine_sampler.stopping.loop import LoopTracker

from ..conftest import example_count


def is_loop(tokens: Sequence[int], size: int, most_period: int) -> bool:
    """Whether the last `size` tokens have a period of at most `most_period`."""
    window = list(tokens[-size:])
    return len(window) == size and any(
        window[p:] == window[:-p] for p in range(1, min(most_period, size - 1) + 1)
    )


texts = st.lists(
    st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=4), st.integers(1, 8)).map(
        lambda x: x[0] * x[1]
    ),
    max_size=6,
).map(lambda parts: [token for part in parts for token in part])


@settings(max_examples=example_count(300))
@given(st.integers(2, 20), st.integers(2, 5), texts, st.lists(st.integers(0, 9), max_size=100))
def test_it_agrees_with_a_search_of_all_tokens(
    size: int, reps: int, tokens: list[int], undone: list[int]
) -> None:
    size = max(size, reps)
    tracker, output = LoopTracker(size, size // reps), []
    for token, n in zip(tokens, undone + [0] * len(tokens), strict=False):
        output.append(token)
        assert tracker.add(token) == is_loop(output, size, size // reps)
        n = min(n // 5, len(output))
        tracker.drop(n)
        del output[len(output) - n :]


@pytest.mark.parametrize("text", ["random", "nearly a loop"])
def test_it_looks_at_the_window_rarely(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def counted(history: np.ndarray, limit: int, least: int) -> tuple[np.ndarray, np.ndarray]:
        nonlocal looks
        looks += 1
        return repeats.ends_repeated(history, limit, least)

    monkeypatch.setattr(loop, "ends_repeated", counted)
    tracker = LoopTracker(120, 40)
    tokens = np.random.default_rng(1).integers(0, 50, 6000)
    if text != "random":
        tokens = np.tile(np.arange(30), 200)
        tokens[100::110] = 99
    verdicts = [tracker.add(token) for token in tokens.tolist()]
    assert not any(verdicts)
    assert looks < 6000 // 10


@pytest.mark.parametrize("make", [LoopCriteria, SamplingParams])
def test_a_window_that_cannot_hold_the_repeats_is_refused(make: Any) -> None:
    allowed = "loop_detect_window=4 is not allowed: 0, or at least loop_detect_min_reps=9"
    with pytest.raises(ParameterError, match=f"^{allowed}$"):
        make(loop_detect_window=4, loop_detect_min_reps=9)
    with pytest.raises(ParameterError, match="at least loop_detect_min_reps=3"):
        make(loop_detect_window=2)
    assert make(loop_detect_window=9, loop_detect_min_reps=9).loop_detect_window == 9
    assert make(loop_detect_min_reps=9).loop_detect_window == 0


def test_in_a_scheduler_a_loop_ends_the_output_and_the_prompt_does_not_count() -> None:
    scheduler = Scheduler(9)
    scheduler.add(SamplingParams(temperature=0, loop_detect_window=6), [1, 2] * 9)
    for token in (3, 1, 2, 1, 2, 1, 2):
        result = scheduler.step(np.eye(9, dtype=np.float32)[[token]] * 9)
    assert (result.finish_reasons, result.stop_reasons) == (["repetition"], ["loop_detected"])
