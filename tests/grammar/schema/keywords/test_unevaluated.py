"""Members that no other subschema evaluates."""

from __future__ import annotations

from ..judging import accepted


def test_keys_of_the_branches_that_hold_are_evaluated() -> None:
    schema = {
        "type": "object",
        "properties": {"a": True},
        "anyOf": [
            {"properties": {"b": {"const": 1}}, "required": ["b"]},
            {"properties": {"c": {"const": 2}}, "required": ["c"]},
        ],
        "unevaluatedProperties": False,
    }
    good = ['{"b":1}', '{"a":0,"c":2}', '{"c":2,"b":1}']
    assert accepted(schema, *good, '{"b":1,"c":3}', '{"b":1,"d":0}', "{}") == good


def test_references_and_conditions_count_and_cousins_do_not() -> None:
    schema = {
        "type": "object",
        "$ref": "#/$defs/base",
        "if": {"required": ["kind"]},
        "then": {"properties": {"kind": {"type": "string"}}},
        "unevaluatedProperties": {"type": "null"},
        "$defs": {"base": {"patternProperties": {"^x": {"type": "integer"}}}},
    }
    good = ['{"x1":1}', '{"kind":"k","x":2}', '{"other":null}']
    assert accepted(schema, *good, '{"kind":1}', '{"other":1}', '{"x1":"a"}') == good
    cousins = {"type": "object", "allOf": [{"properties": {"a": True}}, {"unevaluatedProperties": False}]}
    assert accepted(cousins, "{}", '{"a":1}') == ["{}"]


def test_items_are_evaluated_one_by_one_or_by_contains() -> None:
    schema = {
        "type": "array",
        "prefixItems": [{"type": "string"}],
        "contains": {"type": "integer"},
        "minContains": 0,
        "unevaluatedItems": False,
    }
    good = ["[]", '["a"]', '["a",1,2]']
    assert accepted(schema, *good, '["a",1,null]', "[1]") == good


def test_unevaluated_in_older_drafts_is_an_annotation() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "unevaluatedProperties": False,
        "type": "object",
    }
    assert accepted(schema, '{"a":1}') == ['{"a":1}']


def test_additional_items_beside_no_list_of_items_evaluate_nothing() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "additionalItems": {"type": "number"},
        "unevaluatedItems": {"type": "string"},
    }
    assert accepted(schema, '["a"]', "[1]") == ['["a"]']
