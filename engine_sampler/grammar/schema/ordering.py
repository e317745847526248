"""Objects whose keys come in the order of the schema: named keys first, then all others in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ...base.cached import cached_property
from ..program.reaching import nodes_reaching
from ..program.rules import ACCEPT, Edge
from ..work import spend, spend_on_each
from .layout import Punctuation
from .objects import Literals, Plan, Region


class MemberWriter(Protocol):
    """How the members of objects are written; `keys` is a named key, or a region of others."""

    def opening(self, keys: str | Region) -> int:
        """The terminal with which a member begins: in JSON, its key."""

    def rest(self, keys: str | Region, literals: Literals) -> tuple[int, ...]:
        """The symbols of what may follow after the colon: in JSON, the value's alternatives."""


class _Progress(NamedTuple):
    """The members so far: the next key that may come, their count as far as it matters, the slots filled."""

    position: int = 0
    members: int = 0
    filled: frozenset[int] = frozenset()


class _Member(NamedTuple):
    keys: str | Region
    literals: Literals
    target: _Progress


class _Order:
    """The members of one plan in order. The plan has no clauses and no requirements left to decide."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._cap = plan.low if plan.high is None else plan.high
        self._names = [(name, literals, name in plan.required) for name, literals in plan.names.items()]
        self._slots = plan.slots
        self._after: dict[_Progress, Sequence[_Member]] = {}
        """The members that may follow, at each point that has been looked at."""

    @cached_property
    def _last_required(self) -> int:
        """The position of the last key that must be present; -1 if there is none."""
        return max((number for number, (*_, required) in enumerate(self._names) if required), default=-1)

    def accepts(self, at: _Progress) -> bool:
        """Whether the object may end here."""
        is_filled = len(self._slots) == len(at.filled)
        return at.members >= self._plan.low and is_filled and at.position > self._last_required

    def members(self, at: _Progress) -> Sequence[_Member]:
        """The members that may follow: where a key may be left out, all that may follow behind it, too."""
        if self._plan.high is not None and at.members == self._plan.high:
            return ()
        last, position = len(self._names), at.position
        while (
            position < last
            and not self._names[position][2]
            and at._replace(position=position) not in self._after
        ):
            position += 1
        count = min(at.members + 1, self._cap)
        for place in range(position, at.position - 1, -1):
            here = at._replace(position=place)
            if here not in self._after:
                self._after[here] = self._members_at(here, count)
        return self._after[at]

    def _members_at(self, at: _Progress, count: int) -> Sequence[_Member]:
        """The members that may follow, of which those behind the next key are known."""
        last = len(self._names)
        if at.position < last:
            name, literals, required = self._names[at.position]
            following = () if required else self._after[at._replace(position=at.position + 1)]
            spend(2 + len(following) // 2)  # they are copied
            return (_Member(name, literals, _Progress(at.position + 1, count, at.filled)), *following)
        regions = (
            _Member(region, region.literals, _Progress(last, count, at.filled))
            for region in self._plan.regions
        )
        slots = (
            _Member(slot, slot.literals, _Progress(last, count, at.filled | {number}))
            for number, slot in enumerate(self._slots)
            if number not in at.filled
        )
        return (*regions, *slots)

    def states(self) -> dict[_Progress, Sequence[_Member]]:
        """All states on a path to the end of an object, the first one first."""
        first = _Progress()
        states: dict[_Progress, Sequence[_Member]] = {}
        waiting = [first]
        while waiting:
            state = waiting.pop()
            if state not in states:
                spend(5)
                states[state] = self.members(state)
                waiting += [member.target for member in states[state] if member.target not in states]
        if not (self._slots or self._plan.low or self._plan.high is not None):
            return states  # all of them are
        steps = ((state, member.target) for state, members in states.items() for member in members)
        alive = nodes_reaching(steps, filter(self.accepts, states))
        return {
            state: [member for member in members if member.target in alive]
            for state, members in spend_on_each(states.items(), 2)
            if state in alive or state == first
        }


def ordered_object(writer: MemberWriter, marks: Punctuation, plan: Plan) -> list[list[Edge]]:
    """The automaton of an object: 0 before it, 1 its end, 2 after its brace; then one state after each member
    and one after its comma, and two for each kind of value before them."""
    order = _Order(plan)
    states_of_order = order.states()
    after = {state: 3 + 2 * number for number, state in enumerate(states_of_order)}
    states: list[list[Edge]] = [
        [Edge(marks.open_object, 2)],
        [Edge(ACCEPT, 1)],
        *([] for _ in range(1 + 2 * len(states_of_order))),
    ]
    values: dict[tuple[tuple[int, ...], int], int] = {}
    known: dict[int, Edge] = {}
    """The edges of members, which states share."""

    def member(entry: _Member) -> Edge:
        symbols, target = writer.rest(entry.keys, entry.literals), after[entry.target]
        number = values.get((symbols, target))
        if number is None:
            number = values[symbols, target] = len(states)
            states.append([Edge(marks.colon, number + 1)])
            states.append([Edge(symbol, target) for symbol in symbols])
        known[id(entry)] = edge = Edge(writer.opening(entry.keys), number)
        return edge

    for state, members in states_of_order.items():
        number = after[state]
        spend(5 + 3 * len(members))
        edges = [known.get(id(entry)) or member(entry) for entry in members]
        states[number + 1] = edges
        if edges:
            states[number].append(Edge(marks.comma, number + 1))
        if order.accepts(state):
            states[number].append(Edge(marks.close_object, 1))
    first = next(iter(states_of_order))
    states[2] = list(states[after[first] + 1])
    if order.accepts(first):
        states[2].append(Edge(marks.close_empty_object, 1))
    return states
