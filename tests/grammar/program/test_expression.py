"""Expressions that many grammars contain are encoded once, and copied."""

import pytest

from engine_sampler.grammar.derivatives.expressions import Expressions
from engine_sampler.grammar.derivatives.limits import Meter
from engine_sampler.grammar.derivatives.loading import numbers_of
from engine_sampler.grammar.program.expression import (
    Encoder,
    Expression,
    Frequent,
    automaton,
    both,
    byte_range,
    complement,
    concat,
    guard,
    literal,
    repeat,
    union,
)

LETTER, DIGIT = byte_range(0x61, 0x7A), byte_range(0x30, 0x39)
EVERY_KIND = concat(
    repeat(LETTER, 1, 7),
    union(literal(b"one"), literal(b"two"), DIGIT),
    both(repeat(union(LETTER, DIGIT)), complement(literal(b"x"))),
    guard(repeat(DIGIT, 2), concat(DIGIT, literal(b"!"))),
)
AUTOMATON = automaton(((False, ((0x30, 0x34, 1), (0x36, 0x36, 0))), (True, ((0x35, 0x39, 1),))))


def loaded(table: Expressions, *parts: Expression) -> list[int]:
    """The numbers in `table` of expressions that one encoder encodes."""
    encoder = Encoder()
    roots = [encoder.add(part) for part in parts]
    numbers = numbers_of(table, encoder.code)
    assert len(numbers) == encoder.count
    return [numbers[root] for root in roots]


@pytest.mark.parametrize("before", [(), (literal(b"other"), repeat(DIGIT, 3, 5))])
def test_a_copied_expression_is_the_same_wherever_it_is_put(before: tuple[Expression, ...]) -> None:
    table = Expressions(Meter())
    plain = concat(EVERY_KIND, literal(b"."))
    nested = concat(*before, literal(b"."), repeat(Frequent(EVERY_KIND), 2), LETTER)
    same = concat(*before, literal(b"."), repeat(EVERY_KIND, 2), LETTER)
    assert loaded(table, *before, Frequent(plain), nested) == loaded(table, *before, plain, same)


def test_the_nodes_after_an_automaton_are_copied_as_they_are() -> None:
    plain, other = Encoder(), Encoder()
    for encoder in (plain, other):
        encoder.add(LETTER)
    part = concat(AUTOMATON, repeat(AUTOMATON), DIGIT)
    plain.add(part)
    other.add(Frequent(part))
    assert plain.code == other.code


def test_an_expression_is_copied_once() -> None:
    encoder, frequent = Encoder(), Frequent(EVERY_KIND)
    first = encoder.add(frequent)
    size = len(encoder.code)
    assert encoder.add(frequent) == first
    assert len(encoder.code) == size


def test_what_is_added_to_a_copy_of_an_encoder_leaves_the_other_one_as_it_was() -> None:
    encoder = Encoder()
    digit = encoder.add(DIGIT)
    code = encoder.code[:]
    copy = encoder.copy()
    assert copy.add(DIGIT) == digit
    assert copy.add(repeat(DIGIT, 2)) == digit + 1
    assert (encoder.code, encoder.count) == (code, digit + 1)
