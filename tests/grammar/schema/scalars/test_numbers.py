"""Numbers: the texts whose value a schema allows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler.grammar import Grammar
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
from engine_sampler.grammar.schema.options import SchemaOptions
from engine_sampler.grammar.schema.scalars.matching import ValueMatcher, is_empty
from engine_sampler.grammar.schema.scalars.numbers import _with_plain_integers, number_set

from ....examples import examples
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
@settings(max_examples=examples(150), deadline=None)
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
    assert accepted({"type": "number", **schema}, *good, *bad, numbers="any") == good


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, ["0", "-0", "12"], ["1.0", "1e3", "10e0", "1E0", "01"]),
        ({"type": "integer", "minimum": 5}, ["5", "60"], ["5.0", "6e1", "4"]),
        ({"type": "integer", "multipleOf": 7, "maximum": 20}, ["-7", "0", "14"], ["14.0", "21", "8"]),
        ({"type": "integer", "enum": [1, 2.0]}, ["1", "2"], ["1.0", "2.0", "3"]),
        ({"not": {"type": "integer"}, "type": "number"}, ["1.5", "-0.25"], ["1", "1.0", "2e0"]),
        ({"type": ["integer", "number"]}, ["1", "1.0", "1e3"], ["1."]),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, ["7", '"7"'], ["7.0"]),
        ({"type": "array", "items": {"type": "integer"}}, ["[1,2]"], ["[1.0]", "[1e2]"]),
    ],
)
def test_integers_are_written_plainly(schema: Any, good: list[str], bad: list[str]) -> None:
    assert accepted(schema, *good, *bad) == good


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"type": "number"},
        {"minimum": 0},
        {"not": {"const": 3}},
        {"exclusiveMinimum": -1, "not": {"const": 7}},
    ],
)
def test_digits_are_bounded(schema: Any) -> None:
    nines, zeros = "9" * 40, "0" * 40
    good = [nines, f"0.{nines}", f"{nines}.{zeros}1"[:-1], "2e300"]
    bad = [nines + "9", f"0.{nines}9", f"1.{zeros}0", "2e3000", "2e+0300"]
    assert accepted(schema, *good, *bad) == good
    assert accepted(schema, "12", "1.25", "123", "4e55", "4e555", numbers=2) == ["12", "1.25", "4e55"]
    assert accepted(schema, *good, *bad, numbers="any") == [*good, *bad]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer", "minimum": 10**60}, "1" + "0" * 60),
        ({"type": "integer", "maximum": -(10**60)}, "-1" + "0" * 60),
        ({"type": "integer", "multipleOf": 10**50, "minimum": 1}, "1" + "0" * 50),
        ({"multipleOf": 1e-60, "exclusiveMinimum": 0, "maximum": 1e-60}, "0." + "0" * 59 + "1"),
        ({"exclusiveMinimum": 1e-50, "exclusiveMaximum": 2e-50}, "0." + "0" * 49 + "15"),
        ({"const": 10**45}, "1" + "0" * 45),
        ({"enum": list(range(10**45, 10**45 + 20))}, "1" + "0" * 44 + "3"),
        ({"const": {"a": [10**45]}}, '{"a":[1' + "0" * 45 + "]}"),
        ({"type": "integer", "multipleOf": 7, "minimum": 10**40}, "1" + "0" * 39 + "3"),
    ],
)
@pytest.mark.parametrize("numbers", [40, 1])
def test_a_schema_that_needs_more_digits_gets_them(schema: Any, text: str, numbers: int) -> None:
    assert accepted({"type": ["number", "object"], **schema}, text, numbers=numbers) == [text]


@given(formulas, st.integers(1, 3))
@settings(max_examples=examples(60), deadline=None)
def test_a_bound_on_digits_leaves_a_number_wherever_there_is_one(formula: Formula, digits: int) -> None:
    numbers = number_set(formula, digits)
    assert (numbers == EMPTY or is_empty(numbers)) == (number_set(_with_plain_integers(formula)) == EMPTY)


@pytest.mark.parametrize("numbers", [0, -1, 401, True, 1.5, "all", None])
def test_other_bounds_on_digits_are_refused(numbers: Any) -> None:
    with pytest.raises(GrammarError, match="is not allowed: any, or a number of digits from 1 to 400"):
        SchemaOptions(numbers=numbers)


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


@pytest.mark.parametrize("schema", [{"minimum": 0}, {"minimum": 0, "maximum": 9}, {"exclusiveMinimum": 1}])
@pytest.mark.parametrize("kind", ["integer", "number"])
def test_numbers_that_are_not_negative_have_no_sign(schema: Any, kind: str) -> None:
    grammar = Grammar.from_json_schema({"type": kind, **schema})
    assert accepted({"type": kind, **schema}, "-0", "2", "-2") == ["2"]
    check = grammar.check("-1")
    assert (check.position, b"1" in check.expected) == (0, True)
