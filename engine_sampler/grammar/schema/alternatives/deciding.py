"""Alternatives for one value, told apart by what they say of each member.

Branches of a `oneOf` that share most of their keys, and require few, multiply out to more alternatives than
a grammar can have: each branch excludes every other by any of many members. Most of these alternatives say
the same. So what several choices have in common is decided first: whether a part of them holds, or whether a
key is present, and where it does not hold, that is known in what is left.
"""

from __future__ import annotations

from functools import partial

from ...errors import GrammarLimitError
from ...work import spend
from ..formula import HAS, Formula, disjunction
from ..limits import MAX_CLAUSES
from ..nodes import Expander
from .clauses import Atoms, Case, Choices, split_up
from .equal_schemas import EqualSchemas
from .exclusion import Exclusion
from .facts import Facts
from .members import names_in, opposite, simplified


class Deciding:
    """The disjuncts of formulas of one schema."""

    def __init__(self, expander: Expander) -> None:
        self._equal = EqualSchemas(expander)
        self._exclusion = Exclusion(expander)

    def disjuncts(self, formula: Formula) -> list[Atoms]:
        """The disjunctive normal form of a formula: each element is a conjunction of assertions.

        Raises GrammarLimitError if there are more than `limits.MAX_CLAUSES`.
        """
        formula = self._equal.formula(formula)
        for by_presence in (False, True):
            found = split_up((formula,), self._exclusion, partial(self._cases, by_presence=by_presence))
            if found is not None:
                return list(found)
        raise GrammarLimitError(
            f"anyOf, oneOf, not or if lead to more than {MAX_CLAUSES} alternatives for one value"
        )

    def _cases(self, atoms: Atoms, choices: Choices, by_presence: bool) -> list[Case]:
        """Cases of which at least one holds where the atoms and one part of each choice do.

        by_presence  whether it is decided first which keys are present
        """
        facts = Facts(atoms, self._exclusion)
        some = [simplified(choice, facts, self._exclusion) for choice in choices]
        left = _without_wider([choice for choice in some if choice is not None])
        if any(len(choice) < 2 for choice in left) or not left:
            return [(atoms, _of(left))]
        counts, keys = _counts(left)
        part = max(counts, key=lambda formula: counts[formula])
        undecided = {name: count for name, count in keys.items() if not facts.is_decided(name)}
        name = max(undecided, key=lambda key: undecided[key], default=None)
        if by_presence and name is not None and undecided[name] > max(counts[part], 1):
            return [(atoms, ((HAS, name, present), *_of(left))) for present in (False, True)]
        if counts[part] > 1:
            others = _of([[other for other in choice if other != part] for choice in left])
            rest = _of([choice for choice in left if part not in choice])
            return [(atoms, (opposite(part, self._exclusion), *others)), (atoms, (part, *rest))]
        return self._each_part(atoms, left)

    def _each_part(self, atoms: Atoms, choices: Choices) -> list[Case]:
        """A case for each part of the shortest choice, in which those before it do not hold."""
        first, *others = choices
        rest = _of(others)
        cases: list[Case] = []
        failed: list[Formula] = []
        for part in first:
            cases.append((atoms, (part, *failed, *rest)))
            failed.append(opposite(part, self._exclusion))
        return cases[::-1]


def _of(choices: Choices) -> tuple[Formula, ...]:
    return tuple(map(disjunction, choices))


def _without_wider(choices: Choices) -> Choices:
    """The choices, the shortest first, without those that another one implies."""
    kept: dict[frozenset[Formula], list[Formula]] = {}
    for choice in sorted(choices, key=len):
        parts = frozenset(choice)
        spend(len(kept) + len(parts))
        if not any(other <= parts for other in kept):
            kept[parts] = choice
    return list(kept.values())


def _counts(choices: Choices) -> tuple[dict[Formula, int], dict[str, int]]:
    """The number of choices that have a part, and the number of those with a part about one key alone."""
    parts: dict[Formula, int] = {}
    keys: dict[str, int] = {}
    for choice in choices:
        spend(4 * len(choice))
        for part in choice:
            parts[part] = parts.get(part, 0) + 1
        for name in dict.fromkeys(name for part in choice for name in names_in(part)):
            keys[name] = keys.get(name, 0) + 1
    return parts, keys
