"""Grammars printed as Lark: lark itself parses them, and accepts the same texts."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler.grammar.engines.reference import ReferenceGrammar
from engine_sampler.grammar.errors import GrammarLimitError
from engine_sampler.grammar.printing.lark import lark_text
from engine_sampler.grammar.printing.regex import terminal_text
from engine_sampler.grammar.program.expression import (
    EPSILON,
    automaton,
    both,
    complement,
    literal,
    repeat,
    union,
)
from engine_sampler.grammar.program.rules import Rules
from engine_sampler.grammar.program.unicode import ANY_CHARACTER
from engine_sampler.grammar.schema.compiling import rules_from_schema
from engine_sampler.grammar.schema.options import SchemaOptions

lark = pytest.importorskip("lark")

SCHEMAS: list[tuple[Any, list[str]]] = [
    (True, ["null", " [1, 2.5e3] ", '{"a": "x\\u00e9\\n", "b": []}', "01", "[1,]", '{"a"}', '"\\ud800"']),
    (
        {
            "type": "object",
            "properties": {"a": {"type": "integer", "minimum": 5}, "é": {"enum": ["x", "y/"]}, "c": {}},
            "required": ["a"],
            "additionalProperties": {"type": "null"},
        },
        [
            '{"a":5}',
            '{"a":4}',
            '{"é":"y\\/","a":123}',
            '{"b":null,"a":7}',
            '{"b":1,"a":7}',
            '{"a":10.5}',
            '{"a":1e1}',
            "{}",
        ],
    ),
    (
        {"type": "array", "items": {"type": "string", "pattern": "^a.*b$", "minLength": 3}, "maxItems": 2},
        ["[]", '["ab"]', '["acb"]', '["aéb", "a😀b"]', '["acb","acb","acb"]', '["acbc"]'],
    ),
    ({"type": "string", "not": {"pattern": "^[a-z]+$"}}, ['"a"', '"A"', '""', '"a1"', '"\\"a"']),
    ({"type": "string", "format": "date"}, ['"2020-02-29"', '"2019-02-29"', '"x"']),
    ({"enum": [1, "a", None, {"k": [True]}]}, ["1", "1.0", '"a"', "null", '{"k":[true]}', '{"k":[]}', "2"]),
    ({"oneOf": [{"type": "integer"}, {"minimum": 2, "type": "number"}]}, ["1", "2", "2.5", "1.5", "300"]),
    ({"contains": {"const": 1}, "type": "array", "minItems": 2}, ["[1]", "[0,1]", "[1,1]", "[2,2]"]),
]


@pytest.mark.parametrize(("schema", "texts"), SCHEMAS)
def test_lark_accepts_what_the_engine_accepts(schema: Any, texts: list[str]) -> None:
    rules = rules_from_schema(schema)
    parser = lark.Lark(lark_text(rules), parser="earley", lexer="dynamic_complete")
    matcher = ReferenceGrammar(rules.program(), ()).matcher()
    for text in texts:
        fork = matcher.fork()
        expected = fork.accept_bytes(text.encode()) and fork.is_accepting()
        try:
            parser.parse(text)
            found = True
        except lark.exceptions.LarkError:
            found = False
        assert found == expected, text


def test_registers_are_expanded_to_rules() -> None:
    schema = {
        "type": "object",
        "properties": {"a": True, "b": True},
        "required": ["b"],
        "additionalProperties": False,
    }
    text = lark_text(rules_from_schema(schema, SchemaOptions(whitespace="any")))
    assert "object: OBJECT_BEGIN object_1\n" in text
    assert text.count("OBJECT_END") == 2 + 2 + 1  # after b, after a and b; inside the values; the definition


def test_rules_and_programs_are_printed_alike() -> None:
    rules = rules_from_schema({"type": "boolean"})
    assert lark_text(rules) == lark_text(rules.program())


def test_special_tokens_are_printed_by_their_ids() -> None:
    rules = Rules()
    rules.start = rules.rule("start")
    rules.define(rules.start, rules.special("<end>", [7, 9]))
    assert "<[7,9]>" in lark_text(rules)


def test_too_many_optional_keys_raise_a_clear_error() -> None:
    schema = {"properties": {f"k{n}": True for n in range(20)}, "type": "object"}
    with pytest.raises(GrammarLimitError, match="more than 5000 Lark rules"):
        lark_text(rules_from_schema(schema))


def test_intersections_outside_quotes_are_expanded() -> None:
    letters = repeat(union(literal(b"a"), literal(b"b")), 1)
    text = terminal_text(both(letters, complement(literal(b"ab"))), "X")
    parser = lark.Lark(f"start: X\nX: {text}", parser="earley", lexer="dynamic_complete")
    parser.parse("aba")
    with pytest.raises(lark.exceptions.LarkError):
        parser.parse("ab")


def test_an_automaton_of_numbers_matches_whole_numbers() -> None:
    digits = automaton(((False, ((0x31, 0x32, 1),)), (True, ((0x30, 0x39, 1),))))
    parser = lark.Lark(
        f"start: X\nX: {terminal_text(digits, 'X')}", parser="earley", lexer="dynamic_complete"
    )
    parser.parse("10")


def test_terminals_that_lark_cannot_express_raise_a_clear_error() -> None:
    with pytest.raises(GrammarLimitError, match="X matches the empty text"):
        terminal_text(union(EPSILON, literal(b"a")), "X")
    with pytest.raises(GrammarLimitError, match="part of a character"):
        terminal_text(union(literal(b"ab\xc3"), literal(b"cd")), "X")
    with pytest.raises(GrammarLimitError, match="states"):
        terminal_text(both(repeat(ANY_CHARACTER, 400), complement(literal(b"x"))), "X")
