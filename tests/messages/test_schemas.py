"""What schemas say about the types of values."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler.messages.schemas import ANYTHING, TYPES, SchemaView

CASES: list[tuple[Any, set[str], set[str] | None]] = [
    ({"type": "string"}, {"string"}, None),
    ({"type": "integer"}, {"number"}, set()),
    ({"type": ["string", "null"]}, {"string", "null"}, None),
    ({"enum": ["a", 1, None]}, {"string", "number", "null"}, {"a"}),
    ({"const": "a"}, {"string"}, {"a"}),
    ({"type": "string", "enum": ["a", "b", 1]}, {"string"}, {"a", "b"}),
    ({"anyOf": [{"enum": ["a"]}, {"type": "array"}]}, {"string", "array"}, {"a"}),
    ({"anyOf": [{"enum": ["a"]}, {"type": "string"}]}, {"string"}, None),
    ({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}, {"number", "boolean"}, set()),
    ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, {"number"}, set()),
    ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "object"}}}, {"object"}, set()),
    ({"$ref": "#"}, set(TYPES), None),
    ({"$ref": "https://example.com"}, set(TYPES), None),
    ({"$ref": 5}, set(TYPES), None),
    ({"anyOf": [{"$ref": "#"}] * 60}, set(TYPES), None),
    ({}, set(TYPES), None),
    (True, set(TYPES), None),
    ({"type": 5}, set(TYPES), None),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_schema_says_which_types_and_strings_its_values_have(number: int) -> None:
    schema, types, strings = CASES[number]
    view = SchemaView(schema)
    assert view.types == types
    assert view.strings == strings
    assert view.is_text is (strings is None)


def test_members_and_items_have_schemas_of_their_own() -> None:
    schema = {
        "properties": {"a": {"type": "integer"}, "b": {"items": {"$ref": "#/$defs/c"}}},
        "additionalProperties": {"type": "null"},
        "$defs": {"c": {"type": "boolean"}},
    }
    view = SchemaView(schema)
    assert view.member("a").types == {"number"}
    assert view.member("x").types == {"null"}
    assert view.member("b").item(3).types == {"boolean"}
    assert SchemaView({"prefixItems": [{"type": "null"}], "items": False}).item(0).types == {"null"}
    assert SchemaView({"properties": [], "items": []}).item(0) is ANYTHING
