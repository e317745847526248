"""Arrays whose items must differ are refused where another reading may allow the same arrays."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler.grammar import Grammar
from engine_sampler.grammar.errors import UnsupportedKeywordError

STRINGS = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
MIXED = {"type": "array", "items": {"type": ["integer", "string"]}, "uniqueItems": True}
PLAIN = {"type": "array", "items": {"type": "string"}}


def an_object(**properties: Any) -> dict[str, Any]:
    """The schema of an object with these properties, and no others."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [MIXED, {"const": ["a", "a"]}]},
        {"anyOf": [MIXED, PLAIN]},
        {"anyOf": [STRINGS, {"type": "array", "maxItems": 1}]},
        {"anyOf": [STRINGS, {"enum": [[f"v{n}", f"v{n}"] for n in range(40)]}]},
        {"anyOf": [an_object(t=STRINGS, k={"const": 1}), an_object(t=PLAIN, k={"const": 2})]},
        {"anyOf": [an_object(t=STRINGS), {"type": "object", "additionalProperties": PLAIN}]},
        {
            "anyOf": [{"$ref": "#/$defs/one"}, {"$ref": "#/$defs/other"}],
            "$defs": {
                "one": an_object(t=STRINGS, next={"$ref": "#/$defs/one"}),
                "other": an_object(t=PLAIN, next={"$ref": "#/$defs/other"}),
            },
        },
        {
            "if": {"properties": {"k": {"const": 1}}},
            "then": an_object(t=STRINGS, k={}),
            "else": an_object(t=PLAIN, k={}),
        },
    ],
)
def test_arrays_with_another_reading_are_refused(schema: Any) -> None:
    with pytest.raises(UnsupportedKeywordError, match="uniqueItems is not supported here: other"):
        Grammar.from_json_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [MIXED, STRINGS]},
        {"anyOf": [MIXED, {"const": ["a", "b", 1]}]},
        {"anyOf": [MIXED, {"enum": [["a"], ["b", "c"]]}]},
        {"anyOf": [MIXED, {"enum": [[f"v{n}", f"w{n}"] for n in range(40)]}]},
        {"anyOf": [STRINGS, {"type": "array", "items": {"type": "string"}, "maxItems": 1}]},
        {"anyOf": [STRINGS, {"type": ["object", "string", "null"]}]},
        {"type": "object", "properties": {"t": STRINGS, "u": PLAIN}},
        {"type": "object", "patternProperties": {"^a": STRINGS, "^b": PLAIN}},
        {"type": "array", "prefixItems": [STRINGS, PLAIN]},
    ],
)
def test_arrays_are_remembered_where_no_reading_allows_repetitions(schema: Any) -> None:
    assert Grammar.from_json_schema(schema).program.unique_items


def test_the_order_of_keys_may_tell_arrays_apart() -> None:
    one, other = (
        {**an_object(k={"const": k}, t=t), "required": ["k"]} for k, t in ((1, STRINGS), (2, PLAIN))
    )
    grammar = Grammar.from_json_schema({"anyOf": [one, other]}, key_order="schema")
    assert grammar.check('{"k":2,"t":["a","a"]}').valid
    assert not grammar.check('{"k":1,"t":["a","a"').viable


def test_what_is_not_enforced_is_said() -> None:
    schema = {"anyOf": [an_object(s=MIXED, t=STRINGS), an_object(t=PLAIN)]}
    with pytest.warns(UserWarning, match="uniqueItems is not supported here"):
        warned = Grammar.from_json_schema(schema, unsupported="warn")
    ignored = Grammar.from_json_schema(schema, unsupported="ignore")
    for grammar in (warned, ignored):
        assert grammar.check('{"t":["a","a"]}').valid
        assert not grammar.check('{"s":["a","a"').viable
        assert [text.partition(" ")[0] for text in grammar.unenforced] == ["uniqueItems"]


def test_many_keys_are_compared_in_little_time() -> None:
    properties = {f"k{n}": {"type": "string"} for n in range(1000)}
    schema = {"type": "object", "properties": {**properties, "t": STRINGS}}
    assert Grammar.from_json_schema(schema).program.unique_items
