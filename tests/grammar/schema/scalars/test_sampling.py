"""Texts that are put together from the parts of an expression."""

from __future__ import annotations

import pytest

from engine_sampler.grammar.program.expression import (
    EMPTY,
    Expression,
    both,
    byte_class,
    concat,
    literal,
    repeat,
    union,
)
from engine_sampler.grammar.regex.pattern import pattern_expression
from engine_sampler.grammar.schema.scalars.matching import ValueMatcher
from engine_sampler.grammar.schema.scalars.sampling import sample

A, WORD = literal(b"a"), literal(b"word")


@pytest.mark.parametrize(
    "pattern",
    [
        "^(air|native)-[0-9]{3,5}$",
        r"^(?:\s*[A-Za-z0-9+/]){43}(?:\s*=)$",
        "é+[α-ω]{2}|^[^a-z]{2}$",
        r"\d{4}-\d{2}",
        "^[\U00010000-\U0010ffff]$",
    ],
)
def test_a_sample_is_a_text_that_the_pattern_matches(pattern: str) -> None:
    expression = pattern_expression(pattern, dialect="ecma", search=True)
    text = sample(expression)
    assert text is not None
    assert ValueMatcher(expression).matches(text)
    assert text.decode().encode() == text


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (union(concat(WORD, A), A), b"a"),
        (repeat(A, 3), b"aaa"),
        (repeat(WORD, 0, 2), b""),
        (union(both(WORD, A), WORD), b"word"),
        (EMPTY, None),
        (both(WORD, repeat(A, 1)), None),
        (repeat(A, 2_000), None),
        (byte_class(3 << 0x80), None),
    ],
)
def test_the_shortest_alternative_is_chosen_and_what_needs_a_search_is_left_out(
    expression: Expression, text: bytes | None
) -> None:
    assert sample(expression) == text


def test_an_expression_that_is_nested_deeply_has_none() -> None:
    expression = A
    for _ in range(5_000):
        expression = repeat(concat(A, expression), 1, 2)
    assert sample(expression) is None
