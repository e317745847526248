"""Arrays whose items must differ beside alternatives that allow the same arrays."""

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
    ("schema", "good", "bad"),
    [
        ({"anyOf": [MIXED, {"const": ["a", "a"]}]}, ['["a","a"]', '["a",1]'], ["[1,1]", '["a","a",1]']),
        ({"anyOf": [MIXED, PLAIN]}, ['["a","a"]', '["a",1]'], ["[1,1]", '["a","a",1]', '["a",1,"a"]']),
        ({"anyOf": [STRINGS, {"type": "array", "maxItems": 2}]}, ['["a","a"]', "[1,1]"], ['["a","b","a"]']),
        (
            {"anyOf": [STRINGS, {"enum": [[f"v{n}", f"v{n}"] for n in range(40)]}]},
            ['["v7","v7"]', '["a","v7"]'],
            ['["v7","v7","b"]', '["a","a"]'],
        ),
        (
            {"anyOf": [an_object(t=STRINGS, k={"const": 1}), an_object(t=PLAIN, k={"const": 2})]},
            ['{"t":["a","a"],"k":2}', '{"t":["a","b"],"k":1}', '{"k":2,"t":["a","a"]}'],
            ['{"t":["a","a"],"k":1}', '{"k":1,"t":["a","a"]}'],
        ),
        (
            {"if": {"properties": {"k": {"const": 1}}}, "then": an_object(t=STRINGS, k={}), "else": {}},
            ['{"t":["a","a"],"k":2}', '{"t":["a","b"],"k":1}'],
            ['{"t":["a","a"],"k":1}', '{"k":1,"t":["a","a"]}'],
        ),
        (
            {"type": "array", "uniqueItems": True, "items": {"anyOf": [STRINGS, {"const": ["a", "a"]}]}},
            ['[["a","a"],["a"]]', '[["a","b"],["b","a"]]'],
            ['[["a","a"],["a","a"]]', '[["b","b"]]', '[["a","a"],["b","b"]]'],
        ),
    ],
)
def test_each_alternative_has_its_own_law(schema: Any, good: list[str], bad: list[str]) -> None:
    grammar = Grammar.from_json_schema(schema)
    assert [text for text in (*good, *bad) if grammar.check(text).valid] == good


def test_a_tagged_union_may_have_a_set_in_one_of_its_types() -> None:
    one, other = (
        {"type": "object", "properties": {"kind": {"const": kind}, **others}, "required": ["kind", *others]}
        for kind, others in (("tags", {"tags": STRINGS}), ("text", {"text": {"type": "string"}}))
    )
    grammar = Grammar.from_json_schema({"anyOf": [one, other]})
    assert not grammar.check('{"kind":"tags","tags":["a","a"').viable
    assert grammar.check('{"tags":["a","a"],"kind":"te').viable
    assert not grammar.check('{"tags":["a","a"],"kind":"ta').viable
    assert grammar.check('{"kind":"text","text":"","tags":["a","a"]}').valid


def test_what_cannot_be_enforced_names_its_place_and_the_way_out() -> None:
    schema = {"properties": {"a": {"type": "array", "items": {"type": "object"}, "uniqueItems": True}}}
    schema["properties"]["a"]["minItems"] = 2
    with pytest.raises(UnsupportedKeywordError, match=r'unsupported="warn".*\(#/properties/a/uniqueItems'):
        Grammar.from_json_schema(schema)
    with pytest.warns(UserWarning, match="uniqueItems is not supported here"):
        warned = Grammar.from_json_schema(schema, unsupported="warn")
    assert [text.partition(" ")[0] for text in warned.unenforced] == ["uniqueItems"]


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


def test_many_keys_are_compared_in_little_time() -> None:
    properties = {f"k{n}": {"type": "string"} for n in range(1000)}
    schema = {"type": "object", "properties": {**properties, "t": STRINGS}}
    assert Grammar.from_json_schema(schema).program.unique_items
