from __future__ import annotations

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.stopping import ConfidenceCriteria


def rows_with(*probabilities: float) -> np.ndarray:
    """Rows of two tokens, where token 0 has these probabilities."""
    p = np.array(probabilities)
    return np.log(np.stack([p, 1 - p], axis=1)).astype(np.float32)


def test_a_token_below_the_threshold_ends_the_request() -> None:
    scheduler = Scheduler(2)
    for threshold in (0.4, 0.7, 0.0):
        scheduler.add(SamplingParams(allowed_token_ids=[0], assistant_confidence_threshold=threshold))
    result = scheduler.step(rows_with(0.5, 0.5, 0.1))
    assert result.finish_reasons == [None, "stop", None]
    assert result.stop_reasons == [None, "confidence", None]
    assert result.logprobs is None


def test_temperature_does_not_count() -> None:
    scheduler = Scheduler(2)
    scheduler.add(SamplingParams(temperature=0, assistant_confidence_threshold=0.9))
    assert scheduler.step(rows_with(0.8)).finish_reasons == ["stop"]


def test_it_is_correct_after_rollback_and_fork() -> None:
    scheduler = Scheduler(2)
    scheduler.add(SamplingParams(temperature=0, assistant_confidence_threshold=0.6), request_id="a")
    scheduler.step(rows_with(0.9))
    scheduler.rollback("a", 1)
    scheduler.fork("a", new_request_id="b")
    result = scheduler.step(rows_with(0.9, 0.55))
    assert result.finish_reasons == [None, "stop"]


@pytest.mark.parametrize("extreme", [0.0, 700.0])
def test_wide_scores_do_not_overflow(extreme: float) -> None:
    scores = np.array([[extreme, -extreme]], np.float32)
    assert ConfidenceCriteria(0.4)(np.array([[0]]), scores).tolist() == [False]


@pytest.mark.parametrize("scores", [None, ()])
def test_a_call_without_scores_says_how_to_get_them(scores: object) -> None:
    with pytest.raises(ValueError, match=r"ConfidenceCriteria needs the scores .* output_scores=True"):
        ConfidenceCriteria(0.4)(np.array([[0]]), scores)


def test_scores_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"scores of shape \[3\] are not allowed: .* needs \[1, vocab\]"):
        ConfidenceCriteria(0.4)(np.array([[0]]), np.zeros(3, np.float32))
