"""White space between the tokens of JSON, and the order of keys."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.grammar import Grammar
from engine_sampler.grammar.program.rules import Rules, sequence
from engine_sampler.grammar.schema.compiling import add_schema, rules_from_schema
from engine_sampler.grammar.schema.options import SchemaOptions

from ..both_engines import FASTEST
from .judging import Judge, accepted

DOCUMENT: Any = {"a": [1, {"b": [], "c": {}}, "x y"], "d": {"e": {"f": [[[[None]]]]}}}


@pytest.mark.parametrize("indent", [None, 0, 1, 2, 4, "\t"])
def test_the_default_admits_pretty_printed_documents(indent: Any) -> None:
    text = json.dumps(DOCUMENT, indent=indent)
    judge = Judge(True)
    assert judge.accepts(text)
    assert judge.accepts(text.replace("\n", "\r\n") + "\n")
    assert judge.accepts(" \n  " + text + " \n")


@pytest.mark.parametrize(
    "text", ['{\n\n"a":1}', '{"a":' + " " * 3 + "1}", '{"a":1}\n\n', "[1,\n" + " " * 121 + "2]"]
)
def test_the_default_ends_runs_of_white_space(text: str) -> None:
    assert not Judge(True).accepts(text)
    assert Judge(True, whitespace="any").accepts(text)


def test_any_amount_is_admitted_on_request() -> None:
    assert accepted(True, "\n\n { \n\n } \n\n", " " * 500 + "1", whitespace="any") == [
        "\n\n { \n\n } \n\n",
        " " * 500 + "1",
    ]


def test_compact_admits_one_blank_after_a_comma_or_a_colon() -> None:
    good = ['{"a":[1,2]}', '{"a": [1, 2]}', "[]", "{}"]
    bad = ['{ "a":1}', '{"a" :1}', "[1,  2]", "[1 ]", " 1", "1\n", "[ ]", "{ }", "[1,\n2]"]
    assert accepted(True, *good, *bad, whitespace="compact") == good


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_number_bounds_every_run(n: int) -> None:
    space = "\n \t"[:n]
    texts = [
        f"{space}{{{space}}}{space}",
        f"[{space}]",
        f'{{{space}"a"{space}:{space}[{space}1{space},{space}2{space}]{space}}}',
    ]
    more = [" " + text for text in texts[:1]] + [
        f"[ {space}]",
        f"[1, {space}2]",
        f'{{"a"{space} :1}}',
        f"[1{space} ]",
    ]
    assert accepted(True, *texts, *more, whitespace=n) == texts


def test_a_pattern_is_the_white_space() -> None:
    assert accepted(True, "[1,2]", "[1, 2]", "[1,  2]", "[1,\t2]", whitespace=" ?") == ["[1,2]", "[1, 2]"]
    assert accepted(True, "[1,2]", "[ 1 , 2 ]", "[ ]", "1", whitespace=" ") == ["[ 1 , 2 ]", "[ ]", "1"]


@pytest.mark.parametrize("value", [-1, 10**6, True, None, 1.5, "(", "x+"])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(GrammarError, match="whitespace="):
        Judge(True, whitespace=value)


def test_a_nested_schema_has_no_white_space_around_it() -> None:
    rules = Rules()
    value = add_schema({"type": "array"}, rules, SchemaOptions(whitespace=2))
    rules.start = rules.rule("start")
    rules.define(rules.start, sequence(value))
    matcher = FASTEST(rules.program(), ()).matcher()
    for text, expected in (("[ \n1]", True), (" [1]", False), ("[   1]", False)):
        fork = matcher.fork()
        assert (fork.accept_bytes(text.encode()) and fork.is_accepting()) == expected


def test_tags_bound_white_space_and_order_keys_by_their_fields() -> None:
    schema = {"properties": {"a": True, "b": True}, "required": ["a", "b"]}
    form = {"type": "json_schema", "json_schema": schema, "max_whitespace_cnt": 1, "any_order": False}
    grammar = Grammar.from_structural_tag({"format": form})
    assert grammar.check('{ "a":1, "b":2}').valid
    assert not grammar.check('{  "a":1,"b":2}').valid
    assert not grammar.check('{"b":2,"a":1}').valid


# --- the order of keys -----------------------------------------------------------------------------

NAMES = {"a": {"type": "integer"}, "b": True, "c": True}


def texts(*keys: str) -> list[str]:
    return ["{" + ",".join(f'"{key}":1' for key in one) + "}" for one in keys]


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            {"properties": NAMES, "additionalProperties": False},
            ["", "a", "b", "ac", "abc"],
            ["ba", "cb", "aa", "x"],
        ),
        (
            {"properties": NAMES, "required": ["b"]},
            ["b", "ab", "bc", "abcxy", "byx"],
            ["", "a", "ac", "xb", "axb"],
        ),
        (
            {"properties": NAMES, "minProperties": 2, "additionalProperties": False},
            ["ab", "bc", "abc"],
            ["", "c"],
        ),
        ({"maxProperties": 1}, ["", "a", "c", "x"], ["ab", "ax"]),
        (
            {"properties": NAMES, "dependentRequired": {"a": ["c"]}},
            ["", "b", "ac", "abcx"],
            ["a", "ab", "ca"],
        ),
        ({"required": ["z"]}, ["z", "az", "abczx"], ["", "za", "zc"]),
        (
            {"allOf": [{"properties": {"a": True}}, {"properties": {"b": True}}], "properties": {"c": True}},
            ["cab", "ca", "b"],
            ["ba", "ac", "bc"],
        ),
        ({"properties": {"c": True, "a": True}, "required": ["a", "c"]}, ["ca", "cax"], ["ac", "c"]),
    ],
)
def test_keys_follow_the_schema_on_request(schema: Any, good: list[str], bad: list[str]) -> None:
    found = accepted(
        {"type": "object", "properties": NAMES, **schema}, *texts(*good, *bad), key_order="schema"
    )
    assert found == texts(*good)


def test_an_ordered_object_never_leads_to_a_dead_end() -> None:
    schema = {"type": "object", "properties": NAMES, "minProperties": 2, "additionalProperties": False}
    judge = Judge(schema, key_order="schema")
    assert judge.begins('{"b":1')
    assert not judge.begins('{"c"')
    assert not judge.begins('{"b":1,"c":1,')


def test_keys_that_are_only_required_come_in_the_order_in_which_they_are_required() -> None:
    names = ["seven", "one", "nine", "three", "five", "two"]
    document = dict.fromkeys(names, 1)
    judge = Judge({"type": "object", "required": names}, key_order="schema")
    assert judge.accepts(json.dumps(document))
    assert not judge.accepts(json.dumps(document, sort_keys=True))


@pytest.mark.parametrize("whitespace", [1, "compact", r" {0,2}"])
def test_grammars_with_the_same_white_space_do_not_share_what_they_add(whitespace: Any) -> None:
    first = Grammar.from_json_schema({"const": "one"}, whitespace=whitespace)
    Grammar.from_json_schema({"properties": {"other": {"type": "string"}}}, whitespace=whitespace)
    rules = rules_from_schema({"const": "one"}, SchemaOptions(whitespace=whitespace))
    assert rules.program().key == first.key


def test_a_boolean_is_no_amount_of_white_space_even_after_the_equal_number() -> None:
    rules_from_schema(True, SchemaOptions(whitespace=1))
    with pytest.raises(GrammarError, match="whitespace=True is not allowed"):
        rules_from_schema(True, SchemaOptions(whitespace=True))


def test_documents_may_be_indented_thirty_levels_deep() -> None:
    value: Any = 1
    for _ in range(30):
        value = [value]
    judge = Judge(True)
    assert judge.accepts(json.dumps(value, indent=4))
    assert not judge.accepts("[\n" + " " * 121 + "1]")
