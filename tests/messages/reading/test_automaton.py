"""What parsers with the same definition share, and how much of it is remembered."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

import pytest

from engine_sampler.messages import MessageParser
from engine_sampler.messages.reading import automaton
from engine_sampler.messages.reading.automaton import MAX_SHARED, MAX_STEPS, SharedAutomata

from ...grammar.bodies.tools.transcripts import TOOLS
from ...interruptions.injecting import Injection, count_of
from ..vocabularies import MARKERS, vocabulary

CALL = "<tool_call>\n<function=get_weather>\n<parameter=city>\n%s\n</parameter>\n</function>\n</tool_call>"


def test_parsers_with_equal_arguments_share_what_is_known() -> None:
    tokenizer = vocabulary(True)
    parsers = [
        MessageParser("qwen_3_5", copy.deepcopy(TOOLS), tokenizer=tokenizer, stop=stop)
        for stop in ((), (), ("x",))
    ]
    assert parsers[0]._automaton is parsers[1]._automaton
    assert parsers[0]._automaton is not parsers[2]._automaton


def test_tools_that_change_later_are_other_tools() -> None:
    tools = copy.deepcopy(TOOLS)
    first = MessageParser("qwen_3_5", tools)
    city = tools[0]["function"]["parameters"]["properties"]["city"]
    city["type"] = "integer"
    second = MessageParser("qwen_3_5", tools)
    for parser, expected in ((first, '{"city": "1"}'), (second, '{"city": 1}')):
        parser.feed(CALL % "1")
        assert parser.parts[0].text == expected


def test_tools_that_are_not_plain_values_are_read_too() -> None:
    parser = MessageParser("qwen_3_5", [MappingProxyType(one) for one in TOOLS])
    parser.feed(CALL % "Paris")
    assert parser.parts[0].name == "get_weather"


def test_a_bounded_number_of_automata_is_kept() -> None:
    shared = SharedAutomata()
    made: list[int] = []

    def make(given: tuple[object, ...]) -> automaton.MessageAutomaton:
        made.append(given[0])  # type: ignore[arg-type]
        return MessageParser(None)._automaton

    for number in (*range(MAX_SHARED), 0, MAX_SHARED, 0, 1):
        shared.find((), (number,), make)
    assert made == [*range(MAX_SHARED + 1), 1]
    shared.find((), ("x" * automaton.MAX_SIZE,), make)
    shared.find((), ("x" * automaton.MAX_SIZE,), make)
    assert len(made) == MAX_SHARED + 4


@pytest.mark.parametrize("patience", [0, 5])
def test_a_bounded_number_of_steps_is_remembered(patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "PATIENCE", patience)
    parser = MessageParser("qwen_3_5", [])
    begin = parser._automaton
    for number in range(2 * MAX_STEPS):
        parser.feed(f"<{number}>")
        assert len(begin._places) <= MAX_STEPS + 2
        assert begin._count <= MAX_STEPS
    parser.finish()
    assert parser.parts[0].text == "".join(f"<{number}>" for number in range(2 * MAX_STEPS))


def test_an_automaton_that_is_asked_for_again_remembers_at_once() -> None:
    tokenizer = vocabulary(True)
    ids = list((CALL % "Paris").encode())
    counts = []
    for _ in range(3):
        parser = MessageParser("qwen_3_5", TOOLS, tokenizer=tokenizer)
        for token_id in ids:
            parser.feed([token_id])
        counts.append(parser._automaton._count)
    assert counts[0] == 0
    assert 0 < counts[1] == counts[2]


def test_a_token_during_which_the_id_of_a_call_is_interrupted_has_not_come() -> None:
    def interrupt(index: int, name: str, given: str) -> str:
        raise KeyboardInterrupt

    tokenizer = vocabulary(True)
    first = len(tokenizer) - len(MARKERS) + MARKERS.index("<tool_call>")
    ids = [*b"Hm.", first, *b'\n{"name": "f", "arguments": {']
    parser = MessageParser("hermes", tokenizer=tokenizer, call_id=interrupt)
    for token_id in ids:
        parser.feed([token_id])
    for pieces in ([ord("}")], [ord("}"), ord("}")]):
        with pytest.raises(KeyboardInterrupt):
            parser.feed(pieces)
        assert (len(parser), [one.text for one in parser.parts]) == (len(ids), ["Hm."])


def test_an_automaton_is_made_while_others_are_found() -> None:
    shared = SharedAutomata()

    def make(given: tuple[object, ...]) -> automaton.MessageAutomaton:
        return MessageParser(None)._automaton

    def make_slowly(given: tuple[object, ...]) -> automaton.MessageAutomaton:
        with ThreadPoolExecutor(1) as other:
            other.submit(shared.find, (), (2,), make).result(timeout=60)
            return other.submit(shared.find, (), (1,), make).result(timeout=60)

    made = shared.find((), (1,), make_slowly)
    assert shared.find((), (1,), make) is made


def test_wherever_a_search_is_interrupted_other_threads_search_on() -> None:
    def make(given: tuple[object, ...]) -> automaton.MessageAutomaton:
        return MessageParser(None)._automaton

    for at in range(count_of(lambda: SharedAutomata().find((), (1,), make))):
        shared = SharedAutomata()
        Injection(KeyboardInterrupt, at).during(lambda: shared.find((), (1,), make))  # noqa: B023
        with ThreadPoolExecutor(1) as other:
            made = other.submit(shared.find, (), (1,), make).result(timeout=60)
        assert shared.find((), (1,), make) is made
