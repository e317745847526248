"""Parsers that follow requests: what a step says of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler, Tokenizer
from engine_sampler.contract.work import CAPTURE_STEPS_AT_ONCE
from engine_sampler.grammar import Grammar
from engine_sampler.grammar.engines.steps import Steps
from engine_sampler.messages import Event, MessageParser

TOKENIZER = Tokenizer([*(bytes([i]) for i in range(256)), b"<eos>"], [256])
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": [1, "é"]}}\n</tool_call>'
ANSWER = f"<think>Hm.</think>\n\nI call f.{CALL}"
GREEDY = SamplingParams(temperature=0)


def new_parser() -> MessageParser:
    return MessageParser("qwen_3", tokenizer=TOKENIZER, call_id=lambda index, name, given: f"call_{index}")


def scheduler() -> Scheduler:
    return Scheduler(257, TOKENIZER)


def rows_for(tokens: Sequence[int]) -> np.ndarray:
    rows = np.zeros((len(tokens), 257), np.float32)
    rows[np.arange(len(tokens)), tokens] = 9
    return rows


def expected(tokens: Sequence[int]) -> list[Event]:
    parser = new_parser()
    return joined(parser.feed(tokens) + parser.finish())


def joined(events: Sequence[Event]) -> list[Event]:
    """The events with texts that go on with each other made one."""
    merged: list[Event] = []
    for event in events:
        last = merged[-1] if merged else Event("deviation")
        if event.kind == last.kind and event.kind in ("thought", "content", "arguments"):
            merged[-1] = last._replace(text=last.text + event.text)
        else:
            merged.append(event)
    return merged


def run(scheduler: Scheduler, request: Any, tokens: Sequence[int]) -> list[Event]:
    """The events of steps in which a request draws these tokens."""
    events = []
    for token in tokens:
        result = scheduler.step(rows_for([token]), [request])
        events += result.deltas[0] if result.deltas is not None else []
    return events


TOKENS = [*ANSWER.encode(), 256]


def test_a_step_says_what_each_request_has_said() -> None:
    engine = scheduler()
    request = engine.add(GREEDY, [1], parser=new_parser())
    assert joined(run(engine, request, TOKENS)) == expected(TOKENS)
    plain = engine.add(GREEDY, [1])
    engine.remove(request)
    assert engine.step(rows_for([65]), [plain]).deltas is None


def test_requests_without_a_parser_have_nothing_to_say() -> None:
    engine = scheduler()
    engine.add(GREEDY, [1])
    engine.add(GREEDY, [1], parser=new_parser())
    assert engine.step(rows_for([65, 66])).deltas == [[], [Event("content", "B")]]


def test_drafts_are_read_as_far_as_they_are_right() -> None:
    engine = scheduler()
    request = engine.add(GREEDY, [1], parser=new_parser())
    events, at = [], 0
    while at < len(TOKENS):
        right = TOKENS[at : at + 4]
        drafts = [*right[:2], 0]
        result = engine.step(rows_for((right + [0] * 4)[:4]), [request], [drafts])
        assert result.deltas is not None
        events += result.deltas[0]
        at += len(result.tokens(0))
    assert joined(events) == expected(TOKENS)


def test_a_parser_goes_back_with_its_request_and_forks_with_it() -> None:
    engine = scheduler()
    parser = new_parser()
    request = engine.add(GREEDY, [1], parser=parser)
    run(engine, request, TOKENS[:40])
    child = engine.fork(request)
    engine.rollback(request, 15)
    assert len(parser) == 25
    run(engine, request, TOKENS[25:])
    assert [(part.kind, part.text) for part in parser.parts] == [
        ("thought", "Hm."),
        ("content", "I call f."),
        ("call", '{"a": [1, "é"]}'),
    ]
    ends = run(engine, child, TOKENS[40:])
    assert [event.kind for event in ends if event.kind.startswith("call")] == ["call_began", "call_complete"]


def test_tokens_chosen_elsewhere_and_output_from_before_are_read() -> None:
    engine = scheduler()
    request = engine.add(GREEDY, [1], output_token_ids=TOKENS[:30], parser=new_parser())
    engine.accept(request, TOKENS[30:35])
    events = run(engine, request, TOKENS[35:])
    before = new_parser()
    before.feed(TOKENS[:30])
    assert joined(events) == joined(before.feed(TOKENS[30:]) + before.finish())


def test_siblings_have_parsers_of_their_own() -> None:
    engine = scheduler()
    ids = engine.add_group(SamplingParams(temperature=0, n=2), [1], parser=new_parser())
    result = engine.step(rows_for([65, 66]), ids)
    assert result.deltas == [[Event("content", "A")], [Event("content", "B")]]


def test_a_suspended_request_goes_on() -> None:
    engine = scheduler()
    request = engine.add(GREEDY, [1], parser=new_parser())
    events = run(engine, request, TOKENS[:30])
    engine.suspend(request)
    engine.resume(request)
    assert joined(events + run(engine, request, TOKENS[30:])) == expected(TOKENS)


def test_captures_that_take_long_do_not_hold_up_the_last_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine_sampler.requests.answers.CAPTURE_STEPS_AT_ONCE", 100)
    grammar = Grammar.from_lark('start: x\nx[capture]: start x | "a"')
    parser, engine = MessageParser(tokenizer=TOKENIZER, grammar=grammar), scheduler()
    request = engine.add(SamplingParams(temperature=0, max_tokens=40), [1], parser=parser)
    told, last = [], 0
    while request in engine.request_ids:
        deltas = engine.step(rows_for([97])).deltas[0]
        last = len(told)
        told += [event.text for event in deltas if event.kind == "capture"]
    assert parser.is_finished
    assert len(told) == last
    told += [event.text for event in parser.finish()]
    assert sorted(told) == sorted(one.text for one in (parser.captures or {})["x"])


def test_the_answers_of_a_step_share_the_steps_for_their_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of them end in it; what is not told then comes with another call."""
    spent, spend = [0], Steps.spend

    def counting(self: Steps, steps: int = 1) -> None:
        spent[-1] += steps
        spend(self, steps)

    monkeypatch.setattr(Steps, "spend", counting)
    grammar = Grammar.from_lark('start: s\ns[capture]: s s | "a"')
    parser, engine = MessageParser(tokenizer=TOKENIZER, grammar=grammar), scheduler()
    params = SamplingParams(temperature=0, n=64, max_tokens=24)
    first, *_ = engine.add_group(params, [1], parser=parser)
    told = []
    while first in engine.request_ids:
        deltas = engine.step(rows_for([97] * 64)).deltas[0]
        told += [event.text for event in deltas if event.kind == "capture"]
        spent.append(0)
    assert max(spent) <= 3 * CAPTURE_STEPS_AT_ONCE
    told += [event.text for event in parser.finish()]
    assert sorted(told) == sorted(one.text for one in (parser.captures or {})["s"])


@pytest.mark.parametrize("parser", ["qwen_3", MessageParser("qwen_3")], ids=["name", "text"])
def test_a_parser_must_read_ids(parser: Any) -> None:
    engine = scheduler()
    with pytest.raises(ParameterError, match=r"parser=.* is not allowed: a MessageParser with a tokenizer"):
        engine.add(GREEDY, [1], parser=parser)
    search = SamplingParams(use_beam_search=True, beam_width=2, max_tokens=3)
    with pytest.raises(ParameterError, match="None with use_beam_search"):
        engine.add_group(search, [1], parser=new_parser())
    assert not engine.request_ids
