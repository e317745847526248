"""Whether nothing satisfies several subschemas, where their outlines do not tell."""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import UnsupportedKeywordError
from ...work import spend, spend_on_each
from ..formula import AND, FALSE, WITHIN, Formula, conjunction
from ..nodes import Expander
from ..outlines import ALL_KINDS, STRING, outline_intersection, possible_kinds
from ..scalars.strings import holds, is_possible, may_be_empty

_KINDS = tuple(1 << i for i in range(ALL_KINDS.bit_length()))


class Exclusion:
    """Which subschemas exclude each other: as an expander says, or because their formulas do for every type
    of values, those of strings as regular languages."""

    def __init__(self, expander: Expander) -> None:
        self._expander = expander
        self._known: dict[frozenset[int], bool] = {}

    def impossible(self, literals: Iterable[int]) -> bool:
        """Whether certainly no value satisfies all of the literals."""
        key = frozenset(literals)
        found = self._known.get(key)
        if found is None:
            spend(2 + len(key))
            found = self._known[key] = self._expander.impossible(key) or self._is_empty(key)
        return found

    def implied(self, literal: int, known: list[int]) -> bool:
        """Whether certainly every value that satisfies the known literals satisfies another one."""
        return literal in known or self.impossible([*known, literal ^ 1])

    def _is_empty(self, literals: frozenset[int]) -> bool:
        if len(literals) < 2:
            return False
        kinds = possible_kinds(outline_intersection(map(self._expander.outlines.of, literals)))
        for kind in _KINDS:
            if kinds & kind:
                formula = conjunction(self._expander.formula(literal, kind) for literal in literals)
                if formula != FALSE and (kind != STRING or _has_strings(formula)):
                    return False
        return True

    def has_few(self, literal: int) -> bool:
        """Whether the subschema lists its values, so that its negation costs little."""
        return self._expander.outlines.of(literal | 1).allowed is not None


def _has_strings(formula: Formula) -> bool:
    """Whether strings may satisfy a formula."""
    atoms = formula[1] if formula[0] == AND else (formula,)
    listed = min((atom[1] for atom in atoms if atom[0] == WITHIN), key=len, default=None)
    if listed is not None:
        return any(holds(formula, text) for text in spend_on_each(listed))
    if not may_be_empty(formula):
        return True
    spend(100)
    try:
        return is_possible(formula)
    except UnsupportedKeywordError:  # whoever needs these strings says so
        return True
