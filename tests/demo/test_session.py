"""The loop between the embedded engine and the scheduler."""

from __future__ import annotations

import numpy as np
import pytest

from engine_sampler.params import SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=20)


@pytest.fixture
def session(engine):
    from engine_sampler.demo.engine import DemoSession

    return DemoSession(engine)


def finish(session) -> dict:
    texts: dict = {}
    while session.scheduler.request_ids:
        result = session.step()
        for request_id, text in zip(result.request_ids, result.text, strict=True):
            texts[request_id] = texts.get(request_id, "") + text
    return texts


def test_a_greedy_request_follows_the_model(session, engine):
    session.add(GREEDY, "A rat", "r")
    token_ids = engine.tokenizer.encode("A rat")
    for _ in range(5):
        expected = int(engine.model.logits([token_ids])[0].argmax())
        assert session.step().tokens(0) == [expected]
        token_ids.append(expected)


def test_the_streamed_text_is_the_text_of_the_record(session):
    session.add(GREEDY, "The", "r")
    assert finish(session)["r"] == session.scheduler.record("r").text


def test_a_request_that_joins_late_gets_the_text_it_would_get_alone(session, engine):
    from engine_sampler.demo.engine import DemoSession

    params = SamplingParams(temperature=1.2, max_tokens=12, seed=4)
    alone = DemoSession(engine)
    alone.add(params, "The dog", "late")
    session.add(GREEDY, "The cat", "early")
    session.step()
    session.add(params, "The dog", "late")
    assert finish(session)["late"] == finish(alone)["late"]


def test_steps_rows_and_times_are_counted(session):
    session.add(GREEDY, "The", "a")
    session.add(GREEDY, "A", "b")
    session.step()
    session.scheduler.remove("a")
    session.step()
    assert (session.steps, session.rows) == (2, 3)
    assert session.seconds == session.model_seconds + session.sampling_seconds > 0


def test_every_live_request_has_one_row(session, engine):
    for number in range(3):
        session.add(SamplingParams(seed=number), "The", number)
    result = session.step()
    assert np.array_equal(result.first_rows, [0, 1, 2])
