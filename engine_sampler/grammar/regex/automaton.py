"""Automata over classes of characters, minimised and converted to automata over bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from ..program.expression import EMPTY, Expression, automaton
from ..program.reaching import nodes_reaching
from ..program.unicode import EVERY, LAST, Pieces, Ranges, byte_automaton
from ..work import spend

State: TypeAlias = "tuple[frozenset[Any], dict[int, int]]"
"""The conditions under which it accepts, and the state that each atom leads to."""

MAX_MERGED = 128
"""Equal states are merged in automata of at most this many states: the time is quadratic in their number."""

_SURROGATES = (0xD800, 0xDFFF)


class Alphabet:
    """All characters, partitioned by some sets into as few classes (atoms, counted from 0) as possible.

    size  the number of atoms
    """

    def __init__(self, sets: Iterable[Ranges]) -> None:
        distinct = list(dict.fromkeys((EVERY, *sets)))
        self._bits = {ranges: i for i, ranges in enumerate(distinct)}
        self._masks: dict[int, int] = {}
        """The atom of each mask of the sets that hold its characters."""
        self.segments: list[tuple[int, int, int]] = []
        changes: dict[int, int] = {_SURROGATES[0]: 0, _SURROGATES[1] + 1: 0, LAST + 1: 0}
        for i, ranges in enumerate(distinct):
            for first, last in ranges:
                changes[first] = changes.get(first, 0) ^ 1 << i
                changes[last + 1] = changes.get(last + 1, 0) ^ 1 << i
        mask = 0
        for first, end in pairwise(sorted(changes)):
            mask ^= changes[first]
            if first != _SURROGATES[0]:
                atom = self._masks.setdefault(mask, len(self._masks))
                self.segments.append((first, end - 1, atom))
        self.size = len(self._masks)

    def atoms(self, ranges: Ranges) -> frozenset[int]:
        """The atoms of one of the sets that the alphabet was built from."""
        bit = 1 << self._bits[ranges]
        return frozenset(atom for mask, atom in self._masks.items() if mask & bit)

    def atom_of(self, code: int) -> int:
        """The atom of a character that is not a surrogate."""
        return self.segments[bisect_right(self.segments, (code, LAST, 0)) - 1][2]

    def pieces(self, edges: dict[int, int]) -> Pieces:
        """The edges over ranges of characters for edges over atoms."""
        ranges: list[tuple[int, int, int]] = []
        spend(len(self.segments) // 4)
        for first, last, atom in self.segments:
            to = edges.get(atom)
            if to is None:
                continue
            if ranges and ranges[-1][1] == first - 1 and ranges[-1][2] == to:
                ranges[-1] = ranges[-1][0], last, to
            else:
                ranges.append((first, last, to))
        return tuple(ranges)


def expression_of(states: Sequence[State], condition: Hashable, alphabet: Alphabet) -> Expression:
    """The texts that lead from the first state to one that accepts under `condition`.

    Raises GrammarLimitError.
    """
    live = _live(states, condition)
    if 0 not in live:
        return EMPTY
    order = {old: new for new, old in enumerate(sorted(live))}
    live_states = [
        (condition in ends, {atom: order[to] for atom, to in edges.items() if to in order})
        for ends, edges in (states[old] for old in order)
    ]
    spend(30 * len(live_states))
    if len(live_states) <= MAX_MERGED:
        live_states = _merged(live_states)
    return automaton(byte_automaton(_Characters(live_states, alphabet)))


class _Characters(Sequence["tuple[bool, Pieces]"]):
    """The states with edges over characters, each computed on access: all of them together can be large."""

    def __init__(self, states: list[tuple[bool, dict[int, int]]], alphabet: Alphabet) -> None:
        self._states = states
        self._alphabet = alphabet

    def __len__(self) -> int:
        return len(self._states)

    def __getitem__(self, index: Any) -> Any:
        accepts, edges = self._states[index]
        return accepts, self._alphabet.pieces(edges)


def _live(states: Sequence[State], condition: Hashable) -> set[int]:
    """The states from which an accepting state can be reached."""
    steps = ((number, to) for number, (_, edges) in enumerate(states) for to in edges.values())
    return nodes_reaching(steps, (number for number, (ends, _) in enumerate(states) if condition in ends))


def _merged(states: list[tuple[bool, dict[int, int]]]) -> list[tuple[bool, dict[int, int]]]:
    """The same automaton with equal states merged; the first state stays the first."""
    kinds = [int(accepts) for accepts, _ in states]
    count = 0
    while count != len(set(kinds)):
        count = len(set(kinds))
        found: dict[tuple[int, frozenset[tuple[int, int]]], int] = {}
        kinds = [
            found.setdefault(
                (kinds[number], frozenset((atom, kinds[to]) for atom, to in edges.items())), len(found)
            )
            for number, (_, edges) in enumerate(states)
        ]
    first = {kind: number for number, kind in reversed(list(enumerate(kinds)))}
    return [
        (states[number][0], {atom: kinds[to] for atom, to in states[number][1].items()})
        for _, number in sorted(first.items())
    ]
