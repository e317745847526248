"""Numbers: the texts whose value a schema allows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler.grammar.errors import GrammarError, GrammarLimitError, UnsupportedKeywordError
from engine_sampler.grammar.program.expression import EMPTY
from engine_sampler.grammar.schema.formula import (
    AND,
    INTEGER,
    LESS,
    MULTIPLE,
    NOT,
    OR,
    WITHIN,
    Formula,
    conjunction,
    disjunction,
)
from engine_sampler.grammar.schema.scalars.matching import ValueMatcher
from engine_sampler.grammar.schema.scalars.numbers import number_set

from ..judging import Judge, accepted

decimals = st.one_of(
    st.integers(-150, 150).map(Decimal),
    st.decimals(-40, 40, places=2),
    st.builds(lambda digits, power: Decimal(digits).scaleb(power), st.integers(1, 99), st.integers(-5, 5)),
)
atoms = st.one_of(
    st.tuples(st.just(LESS), decimals, st.booleans()),
    st.tuples(st.just(INTEGER), st.just(False)),
    st.tuples(st.just(WITHIN), st.frozensets(decimals, min_size=1, max_size=3)),
    st.tuples(st.just(MULTIPLE), st.sampled_from([Decimal(n) for n in ("2", "3", "1.5", "0.01", "20")])),
)
formulas = st.builds(
    lambda join, parts: join(parts),
    st.sampled_from([conjunction, disjunction]),
    st.lists(st.one_of(atoms, atoms.map(lambda atom: (NOT, atom))), min_size=1, max_size=3),
)


def holds(formula: Formula, value: Decimal) -> bool:
    kind = formula[0]
    if kind in (AND, OR):
        return (all if kind == AND else any)(holds(part, value) for part in formula[1])
    if kind == NOT:
        return not holds(formula[1], value)
    if kind == LESS:
        return value < formula[1] or (formula[2] and value == formula[1])
    if kind == WITHIN:
        return value in formula[1]
    return value % (formula[1] if kind == MULTIPLE else 1) == 0


@given(formulas, st.lists(decimals, min_size=3, max_size=8))
@settings(max_examples=150, deadline=None)
def test_plain_decimals_match_by_value_and_exponents_never_match_wrongly(
    formula: Formula, values: list[Decimal]
) -> None:
    expression = number_set(formula)
    matcher = None if expression == EMPTY else ValueMatcher(expression)
    for value in values:
        plain = f"{value:f}"
        expected = holds(formula, value)
        for text in (plain, plain + ("0" if "." in plain else ".00")):
            assert (matcher is not None and matcher.matches(text.encode())) == expected, (formula, text)
        scientific = f"{value:e}"
        assert expected or matcher is None or not matcher.matches(scientific.encode()), (formula, scientific)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            {"type": "integer"},
            ["0", "-0", "12", "1.0", "1e3", "10e0"],
            ["1.5", "01", "+1", "1e-1", ".5", "1."],
        ),
        ({"type": "number"}, ["1.5E+10", "-0.0e-7"], ["1e", "1.e3", "Infinity", "0x1"]),
        ({"minimum": 0}, ["0", "-0.0", "1e9", "3.25e-7"], ["-1", "-0.01", "-1e-9"]),
        ({"minimum": 5, "exclusiveMaximum": 10}, ["5", "9.99", "5e0"], ["4.999", "10", "1e1", "10.0"]),
        ({"multipleOf": 0.01}, ["1.25", "3", "0.10"], ["1.255", "0.001"]),
        ({"const": 1}, ["1", "1.0", "1e0"], ["true", "1.01", "11"]),
        ({"const": 1.5}, ["1.5", "1.50", "1.5e+00"], ["1.51", "15"]),
        ({"enum": [1, 20]}, ["20", "2e1", "2.0E+1"], ["2", "200"]),
    ],
)
def test_numbers_are_compared_by_value(schema: Any, good: list[str], bad: list[str]) -> None:
    assert accepted({"type": "number", **schema}, *good, *bad) == good


def test_an_integer_of_draft_4_has_no_decimal_point() -> None:
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}
    assert accepted(schema, "1", "1.0", "1e2") == ["1"]


def test_an_exclusive_bound_of_draft_4_is_a_boolean() -> None:
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 2, "exclusiveMinimum": True}
    assert accepted({"type": "number", **schema}, "2", "2.0", "2.001", "3") == ["2.001", "3"]


def test_thousands_of_constants_are_cheap_and_exact() -> None:
    judge = Judge({"enum": [n * 3 for n in range(5000)]})
    assert judge.accepts("14997")
    assert judge.accepts("3.0")
    assert judge.accepts("0")
    assert not judge.accepts("14998")
    assert not judge.accepts("1")
    assert not judge.accepts("30000")


def test_excessive_and_invalid_numbers_raise_clear_errors() -> None:
    with pytest.raises(GrammarLimitError, match="minimum has more than 400 digits"):
        Judge({"minimum": 10**500})
    with pytest.raises(UnsupportedKeywordError, match="multipleOf"):
        Judge({"multipleOf": 0.123456789})
    with pytest.raises(GrammarError, match="multipleOf must be greater than 0"):
        Judge({"multipleOf": 0})
    with pytest.raises(GrammarError, match="maximum must be a number"):
        Judge({"maximum": "3"})
