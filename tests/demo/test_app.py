"""The demo's course: who joins when, and how it ends."""

from __future__ import annotations

import pytest

from engine_sampler.params import SamplingParams, build_chain


@pytest.fixture
def demo(engine):
    from engine_sampler.demo.app import Demo
    from engine_sampler.demo.session import Session

    return Demo(Session(engine), "The cat", seed=1)


def test_at_least_eight_different_configurations_run_at_the_same_time(demo):
    next(demo.run(1))
    assert len(demo.running) >= 8
    assert len({stream.chain for stream in demo.running}) >= 8


def test_the_configurations_are_those_people_know():
    from engine_sampler.demo.configurations import CONFIGURATIONS

    chains = " ".join(str(build_chain(SamplingParams(**c.parameters))) for c in CONFIGURATIONS)
    for (
        name
    ) in "greedy mirostat_v2 adaptive_p dry xtc penalties tfs top_a top_n_sigma typical_p min_p".split():
        assert name in chains
    assert any(c.parameters.get("order") == "koboldai" for c in CONFIGURATIONS)


def test_every_request_ends_with_a_reason(demo):
    for _ in demo.run(2000):
        pass
    assert {stream.outcome for stream in demo.streams} <= {"stop", "length"}
    assert all(stream.tokens and stream.seconds > 0 for stream in demo.streams)
    assert not demo.running
    assert not demo.waiting


def test_waiting_requests_take_over_the_places_of_finished_ones(demo):
    seen = [set() for _ in demo.places]
    for _ in demo.run(2000):
        for names, stream in zip(seen, demo.places, strict=True):
            names.add(stream.name)
    assert sum(map(len, seen)) == len(demo.streams) > len(demo.places)


@pytest.mark.parametrize("linger", [0, 3])
def test_a_finished_request_stays_in_sight_for_a_while(demo, monkeypatch, linger):
    monkeypatch.setattr("engine_sampler.demo.app.LINGER", linger)
    before = list(demo.places)
    waits = []
    for _ in demo.run(2000):
        pairs = zip(before, demo.places, strict=True)
        waits += [now.started_at - old.ended_at for old, now in pairs if old not in (None, now)]
        before = list(demo.places)
    assert len(waits) == len(demo.streams) - len(demo.places)
    assert max(waits) == linger


def test_news_tells_every_request_once_at_its_start_and_once_at_its_end(demo):
    news = [(event, stream.name) for batch in demo.run(2000) for event, stream in batch]
    assert sorted(news) == sorted((e, s.name) for s in demo.streams for e in ("joins", "ends"))


def test_what_still_runs_after_the_last_step_is_aborted(demo):
    for _ in demo.run(1):
        pass
    outcomes = [stream.outcome for stream in demo.streams]
    assert "abort" in outcomes
    assert outcomes.count(None) == len(demo.waiting)
    assert demo.session.steps == 1


def test_the_streams_texts_are_those_of_the_scheduler(demo):
    for _ in demo.run(2000):
        pass
    for stream in demo.streams:
        record = demo.session.scheduler.record(stream.name)
        assert (stream.text, stream.tokens) == (record.text, len(record.token_ids))


def test_rows_and_groups_are_counted_by_configuration(demo):
    for _ in demo.run(2000):
        pass
    assert demo.groups.total() == demo.session.rows == sum(s.tokens for s in demo.streams)
    assert demo.session.steps <= demo.group_steps <= demo.session.rows
    assert len(demo.groups) < len(demo.streams)


def test_the_seed_decides_the_texts(engine):
    from engine_sampler.demo.app import Demo
    from engine_sampler.demo.session import Session

    def texts(seed: int) -> list[str]:
        demo = Demo(Session(engine), "The cat", seed)
        for _ in demo.run(2000):
            pass
        return [stream.text for stream in demo.streams]

    assert texts(1) == texts(1) != texts(2)
