"""Traversal of the token trie with states: level by level, all nodes of a level at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from .vocabulary import Ints, Trie

UNKNOWN = -1
"""A transition that has not been computed."""

DEAD = 0
"""The state from which nothing can be read; its local number is 0 too."""


class Level(NamedTuple):
    """The reachable nodes of one level, each with its state; a node may occur with several states."""

    nodes: Ints
    states: Ints


class _Transitions:
    """A table of transitions, each computed once; local numbers of states keep it small and dense."""

    def __init__(self, step: Callable[[int, int], int]) -> None:
        self._step = step
        self._local = {DEAD: DEAD}
        self._states = [DEAD]
        self._table = np.full((16, 256), UNKNOWN, np.int64)

    def local(self, state: int) -> int:
        """The local number of a state."""
        number = self._local.get(state)
        if number is None:
            number = len(self._states)
            if number == len(self._table):
                self._table = np.concatenate((self._table, np.full_like(self._table, UNKNOWN)))
            self._states.append(state)  # first, in case of an interruption
            self._local[state] = number
        return number

    def states(self) -> Ints:
        """The state of each local number."""
        return np.array(self._states)

    def take(self, states: Ints, values: Ints) -> Ints:
        """The states after a byte each, `values`; both as local numbers."""
        following = self._table[states, values]
        unknown = following == UNKNOWN
        if unknown.any():
            for key in np.unique(states[unknown] << 8 | values[unknown]).tolist():
                after = self.local(self._step(self._states[key >> 8], key & 255))
                self._table[key >> 8, key & 255] = after
            following = self._table[states, values]
        return following


def traverse(trie: Trie, nodes: Ints, states: Ints, step: Callable[[int, int], int]) -> Iterator[Level]:
    """The levels of the trie below `nodes`, with the states reached from `states` by reading their bytes.

    `step(state, byte)` returns the state after a byte; nodes in the state DEAD are dropped. The levels
    include `nodes` themselves.
    """
    transitions = _Transitions(step)
    distinct, which = np.unique(states, return_inverse=True)
    seeds = np.array([transitions.local(state) for state in distinct.tolist()], np.int64)[which]
    depths = np.searchsorted(trie.level_starts, nodes, side="right")
    level = Level(nodes[:0], seeds[:0])
    for depth in range(int(depths.min(initial=len(trie.level_starts))), len(trie.level_starts)):
        if (new := depths == depth).any():
            level = _merged(level, Level(nodes[new], seeds[new]))
        elif not len(level.nodes) and not (depths > depth).any():
            break
        yield Level(level.nodes, transitions.states()[level.states])
        children, owners = trie.children(level.nodes)
        after = transitions.take(level.states[owners], trie.byte[children].astype(np.int64))
        alive = after != DEAD
        level = Level(children[alive], after[alive])


def _merged(one: Level, other: Level) -> Level:
    """Two levels as one, without duplicates."""
    if not len(one.nodes):
        return other
    keys = np.unique(np.concatenate((one.nodes << 32 | one.states, other.nodes << 32 | other.states)))
    return Level(keys >> 32, keys & 0xFFFFFFFF)
