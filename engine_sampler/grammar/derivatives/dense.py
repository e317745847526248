"""Deterministic automata as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ..program.reaching import nodes_reaching
from ..work import spend_on_each

Dense: TypeAlias = tuple[tuple[bool, bytes, tuple[int, ...]], ...]
"""For each state: whether it accepts, its partition of the bytes, and for each byte the next state or -1."""


def dense_tables(states: Sequence[tuple[bool, Sequence[tuple[int, int, int]]]]) -> Dense:
    """The tables of an automaton over ranges; states that reach no accepting state are not targets."""
    tables = []
    for accepts, ranges in spend_on_each(states, 20):
        row = [-1] * 256
        for low, high, target in ranges:
            row[low : high + 1] = [target] * (high - low + 1)
        tables.append((accepts, row))
    alive = _alive(tables)
    return tuple(
        (accepts, *_compressed([target if target in alive else -1 for target in row]))
        for accepts, row in spend_on_each(tables, 30)
    )


def _alive(tables: Sequence[tuple[bool, Sequence[int]]]) -> set[int]:
    """The states from which an accepting one can be reached."""
    steps = ((state, target) for state, (_, row) in enumerate(tables) for target in set(row))
    return nodes_reaching(steps, (state for state, (accepts, _) in enumerate(tables) if accepts))


def _compressed(row: Sequence[int]) -> tuple[bytes, tuple[int, ...]]:
    """The partition of the bytes by target (see `partitions`), and the row of targets."""
    smallest = {target: row.index(target) for target in set(row)}
    return bytes(map(smallest.__getitem__, row)), tuple(row)
