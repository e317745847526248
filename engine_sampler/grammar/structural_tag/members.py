"""The members of an object that is not written as JSON: which may follow which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..program.rules import ACCEPT, Edge, Rules, clause, clear, set_bit
from ..work import spend


class Member(NamedTuple):
    """A member of an object.

    opening   the terminal with which it begins; members may have equal ones
    rest      the symbol of what follows
    required  whether the object must have it
    """

    opening: int
    rest: int
    required: bool = False


class Separators(NamedTuple):
    """What stands between members.

    separator  the terminal between two of them; None: nothing
    end        the terminal after the last one, white space perhaps; None: nothing
    """

    separator: int | None = None
    end: int | None = None


def add_members(
    rules: Rules, members: Sequence[Member], others: Sequence[Member], layout: Separators, *, in_order: bool
) -> int:
    """The symbol of an object's members, each at most once, all required ones, and any number of others.

    in_order  whether they come in the order of `members`, the others last
    """
    symbol = rules.rule("members")
    automaton = _Members(members, others, layout)
    states = automaton.in_order() if in_order else automaton.in_any_order()
    rules.define_automaton(symbol, states, 0 if in_order else len(members))
    return symbol


class _Members:
    def __init__(self, members: Sequence[Member], others: Sequence[Member], layout: Separators) -> None:
        self._members, self._others, self._layout = members, others, layout
        self._states: list[list[Edge]] = []

    def _state(self) -> int:
        self._states.append([])
        return len(self._states) - 1

    def _add(self, source: int, member: Member, target: int, *operations: tuple[int, ...]) -> None:
        """A path from `source` to `target` over a member."""
        spend(3)
        inside = self._state()
        self._states[source].append(Edge(member.opening, inside, operations))
        self._states[inside].append(Edge(member.rest, target))

    def _end(self, source: int, *operations: tuple[int, ...]) -> None:
        """The end of the object in `source`."""
        if self._layout.end is None:
            self._states[source].append(Edge(ACCEPT, source, operations))
            return
        end = self._state()
        self._states[source].append(Edge(self._layout.end, end, operations))
        self._states[end].append(Edge(ACCEPT, end))

    def in_any_order(self) -> list[list[Edge]]:
        """The automaton with one bit for each member."""
        separator = self._layout.separator
        first = self._state()
        after = first if separator is None else self._state()
        sources = [first]
        if separator is not None:
            sources.append(self._state())
            free = () if self._others else (clause(*((bit, False) for bit in range(len(self._members)))),)
            if self._others or self._members:
                self._states[after].append(Edge(separator, sources[1], free))
        required = [clause((bit, True)) for bit, member in enumerate(self._members) if member.required]
        for source in sources:
            for bit, member in enumerate(self._members):
                self._add(source, member, after, clear(bit), set_bit(bit))
            for other in self._others:
                self._add(source, other, after)
        for state in dict.fromkeys((first, after)):
            self._end(state, *required)
        return self._states

    def in_order(self) -> list[list[Edge]]:
        """The automaton with two states for each member: before it, and before the separator before it."""
        separator, last = self._layout.separator, len(self._members)
        begin = [self._state() for _ in range(last + 1)]
        after = begin if separator is None else [self._state() for _ in range(last + 1)]
        for position in range(last + 1):
            rest = self._members[position:]
            until = next((n + 1 for n, member in enumerate(rest) if member.required), len(rest))
            for number, member in enumerate(rest[:until]):
                self._add(begin[position], member, after[position + number + 1])
            is_free = not any(member.required for member in rest)
            for other in self._others if is_free else ():
                self._add(begin[position], other, after[last])
            if is_free:
                self._end(begin[position] if position == 0 or separator is None else after[position])
                if position == 0 and separator is not None:
                    self._end(after[0])
            if separator is not None and (rest or self._others):
                self._states[after[position]].append(Edge(separator, begin[position]))
        return self._states
