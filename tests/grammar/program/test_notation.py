"""Expressions as text for people: those of programs, and those of derivatives."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings

from engine_sampler.grammar.derivatives.expressions import Expressions
from engine_sampler.grammar.derivatives.limits import Meter
from engine_sampler.grammar.program import expression as e
from engine_sampler.grammar.program.expression import Expression, Frequent
from engine_sampler.grammar.program.notation import MAX_CHARACTERS, class_text, expression_text, literal_text
from engine_sampler.grammar.program.unicode import characters, ranges

from ..languages import Language
from ..random_grammars import plain, quick, texts

A, B, C = map(e.literal, (b"a", b"b", b"c"))
LETTERS = e.byte_range(ord("a"), ord("z"))


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (e.literal(b'{"a"}\n'), r'\{"a"\}\n'),
        (e.literal("é€".encode()), "é€"),
        (e.literal(b"\xff\x00"), r"\xff\x00"),
        (e.EMPTY, "∅"),
        (e.EPSILON, ""),
        (e.ANYTHING, "[any byte]*"),
        (e.concat(A, e.repeat(LETTERS)), "a[a-z]*"),
        (e.repeat(e.literal(b"ab"), 1), "(ab)+"),
        (e.repeat(A, 0, 1), "a?"),
        (e.repeat(A, 2, 2), "a{2}"),
        (e.repeat(A, 2, 5), "a{2,5}"),
        (e.repeat(A, 2), "a{2,}"),
        (e.concat(e.union(e.literal(b"ab"), C), B), "(ab|c)b"),
        (e.both(e.repeat(LETTERS), e.complement(e.literal(b"if"))), "[a-z]*&~(if)"),
        (e.concat(A, e.both(e.literal(b"bc"), LETTERS)), "a(bc&[a-z])"),
        (e.guard(e.concat(A, B), C), "(?!c)ab"),
        (e.automaton(((False, ((97, 98, 1),)), (True, ()))), "<automaton of 2 states>"),
        (characters(ranges([(0x61, 0x7A), (0xA1, 0x10FFFF)])), "[a-z]|…"),
    ],
)
def test_an_expression_is_shown_as_a_regular_expression(part: Expression, text: str) -> None:
    assert expression_text(part) == text


@pytest.mark.parametrize(
    ("members", "text"),
    [
        (b"abc", "[a-c]"),
        (b"ab", "[ab]"),
        (b"-]^", r"[\-\]\^]"),
        (b"\t\n \x7f\xe9", r"[\t\n \x7f\xe9]"),
        (bytes(range(128)), r"[\x00-\x7f]"),
        (bytes(byte for byte in range(256) if byte != 34), '[^"]'),
    ],
)
def test_a_class_is_shown_by_its_ranges(members: bytes, text: str) -> None:
    assert class_text(sum(1 << byte for byte in members)) == text


@settings(quick, max_examples=20)
@given(plain, texts)
def test_the_text_of_a_plain_expression_matches_what_the_expression_matches(
    part: Expression, data: bytes
) -> None:
    text = expression_text(part)
    assume("∅" not in text and "…" not in text)
    assert bool(re.fullmatch(text.encode(), data)) == (data.decode() in Language(part))


def test_long_expressions_are_cut() -> None:
    words = e.union(*(e.literal(b"word%d" % i) for i in range(100)))
    nested = e.literal(b"a")
    for _ in range(100):
        nested = e.union(e.concat(nested, B), C)
    for part in (words, nested, e.concat(*[e.repeat(words)] * 50), e.literal(b"a" * 9)):
        text = expression_text(part)
        assert len(text) < MAX_CHARACTERS + 100
        assert ("…" in text) == (part != e.literal(b"a" * 9))


def test_derivatives_are_shown_the_same_way() -> None:
    expressions = Expressions(Meter())
    parts = [expressions.literal(b"ab"), expressions.repeat(expressions.byte_class(1 << 99), 2, None)]
    assert expressions.text(expressions.concat(*parts, parts[0])) == "abc{2,}ab"
    assert expressions.text(expressions.future(expressions.guard(parts[1], parts[0]))) == "(?=(?!ab)c{2,})"
    many = expressions.concat(*[expressions.repeat(parts[0], i, 50) for i in range(2, 30)])
    assert expressions.text(many).startswith("(ab){2,50}(ab){3,50}")
    assert expressions.text(many).endswith("…")


def test_a_frequent_expression_shows_itself_as_text() -> None:
    assert repr(Frequent(e.repeat(A))) == "<Frequent a*>"
    assert literal_text(b"") == ""
