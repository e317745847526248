"""Subschemas that say the same have one literal."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler.grammar.schema.alternatives.equal_schemas import EqualSchemas
from engine_sampler.grammar.schema.document import Document
from engine_sampler.grammar.schema.keywords.all_types import KEYWORDS
from engine_sampler.grammar.schema.nodes import Expander

ITEM = {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"enum": [1, True]}}}


def _literals(*schemas: Any) -> list[int]:
    """The first literals of the members of a document."""
    names = [f"p{number}" for number in range(len(schemas))]
    whole = {"properties": dict(zip(names, schemas, strict=True)), "$defs": {"x": {"type": "null"}}}
    document = Document(whole)
    expander = Expander(document, KEYWORDS, "error", "assert", None)
    equal = EqualSchemas(expander)
    return [equal.literal(expander.literal(one, document.root, ())) for one in whole["properties"].values()]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ITEM, {**ITEM, "description": "annotated"}),
        (ITEM, {"properties": {**ITEM["properties"]}, "type": "object"}),
        ({"items": {"items": ITEM}}, {"items": {"items": {**ITEM, "title": "x"}}}),
        ({"const": {"a": 1, "b": 2}}, {"const": {"b": 2, "a": 1.0}}),
        ({"allOf": [ITEM, {"minProperties": 1}]}, {"allOf": [{**ITEM}, {"minProperties": 1}]}),
    ],
    ids=["annotated", "in-another-order", "nested", "equal-constants", "lists"],
)
def test_equal_schemas_have_one_literal(one: Any, other: Any) -> None:
    first, second = _literals(one, other)
    assert first == second


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"const": [1]}, {"const": [True]}),
        ({"enum": [{"a": 0}]}, {"enum": [{"a": False}]}),
        (ITEM, {**ITEM, "properties": {"a": {"$ref": "#/$defs/x"}}}),
        ({"items": {"not": {"type": "null"}}}, {"items": {"type": "null"}}),
        ({"type": "string", "nullable": True, "not": {}}, {"type": "string", "not": {}}),
        ({"items": {"$id": "urn:one", "type": "null"}}, {"items": {"$id": "urn:two", "type": "null"}}),
    ],
    ids=["true-is-not-1", "false-is-not-0", "fewer-keys", "negated", "nullable", "other-resources"],
)
def test_schemas_that_differ_have_different_literals(one: Any, other: Any) -> None:
    first, second = _literals(one, other)
    assert first != second
