"""Formulas about objects or arrays as disjunctions of plain assertions, with as few disjuncts as possible.

An `or` is multiplied out only after the assertions around it have ruled out what they can: a `oneOf`
whose branches differ in a constant ends up with only one disjunct per branch. If that leaves too many, cases
are told apart by the value of a key: branches often name one, as `type`, but do not require it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

from ...work import spend
from ..formula import (
    AND,
    CLAUSE,
    FALSE,
    HAS,
    LISTED,
    OR,
    PROPERTIES,
    SIZE,
    SOME,
    WITHIN,
    Formula,
    conjunction,
    joined,
    negation,
    weight,
)
from ..limits import MAX_CLAUSES
from ..nodes import Expander
from ..outlines import ARRAY, OBJECT
from .facts import Facts, Impossibility

_MAX_KEY_CLAUSES = 64
"""Maximum number of clauses into which an `or` over the presence of keys is rewritten."""

_CHOICES = frozenset((OR, LISTED))
_PRESENCE = frozenset((HAS, SIZE))
"""The assertions that others may contradict: about what there is, not what it must be if there is any."""

Atoms = tuple[Formula, ...]
Choices = list[list[Formula]]
Case = tuple[Atoms, tuple[Formula, ...]]
"""Assertions, and formulas that are to be looked at beside these."""
Split = Callable[[Atoms, Choices], list[Case]]
"""What gives cases, of which at least one holds where assertions and a part of each choice do. The last one
is looked at first."""


def disjuncts(formula: Formula, expander: Expander) -> list[Atoms] | None:
    """The disjunctive normal form of a formula: each element is a conjunction of assertions.

    None if there are more than `limits.MAX_CLAUSES`.
    """
    parts: Atoms = formula[1] if formula[0] == AND else (formula,)
    kinds = {part[0] for part in parts}
    if kinds.isdisjoint(_CHOICES):
        spend(10 + 4 * len(parts))
        return [] if not kinds.isdisjoint(_PRESENCE) and Facts(parts, expander).contradictory else [parts]
    found = _by_cases((formula,), expander, frozenset())
    return None if found is None else list(found)


def _by_cases(parts: Atoms, expander: Expander, taken: frozenset[str]) -> dict[Atoms, None] | None:
    """The disjuncts of all parts; if they are too many, case by case of the value of a key; None if they are
    too many then.

    taken  the keys whose cases are distinguished already
    """
    normal = _multiplied_out(parts, expander)
    if normal is not None:
        return normal
    found = _cases_by_key(parts, expander, taken)
    if found is None:
        return None
    key, cases = found
    normal = {}
    for case in cases:
        of_case = _by_cases((case, *parts), expander, taken | {key})
        if of_case is None:
            return None
        normal |= of_case
    return normal if len(normal) <= MAX_CLAUSES else None


def _multiplied_out(parts: Atoms, expander: Expander) -> dict[Atoms, None] | None:
    """The disjuncts of all parts; None if they are too many."""
    return split_up(parts, expander, _shortest_choice)


def split_up(parts: Atoms, exclusion: Impossibility, split: Split) -> dict[Atoms, None] | None:
    """The disjuncts of all parts; None if there are more than `limits.MAX_CLAUSES`."""
    normal: dict[Atoms, None] = {}
    waiting: list[Case] = [((), parts)]
    while waiting:
        atoms, todo = waiting.pop()
        spend(10 + 4 * (len(atoms) + len(todo)))
        left = _reduced(atoms, todo, exclusion)
        if left is None:
            continue
        atoms, choices = left
        if not choices:
            normal[atoms] = None
        else:
            waiting += split(atoms, choices)
        if len(normal) + len(waiting) > MAX_CLAUSES:
            return None
    return normal


def _shortest_choice(atoms: Atoms, choices: Choices) -> list[Case]:
    """A case for each part of the shortest choice."""
    choices.sort(key=len)
    rest = tuple(joined(OR, tuple(choice)) for choice in choices[1:])
    return [(atoms, (part, *rest)) for part in reversed(choices[0])]


def _cases_by_key(
    parts: Iterable[Formula], expander: Expander, taken: frozenset[str]
) -> tuple[str, list[Formula]] | None:
    """A key, and formulas of which at least one holds of every object: the key is absent, or its value is
    among the constants of one subschema, or of none.

    The key is that for which the formulas have most such subschemas, apart from `taken`; None without any.
    """
    by_key: dict[str, dict[int, None]] = {}
    waiting = list(parts)
    while waiting:
        part = waiting.pop()
        kind = part[0]
        if kind in (AND, OR):
            spend(len(part[1]))
            waiting += part[1]
        for name, literal in _named_members(part):
            if name not in taken and expander.outlines.of(literal | 1).allowed is not None:
                by_key.setdefault(name, {})[literal | 1] = None
    if not by_key:
        return None
    key = max(by_key, key=lambda name: len(by_key[name]))
    literals = sorted(by_key[key])
    if len(literals) < 2:
        return None
    spend(4 * len(literals))
    present: Formula = (HAS, key, True)
    cases: list[Formula] = [(HAS, key, False)]
    cases += (conjunction([present, (PROPERTIES, ((key, literal),))]) for literal in literals)
    others = ((PROPERTIES, ((key, literal ^ 1),)) for literal in literals)
    return key, [*cases, conjunction([present, *others])]


def _named_members(part: Formula) -> Iterable[tuple[str, int]]:
    """The keys that an assertion names, with the literals of their values."""
    if part[0] == PROPERTIES:
        spend(len(part[1]))
        members: Iterable[tuple[str, int]] = part[1]
        return members
    if part[0] == SOME and part[1][0] == WITHIN:
        return [(name, part[2]) for name in part[1][1]]
    return ()


def exclusive(expander: Expander, parts: list[Formula], kind: int) -> list[Formula]:
    """Each part in conjunction with the negations of the others, except those that it obviously excludes."""
    result = []
    spend(len(parts) * sum(map(expander.weigh, parts)))
    disjoint: set[tuple[int, int]] = set()
    for index, part in enumerate(parts):
        facts = Facts(part[1] if part[0] == AND else (part,), expander) if kind & (OBJECT | ARRAY) else None
        negations = []
        for number, other in enumerate(parts):
            if part == FALSE or number == index or other == FALSE or (number, index) in disjoint:
                continue
            spend(20)
            if facts is not None and facts.verdict(other) is False:
                disjoint.add((index, number))
            else:
                negations.append(negation(other))
        result.append(conjunction([part, *negations]))
    return result


def _reduced(
    atoms: Atoms, todo: Iterable[Formula], exclusion: Impossibility
) -> tuple[Atoms, list[list[Formula]]] | None:
    """The assertions, and the remaining choices between others; None if they contradict each other."""
    known = dict.fromkeys(atoms)
    choices: list[tuple[Formula, ...]] = []
    waiting = list(todo)
    while True:
        while waiting:
            part = waiting.pop()
            if part[0] == AND:
                waiting += reversed(part[1])  # in the order of the schema, which the order of keys follows
            elif part[0] == OR:
                clauses = _key_clauses(part)
                if clauses is None:
                    choices.append(_without_presence(part[1]))
                else:
                    waiting += clauses
            elif part[0] == LISTED:
                waiting.append(part[1].formula)
            else:
                known[part] = None
        facts = Facts(tuple(known), exclusion)
        if facts.contradictory:
            return None
        left: list[list[Formula]] = []
        spend(2 * sum(map(len, choices)))
        for choice in choices:
            open_parts = facts.open(choice)
            if open_parts is None:
                continue
            if not open_parts:
                return None
            if len(open_parts) == 1:
                waiting += open_parts
            else:
                left.append(open_parts)
        if not waiting:
            return tuple(known), left
        choices = [tuple(choice) for choice in left]


def _without_presence(choice: tuple[Formula, ...]) -> tuple[Formula, ...]:
    """A choice in which "a key is absent" and "it has such a value" are one: what such a key must be."""
    absent = {part[1] for part in choice if part[0] == HAS and not part[2]}
    merged: dict[str, None] = {}
    parts: list[Formula] = []
    for part in choice if absent else ():
        if part[0] == SOME and part[1][0] == WITHIN and len(part[1][1]) == 1:
            (name,) = part[1][1]
            if name in absent:
                merged[name] = None
                parts.append((PROPERTIES, ((name, part[2]),)))
                continue
        parts.append(part)
    if not merged:
        return choice
    return tuple(part for part in parts if part[0] != HAS or part[2] or part[1] not in merged)


def _key_clauses(formula: Formula) -> list[Formula] | None:
    """An `or` over nothing but the presence of keys, as clauses that registers can check at the end.

    None if the formula is not of that form, or if registers cannot check a clause.
    """
    spend(1 + weight(formula))
    sets = _clause_sets(formula)
    if sets is None:
        return None
    result: list[Formula] = []
    for one in sets:
        if any((name, not value) in one for name, value in one):
            continue
        if not one or (len(one) > 1 and not any(value for _, value in one)):
            return None
        literals = tuple(sorted(one))
        result.append((HAS, *literals[0]) if len(literals) == 1 else (CLAUSE, literals))
    return result


def _clause_sets(formula: Formula) -> list[frozenset[tuple[str, bool]]] | None:
    kind = formula[0]
    if kind == HAS:
        return [frozenset((formula[1:],))]
    if kind == CLAUSE:
        return [frozenset(formula[1])]
    if kind not in (AND, OR):
        return None
    parts = [_clause_sets(part) for part in formula[1]]
    if None in parts:
        return None
    if kind == AND:
        return [one for part in parts for one in part or ()]
    size = 1
    for part in parts:
        size *= len(part or ())
        if size > _MAX_KEY_CLAUSES:
            return None
    return [frozenset().union(*choice) for choice in product(*(part or () for part in parts))]
