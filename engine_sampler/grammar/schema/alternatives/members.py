"""What the parts of a choice say of one member of an object."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...work import spend
from ..formula import AND, HAS, PROPERTIES, TRUE, Formula, conjunction, negation
from .exclusion import Exclusion
from .facts import Facts


class Member(NamedTuple):
    """A part that is about one member: its presence or absence, and what its value must satisfy then."""

    name: str
    present: bool
    literals: tuple[int, ...] = ()


def member_of(part: Formula) -> Member | None:
    """The member that a part says is present, with such a value, or absent; None for other parts."""
    if part[0] == HAS:
        return Member(part[1], part[2])
    if part[0] != AND:
        return None
    name: str | None = None
    literals: list[int] = []
    is_present = False
    for assertion in part[1]:
        spend()
        if assertion[0] == HAS and assertion[2]:
            names, is_present = (assertion[1],), True
        elif assertion[0] == PROPERTIES and len(assertion[1]) == 1:
            names = (assertion[1][0][0],)
            literals.append(assertion[1][0][1])
        else:
            return None
        if name not in (None, *names):
            return None
        name = names[0]
    return Member(name, True, tuple(literals)) if is_present and name is not None else None


def names_in(part: Formula) -> tuple[str, ...]:
    """The key that a part is about, if it is about one alone."""
    if part[0] == PROPERTIES and len(part[1]) == 1:
        return (part[1][0][0],)
    member = member_of(part)
    return () if member is None else (member.name,)


def simplified(choice: Iterable[Formula], facts: Facts, exclusion: Exclusion) -> list[Formula] | None:
    """The parts of a choice that may hold, without what the facts imply; None if one certainly holds.

    "A key is absent" and "it is present with such a value" are one part.
    """
    parts = list(choice)
    absent = {part[1] for part in parts if part[0] == HAS and not part[2]}
    simpler: dict[Formula, None] = {}
    merged: set[str] = set()
    for part in parts:
        spend(4)
        member = member_of(part)
        if member is None or not member.present:
            simpler[part] = None
            continue
        name, known = member.name, facts.literals_of(member.name)
        new = [literal for literal in member.literals if not exclusion.implied(literal, known)]
        if exclusion.impossible([*known, *new]):
            continue
        is_certain = name in absent or facts.is_present(name)
        if is_certain and not new:
            return None
        presence: list[Formula] = [] if is_certain else [(HAS, name, True)]
        simpler[conjunction([*presence, *((PROPERTIES, ((name, literal),)) for literal in new)])] = None
        if name in absent:
            merged.add(name)
    return [part for part in simpler if part[0] != HAS or part[2] or part[1] not in merged]


def opposite(part: Formula, exclusion: Exclusion) -> Formula:
    """What may be assumed where a part does not hold: its negation if that costs little, else nothing."""
    if part[0] == HAS:
        return negation(part)
    member = member_of(part)
    if member is not None and len(member.literals) == 1 and exclusion.has_few(member.literals[0]):
        return (PROPERTIES, ((member.name, member.literals[0] ^ 1),))
    if part[0] == PROPERTIES and len(part[1]) == 1 and exclusion.has_few(part[1][0][1]):
        ((name, literal),) = part[1]
        return conjunction([(HAS, name, True), (PROPERTIES, ((name, literal ^ 1),))])
    return TRUE
