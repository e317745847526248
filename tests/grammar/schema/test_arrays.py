"""Arrays: leading, uniform, counted, contained and distinct items."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from engine_sampler.grammar.errors import GrammarError, UnsupportedKeywordError

from .judging import Judge, accepted


def test_leading_items_have_their_own_schemas() -> None:
    schema = {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"type": "string"}],
        "items": {"type": "null"},
    }
    good = ["[]", "[1]", '[1,"a"]', '[ 1 , "a" , null ]', '[1,"a",null,null]']
    assert accepted(schema, *good, '["a"]', "[1,2]", '[1,"a",2]', "[1,]") == good


def test_items_of_older_drafts_may_be_a_list() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "items": [{"type": "integer"}],
        "additionalItems": False,
        "type": "array",
    }
    assert accepted(schema, "[]", "[1]", "[1,2]") == ["[]", "[1]"]


@pytest.mark.parametrize(
    ("low", "high", "prefix"), [(0, 3, 0), (2, 2, 0), (2, None, 1), (1, 4, 2), (3, 5, 1), (0, 1, 3)]
)
def test_the_number_of_items_stays_within_its_bounds(low: int, high: int | None, prefix: int) -> None:
    schema = {"type": "array", "prefixItems": [{}] * prefix, "items": {"type": "integer"}, "minItems": low}
    schema |= {} if high is None else {"maxItems": high}
    judge = Judge(schema)
    for count in range(8):
        assert judge.accepts(str([1] * count)) == (low <= count and (high is None or count <= high)), count
    if high is not None:
        assert not judge.begins("[" + "1," * high)


def test_an_impossible_item_ends_the_array() -> None:
    judge = Judge({"type": "array", "prefixItems": [{"type": "integer"}, False]})
    assert accepted({"type": "array", "prefixItems": [{"type": "integer"}, False]}, "[]", "[1]") == [
        "[]",
        "[1]",
    ]
    assert not judge.begins("[1,")
    with pytest.raises(GrammarError, match="no value is valid"):
        Judge({"type": "array", "prefixItems": [True, False], "minItems": 2})


@pytest.mark.parametrize(("low", "high"), [(1, None), (2, 2), (0, 1), (2, 3)])
def test_the_number_of_contained_items_is_bounded(low: int, high: int | None) -> None:
    schema = {"type": "array", "contains": {"minimum": 5}, "minContains": low, "maxItems": 4}
    schema |= {} if high is None else {"maxContains": high}
    judge = Judge(schema)
    for few in range(5):
        for many in range(5 - few):
            text = str([1] * few + [9] * many)
            inside = sum((many, few)) <= 4 and low <= many and (high is None or many <= high)
            assert judge.accepts(text) == inside, text


def test_room_is_left_for_items_that_must_be_contained() -> None:
    judge = Judge({"type": "array", "contains": {"const": "x"}, "maxItems": 2})
    assert judge.begins("[1,")
    assert not judge.begins("[1,2")


def test_constant_items_can_be_distinct() -> None:
    schema = {"type": "array", "items": {"enum": ["a", "b", 1, True]}, "uniqueItems": True}
    good = ["[]", '["a","b"]', '[true,1,"b","a"]']
    assert accepted(schema, *good, '["a","a"]', "[1,1.0]", '["c"]') == good
    many = {
        "type": "array",
        "items": {"enum": [f"v{n}" for n in range(60)]},
        "uniqueItems": True,
        "minItems": 2,
    }
    assert accepted(many, '["v1","v59"]', '["v1","v1"]', '["v1"]') == ['["v1","v59"]']


def test_distinct_items_of_which_there_may_be_too_few_are_rejected_by_keyword() -> None:
    schema = {"type": "array", "items": {"type": "array"}, "uniqueItems": True, "minItems": 2}
    with pytest.raises(UnsupportedKeywordError, match="uniqueItems"):
        Judge(schema)
    with pytest.warns(UserWarning, match="uniqueItems"):
        judge = Judge(schema, unsupported="warn")
    assert judge.accepts("[[],[]]")
    assert Judge(schema, unsupported="ignore").accepts("[[],[]]")
    assert Judge({**schema, "minItems": 1, "maxItems": 1}).accepts("[[]]")


def test_there_cannot_be_more_distinct_items_than_constants() -> None:
    with pytest.raises(GrammarError, match="no value is valid"):
        Judge({"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 3})


def test_not_distinct_means_that_two_items_are_equal() -> None:
    schema = {"type": "array", "items": {"type": "boolean"}, "not": {"uniqueItems": True}}
    assert accepted(schema, "[true,true]", "[true,false,true]", "[true,false]", "[]") == [
        "[true,true]",
        "[true,false,true]",
    ]


def test_whole_numbers_in_a_short_range_can_be_unique() -> None:
    schema = {
        "uniqueItems": True,
        "items": {"type": "integer", "minimum": 0, "exclusiveMaximum": 5, "multipleOf": 2},
    }
    texts = ("[]", "[0,2,4]", "[4,0.0]", "[0,2,0]", "[1]", "[6]")
    assert accepted(schema, *texts, numbers="any") == [
        "[]",
        "[0,2,4]",
        "[4,0.0]",
    ]
    lottery = {"uniqueItems": True, "items": {"type": "integer", "minimum": 1, "maximum": 49}, "minItems": 6}
    assert accepted(lottery, "[1,49,3,4,5,6]", "[1,2,3,4,5,5]", "[1,2,3]") == ["[1,49,3,4,5,6]"]
    many = {"uniqueItems": True, "items": {"type": "integer", "minimum": 0, "maximum": 1000}}
    assert accepted(many, "[]", "[0,1000]", "[7,7]") == ["[]", "[0,1000]"]


def test_items_of_different_types_are_unique_whatever_they_are() -> None:
    head = [{"type": "string"}, {"type": "boolean"}, {"type": ["boolean", "null"]}]
    schema = {"prefixItems": head, "items": False, "uniqueItems": True, "type": "array"}
    assert accepted(schema, '["a",true,false]', '["a",true,null]', '["a",true,true]', '["a"]') == [
        '["a",true,false]',
        '["a",true,null]',
        '["a"]',
    ]
    schema = {"prefixItems": [{"type": "object"}], "items": {"enum": [1, 2]}, "uniqueItems": True}
    assert accepted(schema, "[{},1,2]", "[{},1,1]", "[{},2]") == ["[{},1,2]", "[{},2]"]


def test_strings_at_two_places_are_compared() -> None:
    judge = Judge(
        {"prefixItems": [{"type": "string"}, {"type": "string"}], "items": False, "uniqueItems": True}
    )
    assert judge.accepts('["a","b"]')
    assert not judge.begins('["a","a"')


def test_a_thousand_constants_may_be_unique_items() -> None:
    values = [f"v{number}" for number in range(1000)]
    judge = Judge({"type": "array", "items": {"enum": values}, "uniqueItems": True})
    assert judge.accepts_value(["v7", "v999", "v8"])
    assert not judge.begins('["v7","v999","v7"')


def test_constants_that_differ_give_the_same_program_in_every_process() -> None:
    constants = ["north", "east", "south", "west", 2.5, 1]
    schema = {"type": "array", "items": {"enum": constants}, "uniqueItems": True}
    code = f"from engine_sampler.grammar import Grammar; print(Grammar.from_json_schema({schema!r}).key)"
    keys = set()
    for seed in "12":
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
        )
        keys.add(done.stdout)
    assert len(keys) == 1
