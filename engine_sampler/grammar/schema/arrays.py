"""Arrays: the constraints of one disjunct on items, and the states of the automaton that reads them.

Most arrays are a few items with their own schemas, then any number of others, which registers count. If it
matters which items satisfy something (`contains`, `uniqueItems`), the states record how many have done so;
states from which the end cannot be reached are omitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import product
from typing import Any, NamedTuple, TypeAlias

from ...base.cached import cached_property
from ..errors import GrammarLimitError
from ..program.reaching import nodes_reaching
from .formula import ALWAYS, COUNT, FROM, ITEM, NEVER, SIZE, UNIQUE, Formula, counted
from .limits import MAX_ITEM_STATES
from .nodes import Expander
from .numbers import whole_numbers
from .outlines import (
    ARRAY,
    FALSEHOOD,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    TRUTH,
    outline_intersection,
    possible_kinds,
)

Literals: TypeAlias = frozenset[int]
Productive: TypeAlias = Callable[[Literals], bool]

_MAX_DISTINCT = 1000
"""Maximum number of constants that are listed as the items of an array without duplicates, ..."""

_MAX_REPEATED = 200
"""... and of an array that must have some."""

_MAX_TRACKED_CONSTANTS = 6
"""Maximum number of distinct items for which states may record the used ones; beyond it, bits do."""


class Counted(NamedTuple):
    """`low` to `high` of the items from index `start` on satisfy a literal."""

    start: int
    literal: int
    low: int
    high: int | None


class ArrayState(NamedTuple):
    """The progress within an array.

    length  items so far, saturated at the largest number that matters
    counts  for each `Counted`, how many items have satisfied it
    used    the literals of constants that have occurred
    """

    length: int
    counts: tuple[int, ...] = ()
    used: frozenset[int] = frozenset()


Step: TypeAlias = "tuple[Literals, ArrayState]"


@dataclass
class ArrayShape:
    """Arrays that satisfy assertions.

    items      (index, literal): the item at the index, if there is one
    rest       (index, literal): all items from the index on
    counts     bounds on how many items satisfy a literal
    low, high  bounds on the number of items
    distinct   literals of constants; each item must be a different one of them; None if items may be equal
    unlike     indexes of items that differ from all others by their types, whatever these are
    """

    items: list[tuple[int, int]] = field(default_factory=list)
    rest: list[tuple[int, int]] = field(default_factory=list)
    counts: list[Counted] = field(default_factory=list)
    low: int = 0
    high: int | None = None
    distinct: tuple[int, ...] | None = None
    unlike: frozenset[int] = frozenset()

    def literals(self, index: int) -> Literals:
        """The literals that the item at an index must satisfy."""
        found = {literal for at, literal in self.items if at == index}
        return frozenset(found.union(literal for at, literal in self.rest if at <= index)) - {ALWAYS}

    @cached_property
    def prefix(self) -> int:
        """The number of leading items that must be distinguished; all later items are alike."""
        ends = [at + 1 for at, _ in self.items] + [at for at, _ in self.rest]
        return max([*ends, *(one.start for one in self.counts)], default=0)

    @property
    def counts_by_registers(self) -> bool:
        """Whether registers can enforce all constraints."""
        if self.counts:
            return False
        return self.distinct is None or (self.prefix == 0 and len(self.distinct) > _MAX_TRACKED_CONSTANTS)

    def reachable(self, productive: Productive) -> int | None:
        """The maximum number of items; None if it is unbounded."""
        for index in range(self.prefix + 1):
            if index == self.high or not productive(self.literals(index)):
                return index
        return self.high

    def is_productive(self, productive: Productive) -> bool:
        """Whether such an array exists, given which items exist."""
        if not self.counts_by_registers:
            return bool(self.states(productive))
        limit = self.reachable(productive)
        if self.distinct is not None:
            kinds = [self.literals(0) | {literal} for literal in self.distinct]
            count = sum([productive(literals) for literals in kinds])
            limit = count if limit is None else min(limit, count)
        return limit is None or limit >= self.low

    def members(self) -> Iterable[Literals]:
        """The literals that its items may have to satisfy."""
        return {self.literals(index) for index in range(self.prefix + 1)}

    def states(self, productive: Productive) -> dict[ArrayState, list[Step]]:
        """All states on a path from the first state to an accepting one, the first state first.

        Empty if there is no such path.
        """
        first = ArrayState(0, (0,) * len(self.counts))
        steps: dict[ArrayState, list[Step]] = {}
        waiting = [first]
        taken = 0
        while waiting:
            state = waiting.pop()
            if state in steps:
                continue
            if max(len(steps), taken // 8) > MAX_ITEM_STATES:
                raise GrammarLimitError(
                    f"an array of the JSON Schema needs more than {MAX_ITEM_STATES} states"
                )
            steps[state] = [step for step in self._steps(state) if productive(step[0])]
            taken += len(steps[state])
            waiting += [target for _, target in steps[state]]
        return self._trimmed(steps, first)

    def accepts(self, state: ArrayState) -> bool:
        """Whether the array may end here."""
        return state.length >= self.low and all(
            done >= one.low for done, one in zip(state.counts, self.counts, strict=True)
        )

    def _steps(self, state: ArrayState) -> Iterator[Step]:
        if state.length == self.high:
            return
        limit = max(self.prefix, self.low) if self.high is None else self.high
        length = min(state.length + 1, limit)
        own = self.literals(state.length)
        if NEVER in own:
            return
        choices = [list(self._choices(state, number)) for number in range(len(self.counts))]
        if self.distinct is None or state.length in self.unlike:
            kinds: list[tuple[Literals, frozenset[int]]] = [(own, state.used)]
        else:
            unused = [literal for literal in self.distinct if literal not in state.used]
            kinds = [(own | {literal}, state.used | {literal}) for literal in unused]
        for literals, used in kinds:
            for choice in product(*choices):
                needed = literals.union(*(chosen for chosen, _ in choice))
                yield needed, ArrayState(length, tuple(done for _, done in choice), used)

    def _choices(self, state: ArrayState, number: int) -> Iterator[tuple[Literals, int]]:
        """The possible effects of the next item on a count: its literals, and the new count."""
        one, done = self.counts[number], state.counts[number]
        if state.length < one.start or (one.high is None and done == one.low):
            yield frozenset(), done
            return
        if one.high is None or done < one.high:
            yield frozenset((one.literal,)), done + 1
        yield (frozenset() if one.high is None else frozenset((one.literal ^ 1,))), done

    def _trimmed(
        self, steps: dict[ArrayState, list[Step]], first: ArrayState
    ) -> dict[ArrayState, list[Step]]:
        pairs = ((state, target) for state, outgoing in steps.items() for _, target in outgoing)
        alive = nodes_reaching(pairs, filter(self.accepts, steps))
        if first not in alive:
            return {}
        return {
            state: [step for step in outgoing if step[1] in alive]
            for state, outgoing in steps.items()
            if state in alive
        }


def array_shapes(atoms: Iterable[Formula], expander: Expander) -> list[ArrayShape]:
    """The arrays that satisfy all the assertions; several shapes if two items are required to be equal."""
    shape = ArrayShape()
    unique: bool | None = None
    for atom in atoms:
        kind = atom[0]
        if kind == ITEM:
            shape.items.append(atom[1:])
        elif kind == FROM:
            shape.rest.append(atom[1:])
        elif kind == COUNT:
            shape.counts.append(Counted(*atom[1:]))
        elif kind == SIZE:
            _narrow(shape, atom)
        elif kind == UNIQUE:
            if unique not in (None, atom[1]):
                return []
            unique = atom[1]
    if shape.high is not None and shape.low > shape.high:
        return []
    if unique is None or (unique and shape.high is not None and shape.high <= 1):
        return [shape]
    constants = _constants(shape, expander, unique)
    if constants is None:
        expander.unsupported("uniqueItems", "the items are not a short list of constants")
        return [shape] if unique else []
    if unique:
        shape.distinct = constants or None
        return [shape]
    return [_with_count(shape, counted(0, literal, 2, None)) for literal in constants]


def _narrow(shape: ArrayShape, atom: Formula) -> None:
    shape.low = max(shape.low, atom[1])
    if atom[2] is not None:
        shape.high = atom[2] if shape.high is None else min(shape.high, atom[2])


def _with_count(shape: ArrayShape, atom: Formula) -> ArrayShape:
    counts = [*shape.counts, Counted(*atom[1:])]
    return ArrayShape(shape.items, shape.rest, counts, shape.low, shape.high)


def _constants(shape: ArrayShape, expander: Expander, unique: bool) -> tuple[int, ...] | None:
    """The literals of all constants that an item can be, except those of `unlike` items, which are found if
    `unique`; None if there are too many to list."""
    found: dict[int, None] = {}
    last = shape.prefix if shape.high is None else min(shape.prefix, shape.high - 1)
    if unique:
        shape.unlike = _unlike(shape, expander, last)
    for index in range(last + 1):
        if index in shape.unlike:
            continue
        values = _finite(shape.literals(index), expander)
        if values is None or len(found) + len(values) > (_MAX_DISTINCT if unique else _MAX_REPEATED):
            return None
        found.update((expander.scalar(value), None) for value in values)
    return tuple(found)


def _unlike(shape: ArrayShape, expander: Expander, last: int) -> frozenset[int]:
    """The indexes of items whose types no other item has; that of the last ones only if there is but one."""
    kinds = [
        possible_kinds(outline_intersection(map(expander.outline, shape.literals(index))))
        for index in range(last + 1)
    ]
    taken = 0
    shared = 0
    for kind in kinds:
        shared |= taken & kind
        taken |= kind
    single = last + 1 if shape.high == last + 1 else last
    return frozenset(index for index in range(single) if not kinds[index] & shared)


def _finite(literals: Literals, expander: Expander) -> list[Any] | None:
    if NEVER in literals:
        return []
    outline = outline_intersection(map(expander.outline, literals))
    kinds = possible_kinds(outline)
    allowed: Iterable[Any] | None = outline.allowed
    if allowed is None and kinds & (STRING | NUMBER) == NUMBER:
        allowed = whole_numbers(expander.formula(literal, NUMBER) for literal in literals)
    if kinds & (ARRAY | OBJECT) or (kinds & (STRING | NUMBER) and allowed is None):
        return None
    values: list[Any] = [value for kind, value in _CONSTANT_VALUES.items() if kinds & kind]
    for value in allowed or ():
        if kinds & (NUMBER if isinstance(value, Decimal) else STRING) and value not in outline.excluded:
            values.append(value)
    return values


_CONSTANT_VALUES = {NULL: None, FALSEHOOD: False, TRUTH: True}
