"""Python's keywords, and Gemma's objects."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from engine_sampler.messages import MessageParser
from engine_sampler.messages.events import DeviationError

from .reading import arguments_of, properties

PYTHON = [
    ("a='x',b='y'", {"a": "x", "b": "y"}),
    ('a={"x": true, "y": [null, false]}', {"a": {"x": True, "y": [None, False]}}),
    ("a=true", {"a": True}),
    ("a=True, b=None", {"a": True, "b": None}),
    ("a='line 1\nline 2'", {"a": "line 1\nline 2"}),
    ("a='''it's \"so\"\n'''", {"a": 'it\'s "so"\n'}),
    ('a="""x""y"""', {"a": 'x""y'}),
    ("a='', b=\"\"", {"a": "", "b": ""}),
    ("a='it\\'s \\u00e9 \\x41 \\/'", {"a": "it's é A \\/"}),
    ("a=(1, 'b')", {"a": [1, "b"]}),
    ("a=(1,), b=()", {"a": [1], "b": []}),
    ("a={'x', 'y'}", {"a": ["x", "y"]}),
    ("a={1, 2}", {"a": [1, 2]}),
    ("a={(1, 2), {'x': 1}}", {"a": [[1, 2], {"x": 1}]}),
    ("a={}", {"a": {}}),
    ("a={'x': {'y': {1}}}", {"a": {"x": {"y": [1]}}}),
    ("a={1: 'x', True: 2}", {"a": {"1": "x", "true": 2}}),
    ("a=[1, 2,], b={'x': 1,},", {"a": [1, 2], "b": {"x": 1}}),
    ("a=12., b=[1_2.5e3, -40], c=1E5", {"a": 12.0, "b": [12.5e3, -40], "c": 1e5}),
    ("a=007, b=1_000, c=+5, d=-3.5", {"a": 7, "b": 1000, "c": 5, "d": -3.5}),
    (" \n a = 1 ,\n b = 2 \n", {"a": 1, "b": 2}),
    ("", {}),
]


@pytest.mark.parametrize(("text", "value"), PYTHON)
def test_keywords_of_python_are_read(text: str, value: Any) -> None:
    assert arguments_of("pythonic", text) == value


@pytest.mark.parametrize(
    "text",
    ["a=", "a=,", "1", "a", "a='x' 'y'", "a=b", "a=[1", "a={'x' 1}", "a=1+2", "a=12x", "a=1.e", "'a'=1"],
)
def test_what_is_no_literal_is_a_deviation(text: str) -> None:
    with pytest.raises((DeviationError, AssertionError)):
        arguments_of("pythonic", text)


def test_digits_are_given_as_they_come() -> None:
    parser = MessageParser("lfm_2", None)
    parser.feed("<|tool_call_start|>[f(a=[1")
    assert [event.text for digit in "234" for event in parser.feed(digit)] == ["2", "3", "4"]
    parser.feed(".5])]<|tool_call_end|>")
    assert parser.parts[0].text == '{"a": [1234.5]}'


TYPED = [
    ({"type": "integer"}, "'5'", 5),
    ({"type": "boolean"}, "'True'", True),
    ({"type": "object"}, "'{\"x\": 1}'", {"x": 1}),
    ({"type": "string"}, "5", "5"),
    ({"type": "string"}, "null", "null"),
    ({"type": "string"}, "hello", "hello"),
    ({"type": ["string", "null"]}, "None", None),
    ({"type": "array", "items": {"type": "integer"}}, "['1', 2]", [1, 2]),
    (properties(x={"type": "string"}), "{'x': 1}", {"x": "1"}),
]


@pytest.mark.parametrize(("schema", "text", "value"), TYPED)
def test_values_of_python_become_what_their_schema_asks_for(schema: Any, text: str, value: Any) -> None:
    assert arguments_of("pythonic", f"a={text}", properties(a=schema)) == {"a": value}


GEMMA = [
    ('{a:<|"|>x<|"|>,b:[1,true]}', {"a": "x", "b": [1, True]}),
    ("{a:'x',b:\"y\"}", {"a": "x", "b": "y"}),
    ("{a='x',b=1}", {"a": "x", "b": 1}),
    ("{a:hello}", {"a": "hello"}),
    ("{a:two words , b:http://x.y/z?q=1}", {"a": "two words", "b": "http://x.y/z?q=1"}),
    ("{a:None,b:True,c:[x,null]}", {"a": None, "b": True, "c": ["x", None]}),
    ('{"a":1,<|"|>b c<|"|>:{x:2}}', {"a": 1, "b c": {"x": 2}}),
    ("{ a : 1 , }", {"a": 1}),
    ("{}", {}),
]


@pytest.mark.parametrize(("text", "value"), GEMMA)
def test_objects_of_gemma_are_read(text: str, value: Any) -> None:
    assert arguments_of("gemma", text) == value


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "null", "null"),
        ({"type": "string"}, "90210", "90210"),
        ({"type": "integer"}, "'5'", 5),
    ],
)
def test_values_of_gemma_become_what_their_schema_asks_for(schema: Any, text: str, value: Any) -> None:
    assert arguments_of("gemma", f"{{a:{text}}}", properties(a=schema)) == {"a": value}


def test_names_of_1024_characters_are_read() -> None:
    for style, text in (("pythonic", "{}=1"), ("gemma", "{{{}:1}}")):
        assert arguments_of(style, text.format("n" * 1024)) == {"n" * 1024: 1}
        with pytest.raises(DeviationError, match="name"):
            arguments_of(style, text.format("n" * 1025))


def test_a_string_where_none_is_allowed_is_one_if_it_is_long() -> None:
    text = "5" * 20_000
    assert arguments_of("pythonic", f"a='{text}'", properties(a={"type": "integer"})) == {"a": text}


def test_what_python_writes_is_read() -> None:
    random = Random(3)
    for _ in range(300):
        value = {name: _value(random, 3) for name in ("a", "b")}
        text = ", ".join(f"{name}={one!r}" for name, one in value.items())
        assert arguments_of("pythonic", text) == json.loads(json.dumps(value, default=list)), text


def _value(random: Random, depth: int) -> Any:
    kind = random.randrange(9 if depth else 6)
    if kind < 3:
        return "".join(random.choices("a'\"\\\n\té🙂{}[],:", k=random.randrange(5)))
    if kind < 6:
        return random.choice([True, False, None, 0, -12, 2.5, 1e-07, 10**20])
    items = [_value(random, depth - 1) for _ in range(random.randrange(3))]
    if kind == 6:
        return {f"k'{number}": one for number, one in enumerate(items)}
    return items if kind == 7 else tuple(items)
