"""Values that grow with their JSON."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from engine_sampler.messages import MessageParser, ValueReader

from .families import random_answer
from .test_laws import ROUNDS
from .vocabularies import random_cuts

VALUES: list[Any] = [
    "",
    'a"b\\c\n🙂é\u2028',
    0,
    -1.5e-7,
    True,
    None,
    [],
    {},
    [[[]]],
    {"a": {"b~/c": [1, "x", {"": None}]}},
]


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_a_value_is_what_json_says_however_its_text_is_cut(number: int) -> None:
    for seed in range(20 * ROUNDS):
        random = Random(seed)
        text = json.dumps(VALUES[number], ensure_ascii=random.random() < 0.5, indent=random.choice([None, 1]))
        reader = ValueReader()
        for piece in random_cuts(f" {text}", random):
            reader.feed(piece)
            json.dumps(reader.value)
        assert reader.value == VALUES[number]


def test_half_a_value_is_what_there_is_of_it() -> None:
    reader = ValueReader()
    assert reader.value is None
    assert reader.feed('{"city": "Par') == [("/city", "Par")]
    assert reader.value == {"city": "Par"}
    assert reader.feed('is", "days": [1, 2') == [("/city", "is"), ("/days/0", "1")]
    assert reader.value == {"city": "Paris", "days": [1]}
    assert reader.feed('5], "a/b": tr') == [("/days/1", "25")]
    assert reader.feed("ue}") == [("/a~1b", "true")]
    assert reader.value == {"city": "Paris", "days": [1, 25], "a/b": True}


@pytest.mark.parametrize(
    "text", ["{]", "[1,,2]", '{"a" 1}', '"\\x"', "[1] 2", "nul ", '{"a": NaN}', "[" * 300]
)
def test_what_is_not_json_is_an_error_ever_after(text: str) -> None:
    reader = ValueReader()
    with pytest.raises(ValueError, match=r"JSON|nested"):
        reader.feed(text)
    with pytest.raises(ValueError, match=r"JSON|nested"):
        reader.feed(" ")
    with pytest.raises(ValueError, match=r"JSON|nested"):
        _ = reader.value


@pytest.mark.parametrize("family", ["hermes", "qwen_3_5", "cohere", "llama_4", "gemma_4", "minimax_m3"])
def test_values_of_arguments_grow_to_the_arguments(family: str) -> None:
    for seed in range(5 * ROUNDS):
        random = Random(seed)
        answer = random_answer(family, random)
        parser = MessageParser(family, None, values=True)
        if family in ("qwen_3_5", "minimax_m3"):
            answer = answer._replace(calls=[])  # types are not known without tools
        events = []
        for piece in random_cuts(answer.text, random):
            events += parser.feed(piece)
        for number, call in enumerate(answer.calls):
            grown: dict[str, str] = {}
            for event in events:
                if event.kind == "value" and event.call == number:
                    grown[event.pointer] = grown.get(event.pointer, "") + event.text
            assert grown == leaves(call.arguments, "")


def leaves(value: Any, pointer: str) -> dict[str, str]:
    """The scalars within a value by their pointers."""
    if isinstance(value, dict | list):
        members = value.items() if isinstance(value, dict) else enumerate(value)
        return {
            key: one for name, inner in members for key, one in leaves(inner, f"{pointer}/{name}").items()
        }
    return {pointer: value if isinstance(value, str) else json.dumps(value)}


def test_the_content_may_be_a_value() -> None:
    parser = MessageParser(reasoning_marks=("<think>", "</think>"))
    parser.feed('<think>{</think>\n{"a": [1, "x')
    assert parser.value == {"a": [1, "x"]}
    parser.feed('y"]}')
    parser.finish()
    assert parser.value == {"a": [1, "xy"]}
