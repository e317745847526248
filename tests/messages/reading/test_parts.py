"""What is told of calls: ids, and the parts of arguments. What fails there is told, not raised."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from engine_sampler.messages import Event, MessageParser, ValueReader, chat_message

from ..vocabularies import random_cuts

CALL = '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>'


def refuse(index: int, name: str, given: str) -> str:
    raise KeyError(name)


@pytest.mark.parametrize(
    ("call_id", "why"),
    [
        (refuse, "of call 0: call_id failed: KeyError: 'f'"),
        (lambda *_: None, "of call 0: call_id gave None, not a string"),
    ],
)
def test_a_call_that_is_given_no_id_has_the_one_that_it_would_have(call_id: Any, why: str) -> None:
    parser = MessageParser("hermes", call_id=call_id)
    text = CALL % ("f", "{}")
    events = [event for character in text for event in parser.feed(character)]
    assert [event for event in events if event.kind == "deviation"] == [Event("deviation", why)]
    (part,) = parser.parts
    assert (part.text, part.is_complete, part.id[:5], len(part.id)) == ("{}", True, "call_", 29)
    parser.rollback(len("}\n</tool_call>"))
    assert (parser.deviation, parser.parts[0].id) == (why, part.id)
    parser.rollback(len(parser))
    assert parser.deviation is None


def test_an_id_in_the_text_is_that_of_a_call_whose_call_id_fails() -> None:
    parser = MessageParser("mistral_v11", call_id=refuse)
    parser.feed("[TOOL_CALLS]f[CALL_ID]a1b2c3d4e[ARGS]{}")
    assert parser.parts[0].id == "a1b2c3d4e"


def test_calls_keep_their_ids_when_they_are_taken_back_and_come_again() -> None:
    given = iter(range(99))
    parser = MessageParser("hermes", call_id=lambda *_: f"number {next(given)}")
    text = CALL % ("f", "{}")
    for character in text:
        parser.feed(character)
    for k in range(1, len(text)):
        parser.rollback(k)
        for character in text[-k:]:
            parser.feed(character)
        assert parser.parts[0].id == "number 0"


def test_siblings_have_ids_of_their_own() -> None:
    parser = MessageParser("hermes")
    parser.feed(CALL % ("f", "{}"))
    siblings = [parser, parser.fork(), parser.fork()]
    for one in siblings:
        one.feed(CALL % ("f", "{}"))
    first, second = ({one.parts[number].id for one in siblings} for number in (0, 1))
    assert (len(first), len(second)) == (1, 3)


FAULTS = {
    '{"a": [1, %s], "b": 2}' % ("1" * 16_385): "a number has more than 16,384 characters",
    '{"a": {"%s": "x"}, "b": 2}' % ("k" * 600): "the pointer of a part has more than 512 characters",
}


@pytest.mark.parametrize("arguments", FAULTS)
def test_what_has_no_part_to_be_told_is_a_deviation_and_the_call_goes_on(arguments: str) -> None:
    told = []
    for seed in range(4):
        parser = MessageParser("hermes", values=True)
        text = CALL % ("f", arguments)
        events = [event for piece in random_cuts(text, Random(seed)) for event in parser.feed(piece)]
        assert parser.deviation == (
            f"the arguments of call 0 are not told by their parts any more: {FAULTS[arguments]}"
        )
        assert [event.kind for event in events if event.kind in ("deviation", "call_complete")] == [
            "deviation",
            "call_complete",
        ]
        assert chat_message(parser)["tool_calls"][0]["function"]["arguments"] == arguments
        told.append([(event.pointer, event.text) for event in events if event.kind == "value"])
    assert told.count(told[0]) == len(told)


def test_a_number_that_python_cannot_represent_is_told() -> None:
    parser = MessageParser("hermes", values=True)
    events = parser.feed(CALL % ("f", '{"a": %s}' % ("1" * 5_000)))
    assert Event("value", "1" * 5_000, 0, "/a") in events
    assert parser.deviation is None


def test_a_rollback_reads_no_more_of_long_arguments_than_of_short_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = []
    feed = ValueReader.feed_into
    monkeypatch.setattr(ValueReader, "feed_into", lambda *given: (read.append(given[1]), feed(*given))[1])
    for size in (500, 1_000, 2_000):
        parser = MessageParser("hermes", values=True)
        parser.feed(CALL.partition("%s}")[0] % "f" + '{"a": [1, "')
        for _ in range(size):
            parser.feed("text ")
        read.clear()
        parser.rollback(1)
        assert parser.feed("x") == [Event("arguments", "x", 0), Event("value", "x", 0, "/a/1")]
        assert len(read) <= 64


def test_all_that_is_told_of_a_part_has_one_pointer() -> None:
    parser = MessageParser("hermes", values=True)
    parser.feed(CALL.partition("%s}")[0] % "f" + '{"a": {"%s": "' % ("k" * 500))
    events = [event for _ in range(1_000) for event in parser.feed("x") if event.kind == "value"]
    assert len(events) == 1_000
    assert len({id(event.pointer) for event in events}) == 1
