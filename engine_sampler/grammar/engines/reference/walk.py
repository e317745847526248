"""Walking the tokens' tree with states: level by level, all nodes of a level at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from .trie import Ints, Trie

UNKNOWN = -1
GONE = 0
"""The state (also the local one) from which nothing is read."""


class Level(NamedTuple):
    """The living nodes of one level, each with its state; a node may come with several states."""

    nodes: Ints
    states: Ints


class _Steps:
    """Steps that are asked for once: states are numbered anew, so that a table is small and dense."""

    def __init__(self, step: Callable[[int, int], int]) -> None:
        self._step = step
        self._local = {GONE: GONE}
        self._states = [GONE]
        self._table = np.full((16, 256), UNKNOWN, np.int64)

    def local(self, state: int) -> int:
        """The number of a state in this walk."""
        number = self._local.get(state)
        if number is None:
            number = self._local[state] = len(self._states)
            self._states.append(state)
            if number == len(self._table):
                self._table = np.concatenate((self._table, np.full_like(self._table, UNKNOWN)))
        return number

    def states(self) -> Ints:
        """Of each number its state."""
        return np.array(self._states)

    def take(self, states: Ints, values: Ints) -> Ints:
        """The states (as numbers of this walk) behind `values`, a byte each."""
        following = self._table[states, values]
        unknown = following == UNKNOWN
        if unknown.any():
            for key in np.unique(states[unknown] << 8 | values[unknown]).tolist():
                behind = self.local(self._step(self._states[key >> 8], key & 255))
                self._table[key >> 8, key & 255] = behind
            following = self._table[states, values]
        return following


def walk(trie: Trie, nodes: Ints, states: Ints, step: Callable[[int, int], int]) -> Iterator[Level]:
    """Read on from `nodes`, where the text is in `states`, to all nodes below that can be reached.

    The seeds themselves are part of what is given. `step(state, byte)` gives the state behind a byte.
    """
    steps = _Steps(step)
    kinds, which = np.unique(states, return_inverse=True)
    seeds = np.array([steps.local(kind) for kind in kinds.tolist()], np.int64)[which]
    depths = np.searchsorted(trie.level_starts, nodes, side="right")
    here = Level(nodes[:0], seeds[:0])
    for depth in range(int(depths.min(initial=len(trie.level_starts))), len(trie.level_starts)):
        if (new := depths == depth).any():
            here = _united(here, Level(nodes[new], seeds[new]))
        elif not len(here.nodes) and not (depths > depth).any():
            break
        yield Level(here.nodes, steps.states()[here.states])
        below, owners = trie.children(here.nodes)
        behind = steps.take(here.states[owners], trie.byte[below].astype(np.int64))
        alive = behind != GONE
        here = Level(below[alive], behind[alive])


def _united(one: Level, other: Level) -> Level:
    """Two levels as one, without doubles."""
    if not len(one.nodes):
        return other
    keys = np.unique(np.concatenate((one.nodes << 32 | one.states, other.nodes << 32 | other.states)))
    return Level(keys >> 32, keys & 0xFFFFFFFF)
