"""The run of the demo: when requests join and how they end."""

from __future__ import annotations

import json

import pytest

from engine_sampler.params import SamplingParams, build_chain


def test_at_least_eight_different_configurations_run_at_the_same_time(demo):
    next(demo.run(1))
    assert len(demo.running) >= 8
    assert len({stream.chain for stream in demo.running}) >= 8


def test_the_configurations_cover_the_well_known_samplers():
    from engine_sampler.demo.configurations import CONFIGURATIONS

    chains = " ".join(str(build_chain(SamplingParams(**c.parameters))) for c in CONFIGURATIONS)
    names = "greedy mirostat_v2 adaptive_p dry xtc penalties tfs top_a top_n_sigma typical_p min_p"
    for name in names.split():
        assert name in chains
    assert any(c.parameters.get("order") == "koboldai" for c in CONFIGURATIONS)


def test_every_request_ends_with_a_reason(demo):
    for _ in demo.run(2000):
        pass
    assert {stream.outcome for stream in demo.streams} <= {"stop", "length"}
    assert all(stream.tokens and stream.seconds > 0 for stream in demo.streams)
    assert not demo.running
    assert not demo.waiting


def test_waiting_requests_take_over_the_panels_of_finished_ones(demo):
    seen = [set() for _ in demo.panels]
    for _ in demo.run(2000):
        for names, stream in zip(seen, demo.panels, strict=True):
            names.add(stream.name)
    assert sum(map(len, seen)) == len(demo.streams) > len(demo.panels)


@pytest.mark.parametrize("linger", [0, 3])
def test_a_finished_request_stays_visible_for_a_while(demo, monkeypatch, linger):
    monkeypatch.setattr("engine_sampler.demo.app.LINGER", linger)
    before = list(demo.panels)
    waits = []
    for _ in demo.run(2000):
        pairs = zip(before, demo.panels, strict=True)
        waits += [now.started_at - old.ended_at for old, now in pairs if old not in (None, now)]
        before = list(demo.panels)
    assert len(waits) == len(demo.streams) - len(demo.panels)
    assert max(waits) == linger


def test_each_request_has_one_event_at_its_start_and_one_at_its_end(demo):
    events = [(event, stream.name) for batch in demo.run(2000) for event, stream in batch]
    assert sorted(events) == sorted((e, s.name) for s in demo.streams for e in ("joins", "ends"))


def test_requests_still_running_after_the_last_step_are_aborted(demo):
    for _ in demo.run(1):
        pass
    outcomes = [stream.outcome for stream in demo.streams]
    assert "abort" in outcomes
    assert outcomes.count(None) == len(demo.waiting)
    assert demo.session.steps == 1


def test_the_texts_of_the_streams_are_those_of_the_scheduler(demo):
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


def test_the_seed_determines_the_texts(engine):
    from engine_sampler.demo.app import Demo
    from engine_sampler.demo.engine import DemoSession

    def texts(seed: int) -> list[str]:
        demo = Demo(DemoSession(engine), "The cat", seed)
        for _ in demo.run(2000):
            pass
        return [stream.text for stream in demo.streams]

    assert texts(1) == texts(1) != texts(2)


def named(demo, name):
    return next(stream for stream in demo.streams if stream.name == name)


def test_one_request_writes_json_that_is_valid_under_its_schema(demo):
    for _ in demo.run(2000):
        pass
    stream = named(demo, "JSON under a schema")
    assert stream.outcome == "stop"
    assert [*json.loads(stream.text)] == ["kind", "name", "says", "arguments"]


def test_one_request_calls_a_tool(demo):
    for _ in demo.run(2000):
        pass
    stream = named(demo, "a tool call")
    assert stream.outcome == "stop"
    call = json.loads(stream.text.removeprefix("<tool_call>").removesuffix("</tool_call>"))
    assert (call["name"], sorted(call["arguments"])) == ("look_up", ["pages", "term"])


def test_one_request_gets_the_tokens_that_it_gets_alone(demo):
    stream = named(demo, "alone, and here")
    for _ in demo.run(2000):
        pass
    assert stream.token_ids == stream.alone
    assert stream.settings == f"{stream.tokens} of {stream.tokens} tokens as alone"
    stream.token_ids[-1] += 1
    assert stream.settings == f"{stream.tokens - 1} of {stream.tokens} tokens as alone"


def test_a_second_run_draws_the_same(demo):
    for _ in demo.run(2000):
        pass
    again = demo.again(2000)
    assert [stream.text for stream in again.streams] == [stream.text for stream in demo.streams]
    assert sum(step.rows for step in again.times) == again.session.rows
