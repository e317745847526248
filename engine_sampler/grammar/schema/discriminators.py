"""Cases by the value of a key: alternatives of objects often name it, as `type`, but do not require it."""

from __future__ import annotations

from collections.abc import Iterable

from ..work import spend
from .formula import AND, HAS, OR, PROPERTIES, SOME, WITHIN, Formula, conjunction
from .nodes import Expander

_LEAST_CASES = 2


def cases_by_key(
    parts: Iterable[Formula], expander: Expander, taken: frozenset[str]
) -> tuple[str, list[Formula]] | None:
    """A key, and formulas of which at least one holds of every object: the key is absent, or its value is
    among the constants of one subschema, or of none.

    The key is that for which the formulas have most such subschemas, apart from `taken`; None without any.
    """
    found: dict[str, dict[int, None]] = {}
    waiting = list(parts)
    while waiting:
        part = waiting.pop()
        kind = part[0]
        if kind in (AND, OR):
            spend(len(part[1]))
            waiting += part[1]
        for name, literal in _members(part):
            if name not in taken and expander.outline(literal | 1).allowed is not None:
                found.setdefault(name, {})[literal | 1] = None
    if not found:
        return None
    key = max(found, key=lambda name: len(found[name]))
    literals = sorted(found[key])
    if len(literals) < _LEAST_CASES:
        return None
    spend(4 * len(literals))
    present: Formula = (HAS, key, True)
    cases: list[Formula] = [(HAS, key, False)]
    cases += (conjunction([present, (PROPERTIES, ((key, literal),))]) for literal in literals)
    others = ((PROPERTIES, ((key, literal ^ 1),)) for literal in literals)
    return key, [*cases, conjunction([present, *others])]


def _members(part: Formula) -> Iterable[tuple[str, int]]:
    """The keys that an assertion names, with the literals of their values."""
    if part[0] == PROPERTIES:
        spend(len(part[1]))
        members: Iterable[tuple[str, int]] = part[1]
        return members
    if part[0] == SOME and part[1][0] == WITHIN:
        return [(name, part[2]) for name in part[1][1]]
    return ()
