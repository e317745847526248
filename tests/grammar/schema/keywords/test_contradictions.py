"""A schema that no value fits is refused, at the place that rules all values out."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler.grammar import Grammar, GrammarError

NONE = {"enum": []}
CLOSED = {"type": "object", "properties": {"a": {}}, "required": ["b"], "additionalProperties": False}
TOO_SHORT = {"type": "string", "minLength": 3, "maxLength": 2}
ENDLESS = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        (NONE, "#/enum"),
        ({"type": "string", "const": 1}, "#/const"),
        ({"type": "object", "properties": {"a": NONE}, "required": ["a"]}, "#/properties/a/enum"),
        ({"type": "array", "items": NONE, "minItems": 1}, "#/items/enum"),
        ({"type": "string", "enum": [], "properties": 3, "required": ["a"]}, "#/enum"),
        (CLOSED, "#/required"),
        ({"type": "object", "properties": {"x": CLOSED}, "required": ["x"]}, "#/properties/x/required"),
        (
            {"type": "array", "items": {"$ref": "#/$defs/n"}, "minItems": 1, "$defs": {"n": TOO_SHORT}},
            "#/$defs/n",
        ),
        ({"$ref": "#/$defs/a", "$defs": {"a": ENDLESS}}, "#/$defs/a"),
        ({"anyOf": [NONE, NONE]}, "#"),
        (False, "#"),
    ],
    ids=str,
)
def test_a_schema_without_values_is_refused_with_a_pointer(schema: Any, pointer: str) -> None:
    with pytest.raises(GrammarError, match="no value is valid under the JSON Schema") as caught:
        Grammar.from_json_schema(schema)
    assert caught.value.pointer == pointer
