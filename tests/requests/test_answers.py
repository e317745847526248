"""Answers that parsers read while their requests go on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, RequestError, SamplingParams, Scheduler, Tokenizer
from engine_sampler.messages import Event, MessageParser, chat_message

from ..interruptions.injecting import Injection, count_of

TOKENIZER = Tokenizer([b"</s>", b"a", b"b", b"c", b"d"], [0])
VOCAB = 5


class Breaks(MessageParser):
    """Raises once it has read so many tokens, or in other methods if told so."""

    most, broken = 2, ()
    error: BaseException = ValueError("a value is none")

    def feed(self, pieces: Any) -> list[Event]:
        events = super().feed(pieces)
        if len(self) > self.most:
            raise self.error
        return events

    def finish(self, *, steps: Any = None) -> list[Event]:
        if "finish" in self.broken:
            raise self.error
        return super().finish(steps=steps)

    def rollback(self, n: int) -> None:
        if "rollback" in self.broken:
            raise self.error
        super().rollback(n)

    def fork(self) -> MessageParser:
        if "fork" in self.broken:
            raise self.error
        return super().fork()


def parser_of(kind: type[MessageParser] = MessageParser, **facts: Any) -> MessageParser:
    parser = kind(tokenizer=TOKENIZER)
    parser.__dict__.update(facts)
    return parser


def scheduler_with(**parsers: MessageParser) -> Scheduler:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    for seed, (name, parser) in enumerate(parsers.items()):
        params = SamplingParams(seed=seed, max_tokens=5, ignore_eos=True)
        scheduler.add(params, [1], request_id=name, parser=parser)
    return scheduler


def step(scheduler: Scheduler, number: int = 0) -> Any:
    row = np.random.default_rng(number).normal(0, 1, VOCAB).astype(np.float32)
    return scheduler.step(np.tile(row, (len(scheduler.request_ids), 1)))


def content(events: list[Event]) -> str:
    return "".join(event.text for event in events if event.kind == "content")


def test_a_parser_that_raises_ends_its_request_and_the_others_are_read_on() -> None:
    scheduler = scheduler_with(good=parser_of(), bad=parser_of(Breaks))
    alone = scheduler_with(good=parser_of())
    told = ""
    for number in range(5):
        result, expected = step(scheduler, number), step(alone, number)
        assert result.deltas[0] == expected.deltas[0]
        told += content(result.deltas[0])
        if number == 2:
            assert result.finish_reasons == [None, "error"]
            assert result.errors[1] == "the parser failed: ValueError: a value is none"
            assert scheduler.request_ids == ["good"]
    assert told == scheduler.record("good").text
    assert scheduler.record("bad").finish_reason == "error"


def test_a_parser_that_cannot_finish_makes_the_end_of_its_request_an_error() -> None:
    scheduler = scheduler_with(bad=parser_of(Breaks, most=9, broken=("finish",)))
    for number in range(5):
        result = step(scheduler, number)
    assert result.finish_reasons == ["error"]
    assert scheduler.record("bad").finish_reason == "error"


def test_memory_that_runs_out_in_a_parser_interrupts_a_step_once() -> None:
    scheduler = scheduler_with(good=parser_of(), bad=parser_of(Breaks, error=MemoryError()))
    for number in range(2):
        step(scheduler, number)
    with pytest.raises(MemoryError):
        step(scheduler, 2)
    assert len(scheduler.record("good").token_ids) == 2
    result = step(scheduler, 2)
    assert result.finish_reasons == [None, "error"]
    assert len(content(result.deltas[0])) == 1


def test_a_parser_that_cannot_go_back_ends_its_request() -> None:
    scheduler = scheduler_with(bad=parser_of(Breaks, broken=("rollback",)), good=parser_of())
    step(scheduler)
    scheduler.rollback("bad", 1)
    assert "the parser failed" in str(scheduler.record("bad").error)
    assert scheduler.request_ids == ["good"]


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_parser_that_cannot_read_what_has_come_adds_nothing(is_finished: bool) -> None:
    parser = parser_of(Breaks, most=0)
    if is_finished:
        parser.finish()
    scheduler = Scheduler(VOCAB, TOKENIZER)
    with pytest.raises(ParameterError, match="the parser failed: ValueError"):
        scheduler.add(SamplingParams(), [1], output_token_ids=[1, 2], parser=parser)
    assert scheduler.request_ids == []


def test_a_parser_that_cannot_be_copied_adds_no_siblings_and_no_child() -> None:
    scheduler = scheduler_with(one=parser_of(Breaks, broken=("fork",)))
    with pytest.raises(RequestError, match="the parser failed"):
        scheduler.fork("one")
    with pytest.raises(RequestError, match="the parser failed"):
        scheduler.add_group(SamplingParams(n=2), [1], parser=parser_of(Breaks, broken=("fork",)))
    assert scheduler.request_ids == ["one"]


def test_the_parser_of_every_sibling_and_child_is_in_its_record() -> None:
    parser = MessageParser("hermes", tokenizer=TOKENIZER)
    scheduler = Scheduler(VOCAB, TOKENIZER)
    params = SamplingParams(n=3, seed=1, max_tokens=6, ignore_eos=True)
    ids = scheduler.add_group(params, [1], parser=parser)
    assert scheduler.record(ids[0]).parser is parser
    step(scheduler)
    ids.append(scheduler.fork(ids[1]))
    number = 0
    while scheduler.request_ids:
        number += 1
        rows = np.random.default_rng(number).normal(0, 1, (len(scheduler.request_ids), VOCAB))
        scheduler.step(rows.astype(np.float32))
    records = [scheduler.remove(request_id) for request_id in ids]
    parsers = {id(record.parser): record.parser for record in records}
    assert len(parsers) == 4
    for record in records:
        assert record.parser.is_finished
        assert chat_message(record.parser)["content"] == record.text
        assert record.parser.thinking_tokens == 0
    assert len({record.text for record in records}) > 1
    scheduler.add(SamplingParams(), [1], request_id="unread")
    assert scheduler.record("unread").parser is None


def test_a_later_request_of_an_id_does_not_inherit_the_parser() -> None:
    scheduler = scheduler_with(one=parser_of())
    scheduler.remove("one")
    scheduler.add(SamplingParams(), [1], request_id="one")
    assert step(scheduler).deltas is None


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("share", range(8))
def test_a_step_with_a_parser_is_done_or_not_wherever_it_is_interrupted(share: int) -> None:
    for at in range(share, count_of(lambda: step(begun()[0], 1)), 8):
        scheduler, told = begun()
        before = scheduler.last_result
        Injection(KeyboardInterrupt, at).during(lambda: step(scheduler, 1))  # noqa: B023
        result = scheduler.last_result
        if result is before:
            result = step(scheduler, 1)
        assert result is not None
        assert result.deltas is not None
        assert told + content(result.deltas[0]) == scheduler.record("one").text


@pytest.mark.quick_share(2)
@pytest.mark.parametrize("share", range(4))
def test_a_rollback_with_a_parser_leads_to_the_same_end_wherever_it_is_interrupted(share: int) -> None:
    for at in range(share, count_of(lambda: begun()[0].rollback("one", 1)), 4):
        scheduler, _ = begun()
        Injection(KeyboardInterrupt, at).during(lambda: scheduler.rollback("one", 1))  # noqa: B023
        came_back = len(scheduler.record("one").token_ids) == 0
        text = content(step(scheduler, 1).deltas[0])
        assert len(text) == 1
        assert scheduler.record("one").text.endswith(text)
        assert len(scheduler.record("one").token_ids) == 2 - came_back


def begun() -> tuple[Scheduler, str]:
    """A scheduler after one step, and what has been read."""
    scheduler = scheduler_with(one=parser_of())
    return scheduler, content(step(scheduler).deltas[0])
