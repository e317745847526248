"""Arrays: what a way to be valid asks of items, and the states in which they are written.

Most arrays are a few items of their own, then any number of others: registers count those. Where it
matters which items satisfy something (`contains`, `uniqueItems`), the states say how many did so far;
states without a way to the end are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import product
from typing import Any, NamedTuple, TypeAlias

from ..errors import GrammarLimitError
from ..program.reaching import nodes_reaching
from .formula import ALWAYS, COUNT, FROM, ITEM, NEVER, SIZE, UNIQUE, Formula, counted
from .limits import MAX_ITEM_STATES
from .nodes import Expander
from .outlines import ARRAY, FALSEHOOD, NULL, NUMBER, OBJECT, STRING, TRUTH, possible_kinds, together

Literals: TypeAlias = frozenset[int]
Productive: TypeAlias = Callable[[Literals], bool]

_MAX_DISTINCT = 200
_MAX_SETS = 6
"""Up to so many different items, states may say which ones there were; else bits do."""


class Counted(NamedTuple):
    """So many items from an index on satisfy a literal."""

    start: int
    literal: int
    low: int
    high: int | None


class State(NamedTuple):
    """Where an array is: items so far (up to what matters), of each count how many, which constants."""

    length: int
    counts: tuple[int, ...] = ()
    used: frozenset[int] = frozenset()


Step: TypeAlias = "tuple[Literals, State]"


@dataclass
class ArrayShape:
    """Arrays that satisfy assertions.

    items     (index, literal): the item at the index, if there is one
    rest      (index, literal): all items from the index on
    counts    how many items satisfy something
    low, high the number of items
    distinct  literals of constants, of which each item must be another one; None if items may be equal
    """

    items: list[tuple[int, int]] = field(default_factory=list)
    rest: list[tuple[int, int]] = field(default_factory=list)
    counts: list[Counted] = field(default_factory=list)
    low: int = 0
    high: int | None = None
    distinct: tuple[int, ...] | None = None

    def literals(self, index: int) -> Literals:
        """What the item at an index must satisfy."""
        found = {literal for at, literal in self.items if at == index}
        return frozenset(found.union(literal for at, literal in self.rest if at <= index)) - {ALWAYS}

    @property
    def prefix(self) -> int:
        """How many items have to be told apart; from there on all are alike."""
        ends = [at + 1 for at, _ in self.items] + [at for at, _ in self.rest]
        return max([*ends, *(one.start for one in self.counts)], default=0)

    @property
    def counts_by_registers(self) -> bool:
        """Whether registers can do all that is asked for."""
        if self.counts:
            return False
        return self.distinct is None or (self.prefix == 0 and len(self.distinct) > _MAX_SETS)

    def reachable(self, productive: Productive) -> int | None:
        """The most items that there can be; None if there is no such bound."""
        for index in range(self.prefix + 1):
            if index == self.high or not productive(self.literals(index)):
                return index
        return self.high

    def is_productive(self, productive: Productive) -> bool:
        """Whether there is such an array, given which items there are."""
        if not self.counts_by_registers:
            return bool(self.states(productive))
        most = self.reachable(productive)
        if self.distinct is not None:
            kinds = [self.literals(0) | {literal} for literal in self.distinct]
            count = sum([productive(literals) for literals in kinds])
            most = count if most is None else min(most, count)
        return most is None or most >= self.low

    def members(self) -> Iterable[Literals]:
        """What its items may have to satisfy."""
        return {self.literals(index) for index in range(self.prefix + 1)}

    def states(self, productive: Productive) -> dict[State, list[Step]]:
        """All states that lie on a way to an end, the first one first; none if there is no such way."""
        first = State(0, (0,) * len(self.counts))
        steps: dict[State, list[Step]] = {}
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

    def accepts(self, state: State) -> bool:
        """Whether the array may end here."""
        return state.length >= self.low and all(
            done >= one.low for done, one in zip(state.counts, self.counts, strict=True)
        )

    def _steps(self, state: State) -> Iterator[Step]:
        if state.length == self.high:
            return
        limit = max(self.prefix, self.low) if self.high is None else self.high
        length = min(state.length + 1, limit)
        own = self.literals(state.length)
        if NEVER in own:
            return
        choices = [list(self._choices(state, number)) for number in range(len(self.counts))]
        if self.distinct is None:
            kinds: list[tuple[Literals, frozenset[int]]] = [(own, state.used)]
        else:
            unused = [literal for literal in self.distinct if literal not in state.used]
            kinds = [(own | {literal}, state.used | {literal}) for literal in unused]
        for literals, used in kinds:
            for choice in product(*choices):
                asked = literals.union(*(of for of, _ in choice))
                yield asked, State(length, tuple(done for _, done in choice), used)

    def _choices(self, state: State, number: int) -> Iterator[tuple[Literals, int]]:
        """What the next item may do to a count: what it must satisfy then, and the new count."""
        one, done = self.counts[number], state.counts[number]
        if state.length < one.start or (one.high is None and done == one.low):
            yield frozenset(), done
            return
        if one.high is None or done < one.high:
            yield frozenset((one.literal,)), done + 1
        yield (frozenset() if one.high is None else frozenset((one.literal ^ 1,))), done

    def _trimmed(self, steps: dict[State, list[Step]], first: State) -> dict[State, list[Step]]:
        pairs = ((state, target) for state, of in steps.items() for _, target in of)
        alive = nodes_reaching(pairs, filter(self.accepts, steps))
        if first not in alive:
            return {}
        return {
            state: [step for step in of if step[1] in alive] for state, of in steps.items() if state in alive
        }


def array_shapes(atoms: Iterable[Formula], expander: Expander) -> list[ArrayShape]:
    """The arrays of which all the assertions are true; more than one shape where two items are equal."""
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
    constants = _constants(shape, expander)
    if constants is None:
        expander.unsupported("uniqueItems", "the items are not a short list of constants")
        return [shape] if unique else []
    if unique:
        shape.distinct = constants
        return [shape]
    return [_with_count(shape, counted(0, literal, 2, None)) for literal in constants]


def _narrow(shape: ArrayShape, atom: Formula) -> None:
    shape.low = max(shape.low, atom[1])
    if atom[2] is not None:
        shape.high = atom[2] if shape.high is None else min(shape.high, atom[2])


def _with_count(shape: ArrayShape, atom: Formula) -> ArrayShape:
    counts = [*shape.counts, Counted(*atom[1:])]
    return ArrayShape(shape.items, shape.rest, counts, shape.low, shape.high)


def _constants(shape: ArrayShape, expander: Expander) -> tuple[int, ...] | None:
    """Literals of all constants that an item can be; None if they are too many to be listed."""
    found: dict[int, None] = {}
    last = shape.prefix if shape.high is None else min(shape.prefix, shape.high - 1)
    for index in range(last + 1):
        values = _finite(shape.literals(index), expander)
        if values is None or len(found) + len(values) > _MAX_DISTINCT:
            return None
        found.update((expander.scalar(value), None) for value in values)
    return tuple(found)


def _finite(literals: Literals, expander: Expander) -> list[Any] | None:
    if NEVER in literals:
        return []
    outline = together(map(expander.outline, literals))
    kinds = possible_kinds(outline)
    if kinds & (ARRAY | OBJECT) or (kinds & (STRING | NUMBER) and outline.allowed is None):
        return None
    values: list[Any] = [value for kind, value in _SINGLE.items() if kinds & kind]
    for value in outline.allowed or ():
        if kinds & (NUMBER if isinstance(value, Decimal) else STRING) and value not in outline.excluded:
            values.append(value)
    return values


_SINGLE = {NULL: None, FALSEHOOD: False, TRUTH: True}
