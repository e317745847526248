"""Any value of any keyword gives a grammar or a `GrammarError`, wherever the keyword stands."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler, Tokenizer
from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.limits import Limits
from engine_sampler.grammar.schema.compiling import rules_from_schema
from engine_sampler.grammar.work import counted_work

from ..judging import accepted

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))

KEYWORDS = (
    "type enum const $ref $dynamicRef $recursiveRef allOf anyOf oneOf not if then else properties "
    "patternProperties additionalProperties required propertyNames minProperties maxProperties "
    "dependentRequired dependentSchemas dependencies prefixItems items additionalItems contains minContains "
    "maxContains minItems maxItems uniqueItems minimum maximum exclusiveMinimum exclusiveMaximum multipleOf "
    "minLength maxLength pattern format unevaluatedProperties unevaluatedItems $id id $schema $anchor "
    "$dynamicAnchor $recursiveAnchor $defs definitions $vocabulary nullable"
).split()

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2.0, 1.5, -0.0, 1e308, 1e-320, 10**30, 10**401, 10**4000),
    *(float("inf"), float("-inf"), float("nan"), "", "a", "string", "object", "#", "#/", "#a", "#/$defs/a"),
    *("#/%ff", "#/0/1", "http://[", "http://[::1", "urn:x:y", "(", "[", "\\", "\ud800", "\x00", "date"),
    *("regex", "#/allOf/" + "9" * 5000, "https://json-schema.org/draft/2020-12/schema"),
    *([], [1], ["a", "a"], [None], [{}], [[]], [True], ["string", "null"], [0.5, "x", None, {}, [1]]),
    *([{"type": 0}], [float("nan")], ["\ud800"], {}, {"a": 1}, {"a": {}}, {"a": False}, {"a": []}),
    *({"a": ["b"]}, {"a": [1]}, {"a": None}, {"type": 0}, {"type": ["string", 0]}, {"$ref": "#"}),
    *({"const": float("nan")}, {"\ud800": {}}, {"(": {}}, {"not": {}}, {"minimum": "x"}, {"$id": 5}),
    *({"$ref": "http://["}, {"multipleOf": 0}, {"multipleOf": 1e-300}, {"multipleOf": 1e300}),
)

CONTEXTS: tuple[Callable[[dict[str, Any]], dict[str, Any]], ...] = (
    lambda schema: schema,
    lambda schema: {"not": schema},
    lambda schema: {"anyOf": [schema, {"type": "integer"}]},
    lambda schema: {"oneOf": [schema, {"required": ["a"]}]},
    lambda schema: {"properties": {"a": schema}, "required": ["a"]},
    lambda schema: {"if": schema, "then": {"minItems": 1}, "else": {"minProperties": 1}},
    lambda schema: {"allOf": [schema], "unevaluatedProperties": False, "unevaluatedItems": False},
    lambda schema: {"not": {"properties": {"a": schema}}},
    lambda schema: {"contains": schema, "prefixItems": [True, schema]},
    lambda schema: {"dependentSchemas": {"a": schema}, "unevaluatedProperties": False},
    lambda schema: {"$defs": {"a": schema}, "$ref": "#/$defs/a", "type": ["object", "array", "number"]},
    lambda schema: {"patternProperties": {"a": schema}, "additionalProperties": schema},
    lambda schema: {"$schema": "http://json-schema.org/draft-07/schema#", "items": [schema]},
    lambda schema: {"enum": [7, "a", [1], {"a": 1}, None, True], **schema},
)

SIBLINGS: tuple[dict[str, Any], ...] = (
    {},
    {"type": "object"},
    {"unevaluatedProperties": False},
    {"unevaluatedItems": False},
    {"enum": [7, "a"]},
    {"properties": {"a": True}},
    {"contains": True},
    {"minimum": 3},
)

BROKEN = (
    {"items": {"type": [0.5, {}]}},
    {"not": {"properties": {"a": {"type": 0}}}},
    {"enum": [7], "multipleOf": 0},
    {"dependentSchemas": False, "unevaluatedProperties": False},
)


@pytest.mark.parametrize("schema", BROKEN, ids=str)
def test_a_keyword_with_a_wrong_value_is_named(schema: dict[str, Any]) -> None:
    with pytest.raises(GrammarError, match=r"type|multipleOf|dependentSchemas"):
        rules_from_schema(schema)


@pytest.mark.parametrize("schema", BROKEN, ids=str)
def test_a_scheduler_refuses_a_wrong_value_and_keeps_its_requests(schema: dict[str, Any]) -> None:
    scheduler = Scheduler(257, Tokenizer([bytes((i,)) for i in range(256)] + [b"</s>"], eos_token_ids=[256]))
    scheduler.add(SamplingParams(seed=1), request_id="neighbour")
    with pytest.raises(ParameterError, match="json_schema"):
        scheduler.add(SamplingParams(json_schema=schema))
    assert scheduler.request_ids == ["neighbour"]


@pytest.mark.filterwarnings("ignore")
def test_any_value_of_any_keyword_gives_a_grammar_or_a_clear_error() -> None:
    rng = random.Random(0)
    for keyword in KEYWORDS:
        for value in rng.sample(VALUES, min(len(VALUES), 6 * ROUNDS)):
            schema = rng.choice(CONTEXTS)({**rng.choice(SIBLINGS), keyword: value})
            try:
                with counted_work(Limits(reading=30_000)):
                    rules_from_schema(schema).program()
            except GrammarError:
                continue


def test_nullable_admits_null_as_in_openapi() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "nullable": True},
            "b": {"type": ["integer"], "nullable": True},
        },
        "additionalProperties": {"type": "integer", "nullable": False},
    }
    texts = ('{"a":null,"b":null}', '{"a":"x","b":1,"c":2}', '{"c":null}', '{"a":1}')
    assert accepted(schema, *texts) == list(texts[:2])
    assert accepted({"type": "string", "nullable": True, "maxLength": 1}, "null", '"a"', '"ab"') == [
        "null",
        '"a"',
    ]
    assert accepted({"nullable": True, "const": 1}, "null", "1") == ["1"]
