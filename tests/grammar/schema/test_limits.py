"""Hostile schemas: a clear error, raised quickly, and no crash."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.limits import Limits
from engine_sampler.grammar.schema.compiling import rules_from_schema
from engine_sampler.grammar.schema.options import SchemaOptions
from engine_sampler.grammar.work import counted_work

from ...params.counting import count_calls
from .judging import Judge


def nested(depth: int, wrap: Any, schema: Any) -> Any:
    for _ in range(depth):
        schema = wrap(schema)
    return schema


def cyclic() -> dict[str, Any]:
    schema: dict[str, Any] = {}
    schema["allOf"] = [schema]
    return schema


HOSTILE = {
    "deep text": "[" * 100_000 + "]" * 100_000,
    "deep items": nested(100_000, lambda inner: {"items": inner}, {}),
    "deep allOf": nested(200_000, lambda inner: {"allOf": [inner]}, {"type": "string"}),
    "deep not": nested(1000, lambda inner: {"not": inner}, {"type": "string"}),
    "deep const": {"const": nested(100_000, lambda inner: [inner], 1)},
    "nested oneOf": nested(
        12,
        lambda inner: {"oneOf": [{"properties": {"a": inner}}, inner, {"required": ["b"]}]},
        {"minProperties": 1},
    ),
    "wide oneOf": {"oneOf": [{"properties": {f"a{n}": {"type": "string"}}} for n in range(100)]},
    "deep dependentSchemas": nested(
        150, lambda inner: {"dependentSchemas": {"a": inner}}, {"type": "object"}
    ),
    "clauses beside a maximum": {
        "dependencies": {f"k{i}": [f"k{(i * j + 1) % 1000}" for j in range(5)] for i in range(1000)},
        "maxProperties": 7,
    },
    "many choices": {
        "allOf": [{"anyOf": [{"properties": {f"p{n}": {"const": m}}} for m in range(4)]} for n in range(20)]
    },
    "many patterns": {"patternProperties": {f"^{n}": {"minimum": n} for n in range(50)}},
    "many cases": {
        "unevaluatedProperties": False,
        "anyOf": [{"properties": {f"p{n}": True}} for n in range(20)],
    },
    "counts": {"contains": {"type": "string"}, "minContains": 2000, "maxContains": 3000, "maxItems": 100_000},
    "many contains": {"allOf": [{"contains": {"minimum": n}, "minContains": 3} for n in range(6)]},
    "residues": {"allOf": [{"multipleOf": n} for n in (97, 89, 83)]},
    "many kinds of values": {"properties": {f"p{n}": {"items": {"minLength": n}} for n in range(12_000)}},
    "cyclic": cyclic(),
}


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_is_rejected_with_bounded_work(name: str) -> None:
    def read() -> None:
        with pytest.raises(GrammarError) as caught:
            rules_from_schema(HOSTILE[name])
        assert isinstance(caught.value, GrammarLimitError) == (name != "cyclic")

    assert count_calls(read) < 3_000_000  # about a second


@pytest.mark.quick_share(2)
@pytest.mark.parametrize(
    "schema",
    [
        {"enum": [f"value number {n}" for n in range(20_000)]},
        {"properties": {f"key{n}": {"type": "string"} for n in range(10_000)}},
        {"type": "string", "maxLength": 1_000_000, "pattern": "^(a|a)*$"},
        {"dependentRequired": {f"k{n}": [f"k{n + 1}"] for n in range(500)}},
        nested(
            10,
            lambda inner: {"if": inner, "then": {"minLength": 2}, "else": {"maxLength": 9}},
            {"minLength": 5, "type": "string"},
        ),
        {
            "$ref": "#/$defs/d0",
            "$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(2000)}
            | {"d2000": {"type": "null"}},
        },
        {
            "$ref": "#/$defs/d0",
            "$defs": {
                f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{min(n + 1, 25)}x"[:-1]}] * 2} for n in range(25)
            }
            | {"d25": {"type": "object"}},
        },
    ],
    ids=["constants", "keys", "length", "dependencies", "nested if", "chain", "shared references"],
)
def test_a_large_schema_is_compiled_with_bounded_work(schema: Any) -> None:
    assert count_calls(lambda: rules_from_schema(schema).program()) < 2_000_000


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ([1], "must be an object or a boolean"),
        ({"type": "strin"}, "not one of JSON Schema's types"),
        ({"properties": [1]}, "properties must be an object"),
        ({"properties": {1: {}}}, "keys are strings"),
        ({"enum": {}}, "enum must be an array"),
        ({"anyOf": {}}, "anyOf must be an array"),
        ({"items": 5}, "must be an object or a boolean"),
        ({"minLength": -1}, "minLength must be a whole number"),
        ({"const": b"x"}, "type bytes"),
        ({"$ref": 5}, r"\$ref must be a string"),
        ({"required": "a"}, "required must be an array of strings"),
        ({"type": "string", "pattern": "("}, r"pattern '\('"),
    ],
)
def test_an_invalid_schema_raises_a_clear_error(schema: Any, text: str) -> None:
    with pytest.raises(GrammarError, match=text):
        rules_from_schema(schema)


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="unsupported must be one of"):
        SchemaOptions(unsupported="drop")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="formats must be one of"):
        SchemaOptions(formats="maybe")  # type: ignore[arg-type]


def test_the_work_for_a_schema_is_counted_in_one_limit() -> None:
    schema = nested(
        10, lambda inner: {"if": inner, "then": {"pattern": "a"}, "else": {"pattern": "b"}}, {"minLength": 1}
    )
    with (
        counted_work(Limits(reading=5_000)),
        pytest.raises(GrammarLimitError, match=r"5000 steps .*Limits\.reading"),
    ):
        rules_from_schema(schema)


def test_a_reference_to_itself_by_a_chain_is_a_fault() -> None:
    definitions = {f"d{n}": {"$ref": f"#/$defs/d{(n + 1) % 500}"} for n in range(500)}
    with pytest.raises(GrammarError, match="leads back to itself"):
        rules_from_schema({"$ref": "#/$defs/d0", "$defs": definitions})


def test_dependent_schemas_nested_a_hundred_deep_are_read_where_the_stack_is_free() -> None:
    def accepts(depth: int) -> bool:
        schema = nested(depth, lambda inner: {"dependentSchemas": {"a": inner}}, {"required": ["b"]})
        return Judge(schema).accepts('{"a": 1, "b": 2}') and not Judge(schema).accepts('{"a": 1}')

    with ThreadPoolExecutor(1) as fresh:
        assert fresh.submit(accepts, 95).result()
        with pytest.raises(GrammarLimitError, match="nested more than 100 deep"):
            fresh.submit(accepts, 105).result()
