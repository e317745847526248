"""Tests of the search for a string that satisfies a formula."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler.grammar.schema.formula import (
    FALSE,
    LENGTH,
    NOT,
    PATTERN,
    TRUE,
    WITHIN,
    Formula,
    conjunction,
    disjunction,
)
from engine_sampler.grammar.schema.scalars.matching import is_empty
from engine_sampler.grammar.schema.scalars.searching import some_string
from engine_sampler.grammar.schema.scalars.strings import _all_content, is_possible
from engine_sampler.grammar.work import counted_work

LOWER: Formula = (PATTERN, "^[a-z]+$")
DIGITS: Formula = (PATTERN, "^[0-9]+$")


def _not(formula: Formula) -> Formula:
    return (NOT, formula)


FORMULAS: dict[str, tuple[Formula, bool]] = {
    "anything": (TRUE, True),
    "nothing": (FALSE, False),
    "one pattern": (LOWER, True),
    "two patterns that exclude each other": (conjunction([LOWER, DIGITS]), False),
    "a pattern and its negation": (conjunction([LOWER, _not(LOWER)]), False),
    "four texts within one": (
        conjunction([(PATTERN, text) for text in ("name", "tags", "vars", "when")]),
        True,
    ),
    "a text that a length is too short for": (conjunction([(PATTERN, "abc"), (LENGTH, 0, 2)]), False),
    "a text that a length has room for": (conjunction([(PATTERN, "abc"), (LENGTH, 5, 5)]), True),
    "a text beyond ASCII": (conjunction([(PATTERN, "^é$"), (LENGTH, 1, 1)]), True),
    "lengths with a gap": (
        conjunction([disjunction([(LENGTH, 0, 0), (LENGTH, 501, None)]), (LENGTH, 1, 500)]),
        False,
    ),
    "a length beyond what is tried": (conjunction([(LENGTH, 32_768, None), (LENGTH, 0, 40_000)]), True),
    "constants that a pattern excludes": (conjunction([(WITHIN, frozenset(("a1", "b2"))), LOWER]), False),
    "everything but constants": (conjunction([LOWER, _not((WITHIN, frozenset(("a",))))]), True),
    "no pattern at all": (conjunction([_not(LOWER), _not(DIGITS), _not((PATTERN, "^$"))]), True),
    "a pattern that matches nothing": ((PATTERN, "a^b"), False),
}


@pytest.mark.parametrize(("formula", "expected"), FORMULAS.values(), ids=FORMULAS)
def test_a_string_is_found_where_there_is_one(formula: Formula, expected: bool) -> None:
    assert some_string(formula, _all_content) is expected
    assert is_possible(formula) is expected


def test_a_long_search_is_left_to_the_derivatives_of_the_whole() -> None:
    formula = conjunction(
        [(PATTERN, "^([a-z][0-9])+$"), (PATTERN, "((ab){9}|(cd){9})$"), (LENGTH, 4_000, None)]
    )
    assert some_string(formula, _all_content) is None
    assert is_possible(formula) is not is_empty(_all_content(formula))


def test_searches_of_one_reading_share_the_automata() -> None:
    loaded: list[Formula] = []

    def content(atom: Formula) -> Any:
        loaded.append(atom)
        return _all_content(atom)

    with counted_work():
        assert some_string(conjunction([LOWER, _not(DIGITS)]), content)
        assert some_string(conjunction([DIGITS, _not(LOWER)]), content)
    assert loaded == [LOWER, DIGITS]
    assert some_string(LOWER, content)
    assert loaded == [LOWER, DIGITS, LOWER]
