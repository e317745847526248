"""The readings of a text: live threads and their rows, as names and positions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from engine_sampler.grammar import Grammar, GrammarLimitError
from engine_sampler.grammar.engines.reference import ReferenceGrammar
from engine_sampler.grammar.engines.reference.readings import MAX_ROWS, Readings, RowReading, readings_of
from engine_sampler.grammar.program.notation import class_text

from ..both_engines import ENGINES
from ..random_grammars import Grammar as RandomGrammar
from ..random_grammars import compiled_or_none, grammars, quick

ASSIGNMENTS = """
start: stmt+
stmt: "if" expr ":" stmt | NAME "=" expr ";"
expr: expr "+" NAME | NAME
NAME: /[a-z]+/
%ignore " "
"""

BYTES = [bytes([byte]) for byte in range(256)]


def matcher_after(grammar: Grammar, text: bytes) -> Any:
    matcher = ReferenceGrammar(grammar.program, BYTES).matcher()
    assert matcher.accept_bytes(text)
    return matcher


def readings(grammar: Grammar, text: bytes) -> Readings:
    return readings_of(matcher_after(grammar, text))


def row_of(found: Readings, number: int) -> RowReading:
    return next(row for row in found.rows if row.row == number)


def test_a_text_within_a_terminal_has_one_reading() -> None:
    reading = readings(Grammar.from_lark(ASSIGNMENTS), b"if a + b: x =")
    (thread,) = reading.threads
    assert (thread.terminal, thread.next, thread.excluded) == ("", "[ a-z]", "")
    row = row_of(reading, thread.row)
    assert row.terminals == ("NAME",)
    assert [(item.rule, item.next, item.ends) for item in row.items] == [("stmt", ("expr",), False)]
    assert row.beginning == ("expr",)
    outer = row_of(reading, row.items[0].began)
    assert [(item.rule, item.next) for item in outer.items] == [("stmt", ("stmt",))]
    assert not outer.accepting


def test_a_terminal_that_may_end_has_two_readings() -> None:
    found = readings(Grammar.from_lark(ASSIGNMENTS), b"x = ab")
    within, between = found.threads
    assert (within.terminal, within.rest, within.next, within.ends) == ("NAME", "[a-z]*", "[a-z]", True)
    assert (between.terminal, between.rest, between.next) == ("", "", "[ +;]")
    assert row_of(found, between.row).terminals == ('";"', '"+"')
    assert [item.rule for item in row_of(found, between.row).items] == ["expr", "stmt"]


def test_registers_and_the_end_of_rules_are_shown() -> None:
    found = readings(Grammar.from_lark("start: A{3,70}\nA: /a/"), b"aaa")
    row = row_of(found, found.threads[-1].row)
    (item,) = [item for item in row.items if item.rule == "start"]
    assert (item.registers, item.next, item.ends) == ("c0=3", ("A",), True)
    assert row.accepting


def test_the_bits_of_an_object_are_shown() -> None:
    schema = {"properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": False}
    found = readings(Grammar.from_json_schema({"type": "object", **schema}), b'{"a":1')
    items = {item.rule: item for row in found.rows for item in row.items}
    assert items["object"].registers == "bits 1"
    assert items["(the text)"].began == -1


def test_what_must_not_follow_is_shown() -> None:
    (found,) = readings(Grammar.from_lark("start: A B\nA: /a(?!b)/\nB: /./"), b"a").threads
    assert (found.terminal, found.excluded) == ("", "b")


def test_ignored_text_is_named() -> None:
    found = readings(Grammar.from_lark('start: "x" "y"\n%ignore /#[0-9]*/'), b"x#1")
    assert any(thread.terminal.endswith(" (ignored)") for thread in found.threads)


def test_an_lalr_parser_has_a_stack() -> None:
    reading = readings(Grammar.from_lark(ASSIGNMENTS, lexer="contextual"), b"if a + b: x = c")
    within, between = reading.threads
    assert (within.terminal, within.rest, within.ends) == ("NAME", "[a-z]*", True)
    assert between.excluded == "([any byte][any byte]*&[a-z]*)[any byte]*"
    stacks = {row.row: row.stack for row in reading.rows}
    assert stacks[within.row][:-1] == ("IF", "expr", "COLON", "NAME", "EQUAL")
    assert stacks[between.row][:-1] == ("IF", "expr", "COLON", "NAME", "EQUAL", "NAME")
    assert row_of(reading, between.row).terminals == ("SEMICOLON", "PLUS")
    ignored = readings(Grammar.from_lark(ASSIGNMENTS, lexer="contextual"), b"if a ")
    assert all(thread.terminal in ("", "(ignored)") for thread in ignored.threads)


def test_few_of_many_rows_are_described() -> None:
    nested = Grammar.from_lark('start: "[" start "]" | "x"')
    found = readings(nested, b"[" * 60)
    assert len(found.rows) == MAX_ROWS
    assert found.omitted == 61 - MAX_ROWS


def test_a_matcher_that_failed_raises_its_fault() -> None:
    matcher = matcher_after(Grammar.from_regex("a*"), b"a")
    matcher._failure = "too much"
    with pytest.raises(GrammarLimitError, match="too much"):
        readings_of(matcher)


@settings(quick, max_examples=20)
@given(grammars(registers=True, ignore=True))
def test_a_next_byte_is_one_of_some_reading(random: RandomGrammar) -> None:
    compiled = compiled_or_none(ENGINES["reference"], random, [b"a"])
    matcher = None if compiled is None else compiled.matcher()
    for _ in range(4 if matcher else 0):
        found = readings_of(matcher)
        next_bytes = matcher.next_bytes()
        assert bool(found.threads)
        assert {thread.row for thread in found.threads} <= {row.row for row in found.rows}
        for byte in next_bytes:
            assert any(_contains(thread.next, byte) for thread in found.threads)
        if not next_bytes:
            break
        matcher.accept_bytes(next_bytes[:1])


def _contains(text: str, byte: int) -> bool:
    """Whether the text of a class of few letters contains a byte."""
    wanted = class_text(1 << byte)[1:-1]
    first, _, last = text[1:-1].partition("-")
    return wanted in text or bool(last and first <= wanted <= last)
