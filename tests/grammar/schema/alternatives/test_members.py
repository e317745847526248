"""What the parts of a choice say of one member."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler.grammar.schema.alternatives.exclusion import Exclusion
from engine_sampler.grammar.schema.alternatives.facts import Facts
from engine_sampler.grammar.schema.alternatives.members import Member, member_of, opposite, simplified
from engine_sampler.grammar.schema.document import Document
from engine_sampler.grammar.schema.formula import HAS, PROPERTIES, TRUE, Formula, conjunction, disjunction
from engine_sampler.grammar.schema.keywords.all_types import KEYWORDS
from engine_sampler.grammar.schema.nodes import Expander

SCHEMA = {"$defs": {"text": {"type": "string"}, "one": {"const": "one"}, "long": {"minLength": 9}}}
DOCUMENT = Document(SCHEMA)
EXPANDER = Expander(DOCUMENT, KEYWORDS, "error", "assert", None)
TEXT, ONE, LONG = (EXPANDER.literal(one, DOCUMENT.root, ()) for one in SCHEMA["$defs"].values())
EXCLUSION = Exclusion(EXPANDER)
HAS_A, NO_A = (HAS, "a", True), (HAS, "a", False)


def _value(literal: int) -> Formula:
    return (PROPERTIES, (("a", literal),))


def _with(literal: int) -> Formula:
    return conjunction([HAS_A, _value(literal)])


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (HAS_A, Member("a", True)),
        (NO_A, Member("a", False)),
        (_with(TEXT), Member("a", True, (TEXT,))),
        (_value(TEXT), None),
        (conjunction([HAS_A, (HAS, "b", True)]), None),
        (conjunction([HAS_A, disjunction([NO_A, (HAS, "b", True)])]), None),
    ],
    ids=["present", "absent", "value", "value-if-present", "two", "choice"],
)
def test_a_part_may_be_about_one_member(part: Formula, expected: Member | None) -> None:
    assert member_of(part) == expected


@pytest.mark.parametrize(
    ("atoms", "choice", "expected"),
    [
        ([], [NO_A, _with(TEXT)], [_value(TEXT)]),
        ([], [_with(TEXT), NO_A], [_value(TEXT)]),
        ([HAS_A], [_with(LONG), (HAS, "b", True)], [_value(LONG), (HAS, "b", True)]),
        ([_value(ONE)], [_with(LONG), (HAS, "b", True)], [(HAS, "b", True)]),
        ([_value(ONE)], [_with(TEXT), (HAS, "b", True)], [HAS_A, (HAS, "b", True)]),
        ([HAS_A, _value(ONE)], [_with(TEXT), (HAS, "b", True)], None),
        ([_value(ONE)], [_with(TEXT), NO_A], None),
        ([NO_A], [_with(TEXT), (HAS, "b", True)], [(HAS, "b", True)]),
    ],
    ids=["merged", "merged-later", "present", "excluded", "implied", "certain", "either-way", "absent"],
)
def test_a_choice_keeps_what_is_not_known(
    atoms: list[Formula], choice: list[Formula], expected: list[Formula] | None
) -> None:
    assert simplified(choice, Facts(tuple(atoms), EXCLUSION), EXCLUSION) == expected


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (HAS_A, NO_A),
        (_with(ONE), _value(ONE ^ 1)),
        (_value(ONE ^ 1), conjunction([HAS_A, _value(ONE)])),
        (_with(LONG), TRUE),
        (_value(LONG), TRUE),
    ],
    ids=["presence", "a-constant", "no-constant", "a-length", "a-length-if-present"],
)
def test_the_opposite_is_said_where_it_costs_little(part: Formula, expected: Any) -> None:
    assert opposite(part, EXCLUSION) == expected
