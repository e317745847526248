"""Errors say where they are: a pointer into a schema, and the line of a text with a caret."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler, Tokenizer
from engine_sampler.grammar import (
    Grammar,
    GrammarCompiler,
    GrammarError,
    GrammarLimitError,
    GrammarSource,
    Limits,
)
from engine_sampler.grammar.errors import excerpt_of

BYTES = Tokenizer([*(bytes([i]) for i in range(256)), b"<eos>"], [256])
MANY = {f"^k{i}": {"const": i} for i in range(400)}


def error_of(read: Callable[[], Any]) -> GrammarError:
    with pytest.raises(GrammarError) as caught:
        read()
    return caught.value


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"properties": {"p13": {"maxLength": -1}}, "required": ["p13"]}, "#/properties/p13/maxLength"),
        ({"properties": {"a/b~c": {"minimum": "1"}}}, "#/properties/a~1b~0c/minimum"),
        ({"items": {"type": "strin"}}, "#/items/type"),
        ({"items": {"type": ["string", "nul"]}}, "#/items/type"),
        ({"items": {"type": "strin", "contentEncoding": "base64"}}, "#/items/type"),
        ({"properties": {"a": {"pattern": "(a"}}}, "#/properties/a/pattern"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "#/properties/a/$ref"),
        ({"$defs": {"b": {"multipleOf": 0}}, "items": {"$ref": "#/$defs/b"}}, "#/$defs/b/multipleOf"),
        ({"properties": {"a": {"type": "object", "patternProperties": MANY}}}, "#/properties/a"),
        ({"properties": {"a": {"multipleOf": 7, "not": {"multipleOf": 997}}}}, "#/properties/a"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "#"),
    ],
    ids=[
        "count",
        "escaped",
        "type",
        "types",
        "content",
        "pattern",
        "ref",
        "defs",
        "patterns",
        "numbers",
        "whole",
    ],
)
def test_an_error_of_a_schema_has_a_pointer(schema: Any, pointer: str) -> None:
    error = error_of(lambda: Grammar.from_json_schema(schema))
    assert error.pointer == pointer
    assert pointer == "#" or pointer in str(error)
    assert error.place is None


def test_an_error_of_a_schema_as_text_has_a_line_with_a_caret() -> None:
    schema = {"properties": {"a": {"type": "string"}, "b": [1, {"c": 2}], "p": {"maxLength": -1}}}
    schema["properties"]["b"] = {"enum": schema["properties"]["b"]}  # type: ignore[dict-item]
    text = json.dumps(schema, indent=2)
    error = error_of(lambda: Grammar.from_json_schema(text))
    line = text.splitlines()[error.line - 1]  # type: ignore[operator]
    assert line[error.column - 1 :] == '"maxLength": -1'  # type: ignore[operator]
    shown, caret = str(error).splitlines()[1:]
    assert shown[caret.index("^") :] == '"maxLength": -1'


@pytest.mark.parametrize(
    ("read", "line", "column"),
    [
        (lambda: Grammar.from_json_schema('{\n "a": 1,\n "b" 2}'), 3, 6),
        (lambda: Grammar.from_structural_tag('{"format": }'), 1, 12),
        (lambda: Grammar.from_lark('start: a\na: "x" b\n'), 2, 8),
        (lambda: Grammar.from_lark('start: a\na: "x" /(b/\n'), 2, 8),
        (lambda: Grammar.from_lark('start: a\na: %json {"type": "strin"}\n'), 2, 4),
        (lambda: Grammar.from_gbnf('root ::= "a" b\n'), 1, 14),
        (lambda: Grammar.from_regex("ab\n(?P<x>c)(?P=x)"), 2, 9),
    ],
    ids=["json", "tag", "lark", "terminal", "schema-in-lark", "gbnf", "regex"],
)
def test_an_error_of_a_text_shows_its_line(read: Callable[[], Any], line: int, column: int) -> None:
    error = error_of(read)
    assert (error.line, error.column) == (line, column)
    _, shown, caret = str(error).splitlines()
    assert caret.strip() == "^"
    assert caret.index("^") == 2 + column - 1
    assert shown.startswith("  ")


def test_a_long_line_is_cut_around_the_caret() -> None:
    text = "a" * 500 + "!" + "b" * 500
    shown, caret = excerpt_of(text, 1, 501).splitlines()
    assert shown[caret.index("^")] == "!"
    assert len(shown) < 90
    assert shown[2] == shown[-1] == "…"
    assert excerpt_of(text, 2, 1) == ""
    assert excerpt_of("a\tb\x1b", 1, 3) == "  a b \n    ^"


def test_errors_keep_their_places_through_pickle_and_in_workers() -> None:
    error = error_of(lambda: Grammar.from_json_schema('{"items": {"maxLength": -1}}'))
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.pointer, copied.line) == (str(error), "#/items/maxLength", error.line)


def test_a_limit_of_reading_names_a_place() -> None:
    schema = {"properties": {"a": {"patternProperties": {f"^k{i}": {"const": i} for i in range(9)}}}}
    error = error_of(lambda: Grammar.from_json_schema(schema, limits=Limits(reading=150)))
    assert isinstance(error, GrammarLimitError)
    assert error.pointer is not None


# --- limits of a scheduler ---


def test_a_scheduler_limits_the_grammars_of_requests() -> None:
    scheduler = Scheduler(257, BYTES, grammar_limits=Limits(text=20))
    scheduler.add(SamplingParams(regex="a" * 20))
    for params in (SamplingParams(regex="a" * 21), SamplingParams(json_schema={"enum": ["a" * 20]})):
        with pytest.raises(ParameterError, match=r"Limits\.text"):
            scheduler.add(params)
    with pytest.raises(ParameterError, match=r"Limits\.text"):
        scheduler.add(SamplingParams(), grammar='start: "aaaaaaaaaaaaaaaaaaaaa"')
    scheduler.add(SamplingParams(grammar="iso8601"))  # the package's own are longer
    Scheduler(257, BYTES).add(SamplingParams(regex="a" * 21))


def test_a_compiler_keeps_the_limits_of_a_source() -> None:
    schema = {"patternProperties": {f"^k{i}.*x{i}": {"const": i} for i in range(12)}}
    source = GrammarSource("json_schema", schema, (("limits", Limits(reading=300)),))
    with GrammarCompiler() as compiler, pytest.raises(GrammarLimitError, match=r"Limits\.reading"):
        compiler.submit(source, BYTES).result(60)


def test_limits_of_another_kind_are_refused() -> None:
    with pytest.raises(ParameterError, match="grammar_limits=3 is not allowed"):
        Scheduler(257, BYTES, grammar_limits=3)  # type: ignore[arg-type]
