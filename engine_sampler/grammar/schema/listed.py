"""Long lists of objects or of arrays, as in an `enum`: automata that follow all of them at once.

A state is the set of constants that the members so far belong to. Keys come in any order, so an object's
automaton also needs a bit for each key; in the order of the schema, and in arrays, it needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

from ..errors import GrammarLimitError
from ..program.rules import ACCEPT, Edge, Operation, clause, clear, set_bit
from ..work import spend
from .formula import Formula, disjunction
from .layout import Punctuation
from .numbers import decimal
from .texts import is_encodable

MAX_LISTED_STATES = 100_000
"""Maximum number of states of the automaton of one list of constants."""

MAX_LISTED_KEYS = 1_000
"""Maximum number of different keys in one list of objects."""

MIN_LISTED = 33
"""The length from which on a list is followed as a whole, rather than as that many alternatives."""


class Constants(Protocol):
    """What an emitter knows about keys and constants."""

    def key(self, name: str) -> int:
        """The terminal of a key."""

    def constant(self, value: Any) -> tuple[int, ...]:
        """The symbols of a constant."""


class Listed:
    """Objects or arrays, each of which a value may equal.

    values    these, each once, except those that no text can express
    formulas  one for each that `values` was given, as assertions about the value
    """

    def __init__(self, values: Iterable[Any], formulas: Callable[[], Iterable[Formula]]) -> None:
        distinct = {identity(value): value for value in values if _is_text(value)}
        self.values = list(distinct.values())
        self._formulas = formulas

    @cached_property
    def formula(self) -> Formula:
        """The same as assertions, which can be negated and combined with others."""
        return disjunction(self._formulas())

    def members(self) -> Iterable[Any]:
        """No members that need to be examined: constants exist."""
        return ()

    def is_productive(self, productive: Any) -> bool:
        """Whether a text can express any of them."""
        return bool(self.values)


def identity(value: Any) -> Hashable:
    """Equal for values that are equal as JSON."""
    spend()
    if isinstance(value, dict):
        return "object", frozenset((name, identity(member)) for name, member in value.items())
    if isinstance(value, list):
        return "array", tuple(map(identity, value))
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return "number", decimal(value, "const")
    return type(value).__name__, value


def _is_text(value: Any) -> bool:
    """Whether UTF-8 can encode all strings in a value."""
    if isinstance(value, dict):
        return all(is_encodable(name) and _is_text(member) for name, member in value.items())
    if isinstance(value, list):
        return all(map(_is_text, value))
    return not isinstance(value, str) or is_encodable(value)


class _Progress(NamedTuple):
    """The constants that are still possible, by number; and the members so far, if their order is fixed."""

    possible: tuple[int, ...]
    members: int


_Member: TypeAlias = "tuple[str | int, Hashable, Any]"
"""A key or an index, what the value is equal to, and the value."""


class ListedAutomaton:
    """The automaton of listed constants. States: 0 before the value, 1 its end, 2 after its bracket.

    ordered  whether keys have the order of each constant; items always do
    """

    def __init__(self, listed: Listed, emitter: Constants, marks: Punctuation, ordered: bool) -> None:
        self._emitter = emitter
        self._marks = marks
        self._objects = isinstance(listed.values[0], dict)
        self._ordered = ordered or not self._objects
        self._constants = [_members_of(value) for value in listed.values]
        self._sets = [frozenset(member[:2] for member in members) for members in self._constants]
        self._bits: dict[str | int, int] = {}
        self._numbers: dict[_Progress, int] = {}
        self._waiting: list[_Progress] = []
        opening = marks.open_object if self._objects else marks.open_array
        self.states: list[list[Edge]] = [[Edge(opening, 2)], [Edge(ACCEPT, 1)], []]
        self._build()

    @property
    def bits(self) -> int:
        """The number of bits."""
        return len(self._bits)

    def _build(self) -> None:
        first = _Progress(tuple(range(len(self._constants))), 0)
        after = self._after(first)
        while self._waiting:
            self._fill(self._waiting.pop())
            if len(self.states) > MAX_LISTED_STATES:
                raise GrammarLimitError(f"a list of constants needs more than {MAX_LISTED_STATES} states")
            if len(self._bits) > MAX_LISTED_KEYS:
                raise GrammarLimitError(f"a list of constants has more than {MAX_LISTED_KEYS} keys")
        self.states[2] = list(self.states[after + 1])
        if any(not members for members in self._constants):
            marks = self._marks
            self.states[2].append(
                Edge(marks.close_empty_object if self._objects else marks.close_empty_array, 1)
            )

    def _after(self, progress: _Progress) -> int:
        """The state after a member; the next one is that after its comma."""
        number = self._numbers.get(progress)
        if number is None:
            number = self._numbers[progress] = len(self.states)
            self.states += [[], []]
            self._waiting.append(progress)
        return number

    def _fill(self, progress: _Progress) -> None:
        number = self._numbers[progress]
        choices = self._choices(progress)
        unused: tuple[Operation, ...] = ()
        if not self._ordered and len(progress.possible) == 1:
            unused = (clause(*((self._bit(name), False) for name in choices)),) if choices else ()
        if choices:
            self.states[number].append(Edge(self._marks.comma, number + 1, unused))
        self.states[number] += self._closing(progress)
        for name, values in choices.items():
            self.states[number + 1] += self._member(name, values, progress)

    def _choices(self, progress: _Progress) -> dict[str | int, dict[Hashable, tuple[Any, list[int]]]]:
        """The next members: for each key, for each value, the constants that have it."""
        found: dict[str | int, dict[Hashable, tuple[Any, list[int]]]] = {}
        for one in progress.possible:
            members = self._constants[one]
            if self._ordered:
                members = members[progress.members : progress.members + 1]
            spend(1 + len(members))
            for name, same, value in members:
                found.setdefault(name, {}).setdefault(same, (value, []))[1].append(one)
        return found

    def _closing(self, progress: _Progress) -> list[Edge]:
        """The end of the constant, if there is one, whose members all the others share."""
        shortest = min(progress.possible, key=lambda one: len(self._constants[one]))
        members = self._constants[shortest]
        close = self._marks.close_object if self._objects else self._marks.close_array
        if self._ordered:
            return [Edge(close, 1)] if len(members) == progress.members else []
        spend(len(progress.possible))
        own = self._sets[shortest]
        if not own or not all(own <= self._sets[one] for one in progress.possible):
            return []
        return [Edge(close, 1, tuple(clause((self._bit(name), True)) for name, *_ in members))]

    def _member(
        self, name: str | int, values: dict[Hashable, tuple[Any, list[int]]], progress: _Progress
    ) -> list[Edge]:
        """The edges of a member: from its key, or from its value in an array."""
        found = []
        for value, constants in values.values():
            members = progress.members + 1 if self._ordered else 0
            target = self._after(_Progress(tuple(constants), members))
            found += [Edge(symbol, target) for symbol in self._emitter.constant(value)]
        if isinstance(name, int):
            return found
        number = len(self.states)
        self.states += [[Edge(self._marks.colon, number + 1)], found]
        operations = () if self._ordered else (clear(self._bit(name)), set_bit(self._bit(name)))
        return [Edge(self._emitter.key(name), number, operations)]

    def _bit(self, name: str | int) -> int:
        return self._bits.setdefault(name, len(self._bits))


def _members_of(value: Any) -> Sequence[_Member]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    return [(name, identity(member), member) for name, member in pairs]
