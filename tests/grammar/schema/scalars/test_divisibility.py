"""Assertions about divisors said anew allow the same numbers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler.grammar import Grammar, GrammarLimitError
from engine_sampler.grammar.schema.formula import (
    AND,
    MULTIPLE,
    NOT,
    OR,
    WITHIN,
    Formula,
    conjunction,
    disjunction,
)
from engine_sampler.grammar.schema.scalars import divisibility
from engine_sampler.grammar.schema.scalars.divisibility import with_few_residues

from ..alternatives.plain_definition import is_valid

DIVISORS = st.sampled_from(["2", "3", "4", "6", "9", "12", "0.5", "1.5", "2.5"]).map(Decimal)
CHECKS = st.recursive(
    DIVISORS.map(lambda value: (MULTIPLE, value)) | DIVISORS.map(lambda value: (NOT, (MULTIPLE, value))),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(conjunction)
        | st.lists(inner, min_size=1, max_size=3).map(disjunction)
    ),
    max_leaves=6,
)
NO_BOUNDS: tuple[list[Decimal], list[Decimal]] = ([], [])


def _holds(formula: Formula, value: Decimal) -> bool:
    if formula[0] in (AND, OR):
        return (all if formula[0] == AND else any)(_holds(part, value) for part in formula[1])
    if formula[0] == NOT:
        return not _holds(formula[1], value)
    if formula[0] == WITHIN:
        return value in formula[1]
    return value % formula[1] == 0


@pytest.fixture
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divisibility, "_MANY_RESIDUES", 0)


@pytest.mark.usefixtures("_few")
@settings(max_examples=25, deadline=None)
@given(formula=CHECKS, needed=DIVISORS)
def test_the_same_numbers_are_allowed(formula: Formula, needed: Decimal) -> None:
    formula = conjunction([formula, (MULTIPLE, needed)])
    simpler = with_few_residues(formula, NO_BOUNDS, _holds)
    for number in range(-50, 51):
        value = Decimal(number) / 4
        assert _holds(simpler, value) is _holds(formula, value), (value, simpler)


@pytest.mark.usefixtures("_few")
@settings(max_examples=25, deadline=None)
@given(formula=CHECKS, needed=DIVISORS, low=st.integers(-20, 0), width=st.integers(0, 20))
def test_few_numbers_are_listed(formula: Formula, needed: Decimal, low: int, width: int) -> None:
    formula = conjunction([formula, (MULTIPLE, needed)])
    bounds = [Decimal(low)], [Decimal(low + width)]
    simpler = with_few_residues(formula, bounds, _holds)
    for number in range(4 * low, 4 * (low + width) + 1):
        value = Decimal(number) / 4
        assert _holds(simpler, value) is _holds(formula, value), (value, simpler)


def test_without_many_residues_nothing_changes() -> None:
    formula = conjunction([(MULTIPLE, Decimal(6)), (NOT, (MULTIPLE, Decimal(4)))])
    assert with_few_residues(formula, NO_BOUNDS, _holds) is formula


MANY = {"not": {"anyOf": [{"multipleOf": divisor} for divisor in (2, 3, 5, 7, 11)]}}
SCHEMAS: dict[str, Any] = {
    "listed": {"type": "integer", "multipleOf": 13, **MANY, "minimum": 100, "maximum": 1000},
    "fractions": {"type": "number", "multipleOf": 6.5, **MANY, "minimum": -400, "maximum": 200},
    "implied": {
        "type": "number",
        "minimum": 1,
        "multipleOf": 3,
        "allOf": [{"anyOf": [{"multipleOf": 3}, {"multipleOf": number}]} for number in (5, 7, 8, 11, 13)],
    },
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_numbers_with_many_divisors_are_served(name: str) -> None:
    schema = SCHEMAS[name]
    grammar = Grammar.from_json_schema(schema)
    for half in range(-900, 2100, 3):
        value = half // 2 if half % 2 == 0 else half / 2
        expected = is_valid(schema, value)
        assert grammar.check(str(value)).valid is expected, value


def test_what_depends_on_too_many_residues_is_refused() -> None:
    with pytest.raises(GrammarLimitError, match="a number in the JSON Schema needs more than 20000 states"):
        Grammar.from_json_schema({"type": "integer", "multipleOf": 8719, **MANY})
