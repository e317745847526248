"""Objects: keys in any order, each at most once, required keys, member counts, dependencies."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.schema.compiling import rules_from_schema
from engine_sampler.grammar.schema.objects import ObjectShape, Plan

from .judging import Judge, accepted


def test_keys_come_in_any_order_each_at_most_once_and_required_keys_are_enforced() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    judge = Judge(schema)
    members = ['"a":1', '"b":"x"', '"c":[]']
    for order in permutations(members):
        assert judge.accepts("{" + ",".join(order) + "}")
    assert judge.accepts(' { "b" : "x" ,\n"a"\t: 1 } ')
    assert not judge.begins('{"a":1,"a"')
    assert not judge.begins('{"a":1}')
    assert not judge.begins('{"d"')


def test_additional_keys_are_all_except_the_named_ones() -> None:
    schema = {
        "type": "object",
        "properties": {"ab": {"type": "null"}},
        "additionalProperties": {"type": "integer"},
    }
    good = ['{"a":1,"abc":2,"b":3}', '{"ab":null,"":0}', "{}"]
    assert accepted(schema, *good, '{"ab":1}', '{"a":null}') == good


def test_a_key_may_match_several_patterns() -> None:
    schema = {
        "type": "object",
        "properties": {"ab": {"minimum": 5}},
        "patternProperties": {"a": {"type": "integer"}, "b": {"maximum": 9}},
        "additionalProperties": False,
    }
    good = ['{"ab":7,"xa":100,"xb":1.5,"ba":3}']
    assert accepted(schema, *good, '{"ab":4}', '{"ba":10}', '{"xa":1.5}', '{"c":1}') == good


def test_a_dozen_mutually_exclusive_key_patterns_are_distinguished() -> None:
    patterns = {f"^k{n}-[a-z]+$": {"minimum": n} for n in range(12)}
    judge = Judge({"type": "object", "patternProperties": patterns, "additionalProperties": False})
    assert judge.accepts('{"k11-a":11,"k3-b":7}')
    assert not judge.accepts('{"k11-a":10}')
    assert not judge.begins('{"k12')


def test_the_number_of_members_leaves_room_for_the_required_ones() -> None:
    schema = {"type": "object", "required": ["a", "b"], "minProperties": 3, "maxProperties": 3}
    judge = Judge(schema)
    assert judge.accepts('{"x":1,"b":1,"a":1}')
    assert not judge.begins('{"x":1,"y"')
    assert not judge.begins('{"x":1,"b":1,"a":1,')
    assert not judge.begins('{"a":1,"b":1}')


def test_a_key_whose_value_is_impossible_is_not_allowed() -> None:
    schema: dict[str, Any] = {
        "properties": {"a": {"enum": []}, "b": {"$ref": "#"}},
        "required": ["c"],
        "type": "object",
    }
    judge = Judge(schema)
    assert not judge.begins('{"a"')
    assert judge.accepts('{"b":{"c":1},"c":2}')
    with pytest.raises(GrammarError, match="no value is valid"):
        rules_from_schema({"type": "object", "properties": {"b": {"$ref": "#"}}, "required": ["b"]})


@pytest.mark.parametrize("keyword", ["dependentRequired", "dependencies"])
def test_a_key_may_require_others(keyword: str) -> None:
    judge = Judge({"type": "object", keyword: {"a": ["b"], "b": ["c"]}})
    assert judge.accepts('{"c":1}')
    assert judge.accepts('{"a":1,"c":1,"b":1}')
    assert judge.begins('{"a":1')
    assert not judge.begins('{"a":1}')
    assert not judge.begins('{"a":1,"b":1}')


def test_a_key_may_constrain_the_values_of_others() -> None:
    schema = {"type": "object", "dependentSchemas": {"a": {"properties": {"b": {"type": "null"}}}}}
    good = ['{"b":1}', '{"b":null,"a":0}', '{"a":0}']
    assert accepted(schema, *good, '{"a":0,"b":1}', '{"b":1,"a":0}') == good


def test_names_can_be_restricted() -> None:
    schema = {"type": "object", "propertyNames": {"maxLength": 2}, "properties": {"abc": {}}}
    assert accepted(schema, '{"ab":1}', '{"abc":1}', '{"\\u00e9x":1}') == ['{"ab":1}', '{"\\u00e9x":1}']


def test_a_negation_requires_a_member_that_differs() -> None:
    schema = {
        "type": "object",
        "not": {"properties": {"a": {"type": "string"}}, "additionalProperties": False},
    }
    good = ['{"a":1}', '{"b":1}', '{"a":"x","b":1}']
    assert accepted(schema, *good, "{}", '{"a":"x"}') == good


def test_one_of_many_shapes_is_found_by_its_constant() -> None:
    shapes = [
        {"properties": {"kind": {"const": f"k{n}"}, "value": {"minimum": n}}, "required": ["kind"]}
        for n in range(40)
    ]
    judge = Judge({"type": "object", "oneOf": shapes})
    assert judge.accepts('{"value":7,"kind":"k7"}')
    assert not judge.accepts('{"value":6,"kind":"k7"}')
    assert not judge.accepts('{"value":6}')


def test_exactly_one_of_overlapping_shapes_holds() -> None:
    schema = {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert accepted(schema, '{"a":1}', '{"b":1}', '{"a":1,"b":1}', "{}") == ['{"a":1}', '{"b":1}']


def test_a_constant_object_may_be_written_in_any_order() -> None:
    schema = {"const": {"a": [1, {"b": None}], "c": "x"}}
    good = ['{"c":"x","a":[1.0,{"b":null}]}', '{"a":[1,{"b":null}],"c":"x"}']
    assert accepted(schema, *good, '{"a":[1,{"b":null}]}', '{"a":[1,{"b":null,"d":1}],"c":"x"}') == good


def test_hundreds_of_keys_are_cheap() -> None:
    names = [f"key{n}" for n in range(800)]
    judge = Judge(
        {"properties": {name: {"type": "boolean"} for name in names}, "required": names[:3], "type": "object"}
    )
    assert judge.accepts('{"key799":true,"key2":false,"key0":true,"key1":true}')
    assert not judge.begins('{"key799":1')


def test_values_with_the_same_meaning_share_their_rules() -> None:
    point = {"type": "object", "properties": {"x": {"type": "integer"}}, "additionalProperties": False}
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/point"}, "b": {"allOf": [{"$ref": "#/$defs/point"}]}},
        "additionalProperties": False,
        "$defs": {"point": point},
    }
    assert rules_from_schema(schema).rule_names.count("object") == 2
    assert accepted(schema, '{"a":{"x":1},"b":{"x":2}}', '{"b":{"y":2}}') == ['{"a":{"x":1},"b":{"x":2}}']


def test_an_object_exists_once_one_plan_of_it_is_found() -> None:
    names = {f"k{number}": frozenset[int]() for number in range(20)}
    pairs = tuple(((f"k{2 * i}", False), (f"k{2 * i + 1}", False)) for i in range(10))
    shape = ObjectShape(Plan(names, frozenset(), (), pairs, {}))
    assert shape.is_productive(lambda literals: True)
    with pytest.raises(GrammarLimitError, match="plans"):
        shape.plans(lambda literals: True)


def test_patterns_do_not_matter_where_no_other_key_may_occur() -> None:
    patterns = {
        f"^(?:[a-z]{{{number},{number + 20}}}|{number})$": {"type": "integer"} for number in range(40)
    }
    schema = {"patternProperties": patterns, "properties": {"abc": {}}, "additionalProperties": False}
    closed = {"allOf": [schema, {"properties": {"abc": True, "x": {}}, "additionalProperties": False}]}
    assert accepted(closed, '{"abc": 1}', '{"abc": "1"}', '{"x": 5}', '{"y": 5}') == [
        '{"abc": 1}',
        '{"x": 5}',
    ]
