"""Long lists of objects or of arrays, as in an `enum`: automata that follow all of them at once.

A state is the set of constants that the members so far belong to. A small set has no state: its constants
are followed apart, for there would be many such sets. Keys come in any order, so an object's automaton also
needs a bit for each key; in the order of the schema, and in arrays, it needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, Protocol, TypeAlias

from ...base.cached import cached_property
from ..errors import GrammarLimitError
from ..program.operations import Operation, clause, clear, set_bit
from ..program.rules import ACCEPT, Edge
from ..work import spend
from .formula import Formula, disjunction
from .layout import Punctuation
from .scalars.numbers import decimal
from .scalars.texts import is_encodable

MAX_LISTED_STATES = 100_000
"""Maximum number of states of the automaton of one list of constants."""

_FEW_STATES = 30_000
_APART = 32
"""Above this size constants share states, unless that would take more than `_FEW_STATES`."""

MAX_LISTED_KEYS = 1_000
"""Maximum number of bits for the keys of one list of objects."""

MIN_LISTED = 33
"""The length from which on a list is followed as a whole, rather than as that many alternatives."""


class Constants(Protocol):
    """What an emitter knows about keys and constants."""

    def key(self, name: str) -> int:
        """The terminal of a key."""

    def constant(self, value: Any, same: Hashable) -> tuple[int, ...]:
        """The symbols of a constant; `same` is its `identity`."""


class Listed:
    """Objects or arrays, each of which a value may equal.

    values    these by their identity, except those that no text can express
    formulas  one for each that `values` was given, as assertions about the value
    """

    def __init__(self, values: Iterable[Any], formulas: Callable[[], Iterable[Formula]]) -> None:
        self.values = {identity(value): value for value in values if _is_text(value)}
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
    """Equal for values that are equal as JSON; that of a container holds those of its members."""
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
    spend()
    if isinstance(value, dict):
        return all(is_encodable(name) and _is_text(member) for name, member in value.items())
    if isinstance(value, list):
        return all(map(_is_text, value))
    return not isinstance(value, str) or is_encodable(value)


class _Progress(NamedTuple):
    """The constants that are still possible, by number; and the members so far, if their order is fixed."""

    possible: tuple[int, ...]
    members: int


_Member: TypeAlias = "tuple[str | int, int, Any]"
"""A key or an index, the number of what the value is equal to, and the value."""

_Choices: TypeAlias = "dict[str | int, dict[int, tuple[Any, list[int]]]]"
"""For each key or index, for each number of a value, the value, and the constants that have it."""


class ListedAutomaton:
    """The automaton of listed constants. States: 0 before the value, 1 its end, 2 after its bracket.

    values   the constants, by their identity
    ordered  whether keys have the order of each constant; items always do
    """

    def __init__(
        self, values: Mapping[Hashable, Any], emitter: Constants, marks: Punctuation, ordered: bool
    ) -> None:
        self._emitter = emitter
        self._marks = marks
        self._objects = isinstance(next(iter(values.values())), dict)
        self._ordered = ordered or not self._objects
        self._identities: dict[Hashable, int] = {}
        self._constants = [self._members_of(value, same) for same, value in values.items()]
        self._by_number = list(self._identities)
        self._symbols: dict[int, tuple[int, ...]] = {}
        self._sets = [frozenset(member[:2] for member in members) for members in self._constants]
        self._bits = {} if self._ordered else _bits(self._constants)
        if not self._build(_APART, _FEW_STATES) and not self._build(len(self._constants), MAX_LISTED_STATES):
            raise GrammarLimitError(f"a list of constants needs more than {MAX_LISTED_STATES} states")

    @property
    def bits(self) -> int:
        """The number of bits."""
        return max(self._bits.values(), default=-1) + 1

    def _build(self, apart: int, max_states: int) -> bool:
        """Build the automaton; False if it has more than `max_states`. Up to `apart` constants are followed
        apart."""
        first = _Progress(tuple(range(len(self._constants))), 0)
        if self._least_states(self._choices(first), apart) > max_states:
            return False
        self._apart = apart
        self._numbers: dict[tuple[tuple[int, ...], int], int] = {}
        self._waiting: list[_Progress] = []
        opening = self._marks.open_object if self._objects else self._marks.open_array
        self.states: list[list[Edge]] = [[Edge(opening, 2)], [Edge(ACCEPT, 1)], []]
        after = self._after(*first)
        while self._waiting:
            self._fill(self._waiting.pop())
            if len(self.states) > max_states:
                return False
        self.states[2] = list(self.states[after + 1])
        if any(not members for members in self._constants):
            marks = self._marks
            self.states[2].append(
                Edge(marks.close_empty_object if self._objects else marks.close_empty_array, 1)
            )
        return True

    def _least_states(self, choices: _Choices, apart: int) -> int:
        """No more than the number of states: two for each constant, and for each of its members, if these are
        followed apart from the first member on."""
        if len(self._constants) == 1:
            return 0
        reached = {
            constant
            for values in choices.values()
            for _, constants in values.values()
            if len(constants) <= apart
            for constant in constants
        }
        return 2 * len(choices) * self._objects + 2 * sum(
            len(self._constants[constant]) for constant in reached
        )

    def _after(self, possible: tuple[int, ...], members: int) -> int:
        """The state after a member; the next one is that after its comma."""
        number = self._numbers.get((possible, members))
        if number is None:
            spend(4 + len(possible) // 16)
            number = self._numbers[possible, members] = len(self.states)
            self.states += [[], []]
            self._waiting.append(_Progress(possible, members))
        return number

    def _fill(self, progress: _Progress) -> None:
        number = self._numbers[progress]
        choices = self._choices(progress)
        unused: tuple[Operation, ...] = ()
        if not self._ordered and len(progress.possible) == 1:
            unused = (clause(*((self._bits[name], False) for name in choices)),) if choices else ()
        if choices:
            self.states[number].append(Edge(self._marks.comma, number + 1, unused))
        self.states[number] += self._closing(progress)
        for name, values in choices.items():
            self.states[number + 1] += self._member(name, values, progress)

    def _choices(self, progress: _Progress) -> _Choices:
        """The next members."""
        choices: _Choices = {}
        for constant in progress.possible:
            members = self._constants[constant]
            if self._ordered:
                members = members[progress.members : progress.members + 1]
            spend(2 + len(members))
            for name, number, value in members:
                choices.setdefault(name, {}).setdefault(number, (value, []))[1].append(constant)
        return choices

    def _closing(self, progress: _Progress) -> list[Edge]:
        """The end of the constant, if there is one, whose members all the others share."""
        shortest = min(progress.possible, key=lambda constant: len(self._constants[constant]))
        members = self._constants[shortest]
        close = self._marks.close_object if self._objects else self._marks.close_array
        if self._ordered:
            return [Edge(close, 1)] if len(members) == progress.members else []
        spend(len(progress.possible))
        own = self._sets[shortest]
        spend(len(own) // 2)
        if not own or not all(own <= self._sets[constant] for constant in progress.possible):
            return []
        return [Edge(close, 1, tuple(clause((self._bits[name], True)) for name, *_ in members))]

    def _member(
        self, name: str | int, values: Mapping[int, tuple[Any, list[int]]], progress: _Progress
    ) -> list[Edge]:
        """The edges of a member: from its key, or from its value in an array."""
        edges = []
        members = progress.members + 1 if self._ordered else 0
        for number, (value, constants) in values.items():
            apart = len(constants) <= self._apart
            sets = [(one,) for one in constants] if apart else [tuple(constants)]
            spend(2 + len(sets))
            targets = [self._after(some, members) for some in sets]
            if number not in self._symbols:
                self._symbols[number] = self._emitter.constant(value, self._by_number[number])
            edges += [Edge(symbol, target) for symbol in self._symbols[number] for target in targets]
        if isinstance(name, int):
            return edges
        state = len(self.states)
        self.states += [[Edge(self._marks.colon, state + 1)], edges]
        operations = () if self._ordered else (clear(self._bits[name]), set_bit(self._bits[name]))
        return [Edge(self._emitter.key(name), state, operations)]

    def _members_of(self, value: Any, same: Any) -> list[_Member]:
        """The members of a constant; its identity contains theirs."""
        spend(2 + 2 * len(value))
        if isinstance(value, dict):
            identities = dict(same[1])
            return [(name, self._number(identities[name]), member) for name, member in value.items()]
        members = enumerate(zip(same[1], value, strict=True))
        return [(index, self._number(identity), member) for index, (identity, member) in members]

    def _number(self, same: Hashable) -> int:
        """The number of a value, given what it is equal to."""
        return self._identities.setdefault(same, len(self._identities))


def _bits(constants: Sequence[Sequence[_Member]]) -> dict[str | int, int]:
    """A bit for each key. Keys that no constant has both of may share one: after one of them, no constant
    with the other is possible."""
    if len(constants) == 1:
        return {name: number for number, (name, *_) in enumerate(constants[0])}
    together: dict[str | int, set[str | int]] = {}
    for members in constants:
        names = [name for name, *_ in members]
        spend(len(names) + len(names) ** 2 // 16)
        for name in names:
            together.setdefault(name, set()).update(names)
    bits: dict[str | int, int] = {}
    for name, beside in together.items():
        spend(len(beside) // 8)
        taken = {bits[other] for other in beside if other in bits}
        bits[name] = next(bit for bit in range(len(taken) + 1) if bit not in taken)
    if max(bits.values(), default=0) >= MAX_LISTED_KEYS:
        raise GrammarLimitError(f"a list of constants has more than {MAX_LISTED_KEYS} keys")
    return bits
