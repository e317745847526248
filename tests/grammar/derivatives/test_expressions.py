"""The laws of expressions as numbers and of their derivatives."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_sampler.grammar.derivatives.derivatives import Derivatives
from engine_sampler.grammar.derivatives.expressions import ANYTHING, EMPTY, Expressions
from engine_sampler.grammar.derivatives.limits import Meter
from engine_sampler.grammar.derivatives.loading import numbers_of
from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.program import expression as e
from engine_sampler.grammar.program.expression import Encoder, Expression

from ..naive import ends
from ..random_grammars import ALPHABET, free, guarded, plain, quick, texts


def loaded(*parts: Expression) -> tuple[Derivatives, list[int]]:
    """Expressions loaded into new tables."""
    encoder = Encoder()
    nodes = [encoder.add(part) for part in parts]
    expressions = Expressions(Meter())
    numbers = numbers_of(expressions, encoder.code)
    return Derivatives(expressions), [numbers[node] for node in nodes]


def after(derivatives: Derivatives, number: int, text: bytes) -> int:
    """The derivative by a whole text."""
    for byte in text:
        number = derivatives.derivative(number, byte)
    return number


def as_pattern(part: Expression) -> str:
    """A plain expression as a pattern of `re`."""
    kind, *rest = part
    if kind == e.LITERAL:
        return re.escape(rest[0].decode())
    if kind == e.CLASS:
        return "[" + "".join(chr(byte) for byte in ALPHABET if rest[0] >> byte & 1) + "]"
    if kind == e.REPEAT:
        high = "" if rest[2] is None else rest[2]
        return f"(?:{as_pattern(rest[0])}){{{rest[1]},{high}}}"
    if kind == e.CONCAT:
        return "".join(f"(?:{as_pattern(piece)})" for piece in rest[0])
    assert kind == e.UNION
    return "(?:" + "|".join(map(as_pattern, rest[0])) + ")" if rest[0] else "(?!)"


@quick
@given(plain, texts)
def test_a_text_matches_exactly_when_it_matches_in_re(part: Expression, text: bytes) -> None:
    derivatives, (number,) = loaded(part)
    matched = derivatives.expressions.nullable(after(derivatives, number, text))
    assert matched == bool(re.fullmatch(as_pattern(part), text.decode()))


@quick
@given(guarded, texts)
def test_a_text_matches_exactly_when_the_naive_matcher_reaches_its_end(part: Expression, text: bytes) -> None:
    derivatives, (number,) = loaded(part)
    matched = derivatives.expressions.nullable(after(derivatives, number, text))
    assert matched == (len(text) in ends(part, text, 0))


@quick
@given(free, texts)
def test_a_dead_expression_matches_no_continuation(part: Expression, text: bytes) -> None:
    derivatives, (number,) = loaded(part)
    rest = after(derivatives, number, text[:3])
    if not derivatives.live(rest):
        assert not derivatives.expressions.nullable(after(derivatives, rest, text[3:]))


@quick
@given(free)
def test_a_live_expression_has_a_match(part: Expression) -> None:
    derivatives, (number,) = loaded(part)
    reached = [number]
    for expression in reached:
        new = {derivatives.derivative(expression, byte) for byte in (*ALPHABET, 0)}
        reached += sorted(new.difference(reached))
    assert derivatives.live(number) == any(map(derivatives.expressions.nullable, reached))


@quick
@given(free, free, free)
def test_unions_and_intersections_obey_the_laws_of_sets(a: Expression, b: Expression, c: Expression) -> None:
    derivatives, (x, y, z) = loaded(a, b, c)
    numbers = derivatives.expressions
    assert numbers.union((x, y)) == numbers.union((y, x))
    assert numbers.union((x, numbers.union((y, z)))) == numbers.union((numbers.union((x, y)), z))
    assert numbers.both((x, y)) == numbers.both((y, x))
    assert numbers.union((x, x, EMPTY)) == x == numbers.both((x, x, ANYTHING))
    assert numbers.complement(numbers.complement(x)) == x
    assert numbers.concat(x, numbers.concat(y, z)) == numbers.concat(numbers.concat(x, y), z)
    assert not derivatives.live(numbers.both((x, numbers.complement(x))))


@quick
@given(free, texts)
def test_bytes_of_one_class_have_one_derivative(part: Expression, text: bytes) -> None:
    derivatives, (number,) = loaded(part)
    rest = after(derivatives, number, text)
    partition = derivatives.expressions.partition[rest]
    fresh, (again,) = loaded(part)
    rest_again = after(fresh, again, text)
    for byte in (*ALPHABET, 0, 255):
        expected = fresh.derivative(rest_again, byte)
        assert fresh.derivative(rest_again, partition[byte]) == expected


def test_nested_repetitions_become_one() -> None:
    a = e.literal(b"a")
    _, (twice, once) = loaded(
        e.repeat(e.repeat(e.repeat(a, 0, 1000), 0, 1000), 0, 1000), e.repeat(a, 0, 1000**3)
    )
    assert twice == once


def test_a_large_count_creates_states_only_when_they_are_visited() -> None:
    derivatives, (number,) = loaded(e.concat(e.repeat(e.byte_range(97, 122), 3, 100_000), e.literal(b".")))
    before = len(derivatives.expressions.nodes)
    rest = after(derivatives, number, b"abcdef")
    assert derivatives.live(rest)
    assert len(derivatives.expressions.nodes) - before < 30


def test_an_ambiguous_count_does_not_grow_with_the_text() -> None:
    derivatives, (number,) = loaded(e.repeat(e.repeat(e.literal(b"aa"), 0, 1), 0, 100_000))
    rest = after(derivatives, number, b"a" * 2000)
    assert derivatives.expressions.nullable(rest)
    assert len(derivatives.expressions.nodes) < 20_000


def test_thousands_of_words_are_one_expression() -> None:
    words = [b"word%d" % i for i in range(5000)]
    derivatives, (all_words, none) = loaded(
        e.union(*map(e.literal, words)),
        e.both(
            e.concat(e.literal(b"word"), e.repeat(e.byte_range(48, 57))),
            e.complement(e.union(*map(e.literal, words))),
        ),
    )
    assert derivatives.expressions.nullable(after(derivatives, all_words, b"word4321"))
    assert not derivatives.expressions.nullable(after(derivatives, none, b"word4321"))
    assert derivatives.expressions.nullable(after(derivatives, none, b"word5000"))


def test_a_guard_looks_past_the_end_of_the_expression_it_guards() -> None:
    a = e.literal(b"a")
    derivatives, (number,) = loaded(e.concat(e.guard(a, e.literal(b"abc")), e.repeat(e.ANY_BYTE)))
    assert derivatives.expressions.nullable(after(derivatives, number, b"abd"))
    assert after(derivatives, number, b"abc") == EMPTY


def test_a_guard_that_forbids_the_empty_text_forbids_every_text() -> None:
    _, (number,) = loaded(e.guard(e.literal(b"a"), e.repeat(e.literal(b"b"))))
    assert number == EMPTY


def test_a_guard_may_be_the_only_way_to_end() -> None:
    derivatives, (number,) = loaded(
        e.concat(e.repeat(e.byte_range(48, 57)), e.guard(e.EPSILON, e.literal(b"x")))
    )
    rest = after(derivatives, number, b"12")
    endings = derivatives.expressions.endings[rest]
    assert len(endings) == 1
    assert EMPTY not in endings


@pytest.mark.parametrize(
    "part",
    [
        e.complement(e.guard(e.literal(b"a"), e.literal(b"ab"))),
        e.guard(e.literal(b"a"), e.guard(e.literal(b"a"), e.literal(b"ab"))),
    ],
)
def test_an_excluded_expression_cannot_contain_a_guard(part: Expression) -> None:
    with pytest.raises(GrammarError, match="look-ahead"):
        loaded(part)


def test_an_expression_whose_emptiness_is_too_hard_to_decide_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ab = e.byte_range(97, 98)
    never = e.both(e.concat(e.repeat(ab), e.literal(b"a"), e.repeat(ab, 8, 8)), e.repeat(e.literal(b"b")))
    derivatives, (number,) = loaded(never)
    monkeypatch.setattr("engine_sampler.grammar.derivatives.derivatives.EMPTINESS_STEPS", 2)
    with pytest.raises(GrammarLimitError, match="more than 2 steps"):
        derivatives.live(number)
    monkeypatch.undo()
    assert not derivatives.live(number)


@quick
@given(st.binary(min_size=1, max_size=200))
def test_a_long_literal_matches_only_itself(data: bytes) -> None:
    derivatives, (number,) = loaded(e.literal(data))
    assert derivatives.expressions.nullable(after(derivatives, number, data))
    assert not derivatives.expressions.nullable(after(derivatives, number, data[:-1]))
    assert after(derivatives, number, data + b"x") == EMPTY
