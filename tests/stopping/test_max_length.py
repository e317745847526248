from __future__ import annotations

import logging

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.stopping import MaxLengthCriteria

ROW = np.zeros((1, 4), np.float32)


@pytest.mark.parametrize(("prompt", "tokens"), [([], 3), ([1], 2), ([1, 2, 3], 1), ([1] * 9, 1)])
def test_prompt_and_output_count_together(prompt: list[int], tokens: int) -> None:
    scheduler = Scheduler(4)
    scheduler.add(SamplingParams(max_length=3), prompt)
    while scheduler.request_ids:
        result = scheduler.step(ROW)
    assert (result.finish_reasons, result.stop_reasons) == (["length"], ["max_length"])
    assert len(scheduler.record(0).token_ids) == tokens


def test_a_criterions_own_limit_applies_in_addition_to_the_parameters() -> None:
    scheduler = Scheduler(4)
    scheduler.add(SamplingParams(max_tokens=5), [1], stopping_criteria=[MaxLengthCriteria(3)])
    scheduler.step(ROW)
    assert scheduler.step(ROW).stop_reasons == ["max_length"]


def test_beyond_the_models_positions_it_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    criterion = MaxLengthCriteria(10, max_position_embeddings=2)
    with caplog.at_level(logging.WARNING, "engine_sampler"):
        for length in (1, 2, 3, 4):
            criterion(np.zeros((1, length), np.int64), None)
    assert [record.getMessage() for record in caplog.records] == [
        "the text has 3 tokens; the model supports 2"
    ]
