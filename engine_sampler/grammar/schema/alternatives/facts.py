"""`Facts`: what follows from assertions about one object or array."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Protocol

from ....base.cached import cached_property
from ...work import spend, spend_on_each
from ..formula import (
    ALL,
    ALWAYS,
    AND,
    CLAUSE,
    FROM,
    HAS,
    ITEM,
    NEVER,
    NOT,
    OR,
    PROPERTIES,
    SIZE,
    SOME,
    WITHIN,
    Formula,
)
from ..scalars.strings import holds

_MANY = 64
"""The number of assertions from which on each is counted when it is recorded."""


class Impossibility(Protocol):
    """What knows which subschemas exclude each other."""

    def impossible(self, literals: Iterable[int]) -> bool:
        """Whether certainly no value satisfies all of the literals."""


class Facts:
    """Consequences of assertions about one object or array.

    contradictory  whether they obviously cannot all hold
    """

    def __init__(self, atoms: Collection[Formula], exclusion: Impossibility) -> None:
        self._exclusion = exclusion
        self._present: set[str] = set()
        self._absent: set[str] = set()
        self._members: dict[str, list[int]] = {}
        self._all: list[Formula] = []
        self._items: dict[int, list[int]] = {}
        self._later: list[tuple[int, int]] = []
        self._low, self._high = 0, None
        self._given = atoms
        self._values: dict[str, list[int]] = {}
        for atom in spend_on_each(atoms) if len(atoms) >= _MANY else atoms:
            self._record(atom)
        self.contradictory = self._is_contradictory()

    @cached_property
    def _atoms(self) -> set[Formula]:
        return set(self._given)

    def _record(self, atom: Formula) -> None:
        kind = atom[0]
        if kind == HAS:
            (self._present if atom[2] else self._absent).add(atom[1])
        elif kind == PROPERTIES:
            for name, literal in atom[1]:
                self._members.setdefault(name, []).append(literal)
        elif kind == ALL:
            self._all.append(atom)
        elif kind == ITEM:
            self._items.setdefault(atom[1], []).append(atom[2])
        elif kind == FROM:
            self._later.append(atom[1:])
        elif kind == SIZE:
            self._low = max(self._low, atom[1])
            if atom[2] is not None:
                self._high = atom[2] if self._high is None else min(atom[2], self._high)

    def _is_contradictory(self) -> bool:
        if self._present & self._absent or (self._high is not None and self._low > self._high):
            return True
        if self._high is not None and len(self._present) > self._high:
            return True
        spend(len(self._present))
        return any(self._exclusion.impossible(self.literals_of(name)) for name in self._present)

    def literals_of(self, name: str) -> list[int]:
        """The literals that the value of a key must satisfy; NEVER is among them if it is absent."""
        literals = self._values.get(name)
        if literals is None:
            literals = list(self._members.get(name, ()))
            literals += [atom[2] for atom in self._all if holds(atom[1], name)]
            if name in self._absent:
                literals.append(NEVER)
            self._values[name] = literals
        return literals

    def is_present(self, name: str) -> bool:
        """Whether the key is certainly present."""
        return name in self._present

    def is_decided(self, name: str) -> bool:
        """Whether the key is known to be present, or absent."""
        return name in self._present or name in self._absent

    def open(self, choice: Iterable[Formula]) -> list[Formula] | None:
        """The parts of an `or` that may hold; None if the `or` certainly holds."""
        choice = tuple(choice)
        result: list[Formula] = []
        if not self._atoms:
            return list(choice)
        if self._covered(choice):
            return None
        for part in choice:
            verdict = self.verdict(part)
            if verdict is True:
                return None
            if verdict is None:
                result.append(part)
        return result

    def _covered(self, choice: tuple[Formula, ...]) -> bool:
        """Whether some key is, in every case, either absent or has a value that one of the parts accepts."""
        absent = {part[1] for part in choice if part[0] == HAS and not part[2]}
        for part in choice if absent else ():
            if part[0] == SOME and part[1][0] == WITHIN:
                for name in absent & part[1][1]:
                    if self._exclusion.impossible([*self.literals_of(name), part[2] ^ 1]):
                        return True
        return False

    def verdict(self, part: Formula) -> bool | None:
        """Whether a part obviously holds (True), obviously does not (False), or neither (None)."""
        if part in self._atoms:
            return True
        if part[0] in (AND, OR):
            return self._each(part[1], part[0] == OR)
        judge = _JUDGES.get(part[0])
        return judge(self, *part[1:]) if judge else None

    def _each(self, parts: tuple[Formula, ...], decisive: bool) -> bool | None:
        spend(2 * len(parts))
        verdicts = {self.verdict(part) for part in parts}
        if decisive in verdicts:
            return decisive
        return None if None in verdicts else not decisive

    def _has(self, name: str, present: bool) -> bool | None:
        if name in self._present:
            return present
        return not present if self._exclusion.impossible(self.literals_of(name)) else None

    def _clause(self, literals: tuple[tuple[str, bool], ...]) -> bool | None:
        spend(len(literals))
        verdicts = {self._has(*one) for one in literals}
        return True if True in verdicts else (None if None in verdicts else False)

    def _properties(self, members: tuple[tuple[str, int], ...]) -> bool | None:
        spend(2 * len(members))
        verdicts = {self._member(name, literal) for name, literal in members}
        return False if False in verdicts else (None if None in verdicts else True)

    def _member(self, name: str, literal: int) -> bool | None:
        values = self.literals_of(name)
        if literal in values or self._exclusion.impossible([*values, literal ^ 1]):
            return True
        return False if name in self._present and self._exclusion.impossible([*values, literal]) else None

    def _all_keys(self, keys: Formula, literal: int) -> bool | None:
        if literal == ALWAYS:
            return True
        if any(self._exclusion.impossible([*self.literals_of(name), literal]) for name in self._named(keys)):
            return False
        names = self._candidates(keys)
        if names is None:
            return None
        return True if all(self._member(name, literal) is True for name in names) else None

    def _some(self, keys: Formula, literal: int) -> bool | None:
        for name in self._named(keys):
            if literal == ALWAYS or self._exclusion.impossible([*self.literals_of(name), literal ^ 1]):
                return True
        names = self._candidates(keys)
        if names is not None and all(
            self._exclusion.impossible([*self.literals_of(n), literal]) for n in names
        ):
            return False
        return None

    def _named(self, keys: Formula) -> list[str]:
        """The keys in the set that are certainly present."""
        if keys[0] == WITHIN:
            spend(1 + len(keys[1]) // 8)
            return [name for name in keys[1] if name in self._present]
        return [name for name in self._present if holds(keys, name)]

    def _candidates(self, keys: Formula) -> list[str] | None:
        """All keys in the set that the object may have; None if they cannot be listed."""
        if keys[0] == WITHIN:
            return list(keys[1])
        closed = [
            atom[1][1][1]
            for atom in self._all
            if atom[2] == NEVER and atom[1][0] == NOT and atom[1][1][0] == WITHIN
        ]
        spend(1 + len(self._all) // 4 + sum(map(len, closed)) // 8)
        if not closed:
            return None
        return [name for name in frozenset.intersection(*closed) if holds(keys, name)]

    def _size(self, low: int, high: int | None) -> bool | None:
        low_bound = max(self._low, len(self._present))
        if (high is not None and low_bound > high) or (self._high is not None and self._high < low):
            return False
        inside = high is None or (self._high is not None and self._high <= high)
        return True if low_bound >= low and inside else None

    def _item(self, index: int, literal: int) -> bool | None:
        if self._high is not None and self._high <= index:
            return True
        spend(1 + len(self._later) // 8)
        values = [*self._items.get(index, ()), *(own for start, own in self._later if start <= index)]
        if self._exclusion.impossible([*values, literal ^ 1]):
            return True
        return False if self._low > index and self._exclusion.impossible([*values, literal]) else None


_JUDGES: dict[int, Any] = {
    HAS: Facts._has,
    CLAUSE: Facts._clause,
    PROPERTIES: Facts._properties,
    ALL: Facts._all_keys,
    SOME: Facts._some,
    SIZE: Facts._size,
    ITEM: Facts._item,
}
