"""Arrays: the constraints of one disjunct on items, and the states of the automaton that reads them.

Most arrays are a few items with their own schemas, then any number of others, which registers count. If it
matters which items satisfy something (`contains`, `uniqueItems`), the states record how many have done so;
states from which the end cannot be reached are omitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple, TypeAlias

from ...base.cached import cached_property
from ..errors import GrammarLimitError
from ..program.reaching import nodes_reaching
from ..work import spend, spend_on_each
from .formula import ALWAYS, NEVER
from .limits import MAX_ITEM_STATES

Literals: TypeAlias = frozenset[int]
Productive: TypeAlias = Callable[[Literals], bool]

_MAX_TRACKED_CONSTANTS = 6
"""Maximum number of distinct items for which states may record the used ones; beyond it, bits do."""

_FEW_WAYS = 8
"""From so many ways in which an item may change the counts, impossible ones are dropped early."""


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
    remembers  whether items must differ that are too many to list
    impossible  whether obviously nothing satisfies some literals
    """

    items: list[tuple[int, int]] = field(default_factory=list)
    rest: list[tuple[int, int]] = field(default_factory=list)
    counts: list[Counted] = field(default_factory=list)
    low: int = 0
    high: int | None = None
    distinct: tuple[int, ...] | None = None
    unlike: frozenset[int] = frozenset()
    remembers: bool = False
    impossible: Callable[[Literals], bool] = lambda literals: False

    def literals(self, index: int) -> Literals:
        """The literals that the item at an index must satisfy."""
        return self._literals[min(index, self.prefix)]

    @cached_property
    def _literals(self) -> list[Literals]:
        """The literals of each of the items that must be distinguished, and of all later ones."""
        own: list[set[int]] = [set() for _ in range(self.prefix + 1)]
        for at, literal in self.items:
            own[at].add(literal)
        beginning: dict[int, list[int]] = {}
        for at, literal in self.rest:
            beginning.setdefault(at, []).append(literal)
        later: set[int] = set()
        for index, literals in enumerate(own):
            later.update(beginning.get(index, ()))
            literals |= later
            spend(1 + len(literals) // 8)
        return [frozenset(literals - {ALWAYS}) for literals in own]

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
        for index, literals in enumerate(spend_on_each(self._literals)):
            if index == self.high or not productive(literals):
                return index
        return self.high

    def is_productive(self, productive: Productive) -> bool:
        """Whether such an array exists, given which items exist."""
        if not self.counts_by_registers:
            return any(self.accepts(state) for state, _ in self._reached(productive))
        limit = self.reachable(productive)
        if self.distinct is not None:
            kinds = [self.literals(0) | {literal} for literal in spend_on_each(self.distinct)]
            count = sum([productive(literals) for literals in kinds])
            limit = count if limit is None else min(limit, count)
        return limit is None or limit >= self.low

    def members(self) -> Iterable[Literals]:
        """The literals that its items may have to satisfy."""
        return set(self._literals)

    def states(self, productive: Productive) -> dict[ArrayState, list[Step]]:
        """All states on a path from the first state to an accepting one, the first state first.

        Empty if there is no such path.
        """
        steps = dict(self._reached(productive))
        targets = ((state, target) for state, outgoing in steps.items() for _, target in outgoing)
        alive = nodes_reaching(targets, filter(self.accepts, steps))
        return {
            state: [step for step in outgoing if step[1] in alive]
            for state, outgoing in spend_on_each(steps.items())
            if state in alive
        }

    def _reached(self, productive: Productive) -> Iterator[tuple[ArrayState, list[Step]]]:
        """All states that can be reached, the first one first, each with its steps. Raises GrammarLimitError
        if there are too many."""
        first = ArrayState(0, (0,) * len(self.counts))
        reached = {first}
        waiting = [first]
        taken = 0
        while waiting:
            state = waiting.pop()
            steps = [step for step in self._steps(state) if productive(step[0])]
            taken += len(steps)
            yield state, steps
            new = dict.fromkeys(target for _, target in steps if target not in reached)
            reached.update(new)
            waiting += reversed(new)
            if max(len(reached), taken // 8) > MAX_ITEM_STATES:
                raise GrammarLimitError(
                    f"an array of the JSON Schema needs more than {MAX_ITEM_STATES} states"
                )

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
        ways = self._ways(state)
        if self.distinct is None or state.length in self.unlike:
            kinds: list[tuple[Literals, frozenset[int]]] = [(own, state.used)]
        else:
            spend(len(self.distinct) * (1 + len(state.used) // 8))
            unused = [literal for literal in self.distinct if literal not in state.used]
            kinds = [(own | {literal}, state.used | {literal}) for literal in unused]
        for literals, used in kinds:
            for chosen, counts in spend_on_each(ways, 4):
                yield literals | chosen, ArrayState(length, counts, used)

    def _ways(self, state: ArrayState) -> list[tuple[Literals, tuple[int, ...]]]:
        """The possible effects of the next item on all counts: its literals, and the new counts."""
        ways: list[tuple[Literals, tuple[int, ...]]] = [(frozenset(), ())]
        for number in range(len(self.counts)):
            choices = self._choices(state, number)
            spend(1 + len(choices) * len(ways) * (1 + number // 16))
            ways = [
                (literals | more, (*counts, done))
                for (literals, counts), (more, done) in product(ways, choices)
            ]
            if len(ways) > _FEW_WAYS:
                ways = [way for way in ways if not self.impossible(way[0])]
        return ways

    def _choices(self, state: ArrayState, number: int) -> list[tuple[Literals, int]]:
        """The possible effects of the next item on a count: its literals, and the new count."""
        count, done = self.counts[number], state.counts[number]
        if state.length < count.start or (count.high is None and done == count.low):
            return [(frozenset(), done)]
        without = (frozenset() if count.high is None else frozenset((count.literal ^ 1,))), done
        if count.high is not None and done == count.high:
            return [without]
        return [(frozenset((count.literal,)), done + 1), without]
