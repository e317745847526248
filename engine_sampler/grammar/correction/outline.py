"""The outline of a grammar: a finite automaton that reads all its texts, and some others.

Of the rules it knows only which terminal may follow which. So the fewest edits that bring the rest of a
text into the outline's language can be told for every place at once (Wagner 1974), and no repair needs
fewer: that leads a search past all that only looks promising.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..derivatives.partitions import representatives
from ..engines.reference.threads import BETWEEN_TERMINALS, EarleyConfigurations
from ..program.rules import ACCEPT

Costs: TypeAlias = npt.NDArray[np.int16]

MAX_NODES = 512
"""Places of an outline; the inside of terminals that have no room is taken for any bytes."""

MAX_FOLLOWING = 300_000
"""Terminals times states of rules that are looked at to see what may follow what."""

MAX_WORK = 200_000_000
"""Pairs of places, for each character of one text, that are looked at."""

_PER_CHARACTER = 20_000
"""What else a character costs, in pairs of places."""

FAR = 10_000
"""The distance of what cannot be reached, or is farther."""

DEAD, END = 0, 1


def outline_of(threads: EarleyConfigurations, free: int) -> Outline | None:
    """The outline of a grammar; None for one that has too many terminals.

    free  a mask of the bytes that cost nothing to insert
    """
    terminals = len(threads.terminals)
    if terminals > MAX_NODES // 4 or terminals * len(threads.rows.automata.edges) > MAX_FOLLOWING:
        return None
    return Outline(threads, free)


class Outline:
    """See `outline_of`."""

    def __init__(self, threads: EarleyConfigurations, free: int) -> None:
        self._threads = threads
        self._x = threads.scans.expressions
        self._rows = [np.zeros(256, np.int16)]
        self._moves: list[tuple[int, int]] = []
        self._scans: dict[tuple[int, int], int] = {}
        self._beyond: dict[int, int] = {}
        skipped = self._bytes_of_ignored()
        self._new(skipped)
        terminals = [(t, number) for t, number in enumerate(threads.terminals) if number is not None]
        self._starts = {terminal: self._new(skipped) for terminal, _ in terminals}
        following = _Following(threads)
        for terminal, number in terminals:
            ends = self._places_of(following.of(terminal))
            self._read(terminal, number, ends)
        self._steps = np.stack(self._rows)
        self._insertions = self._distances(free)
        self._edits = np.where(self._insertions == 0, np.int16(1), self._insertions)
        self._places: dict[int, list[int]] = {}

    def _bytes_of_ignored(self) -> list[int]:
        """The bytes of ignored text: any of them may stand between terminals."""
        derivatives = self._threads.scans.derivatives
        waiting = [self._threads.terminals[terminal] or 0 for terminal in self._threads.ignored]
        seen = set(waiting)
        found: set[int] = set()
        for number in waiting:
            partition = self._x.partition[number]
            for kind in representatives(partition):
                rest = derivatives.derivative(number, kind)
                if derivatives.live(rest):
                    found.update(byte for byte in range(256) if partition[byte] == kind)
                    if rest not in seen:
                        seen.add(rest)
                        waiting.append(rest)
            if len(seen) > MAX_NODES:
                return list(range(256))
        return sorted(found)

    def _places_of(self, terminals: Iterable[int]) -> list[int]:
        """Where terminals begin, but for special ones; ACCEPT is the end."""
        starts = self._starts
        return [END if one == ACCEPT else starts[one] for one in terminals if one == ACCEPT or one in starts]

    def _new(self, staying: Iterable[int]) -> int:
        """A new place that is not left over the bytes of `staying`."""
        row = np.zeros(256, np.int16)
        row[list(staying)] = len(self._rows)
        self._rows.append(row)
        return len(self._rows) - 1

    def _read(self, terminal: int, expression: int, ends: Sequence[int]) -> None:
        """The places within a terminal, which may end at `ends`."""
        derivatives = self._threads.scans.derivatives
        waiting: list[int] = []
        self._moves.append((self._starts[terminal], self._within(terminal, expression, waiting)))
        for number in waiting:
            at = self._scans[terminal, number]
            if self._x.endings[number]:
                self._moves += [(at, end) for end in ends]
            partition = np.frombuffer(self._x.partition[number], np.uint8)
            for kind in representatives(self._x.partition[number]):
                rest = derivatives.derivative(number, kind)
                if derivatives.live(rest):
                    self._rows[at][partition == kind] = self._within(terminal, rest, waiting)
        if terminal in self._beyond:
            self._moves += [(self._beyond[terminal], end) for end in ends]

    def _within(self, terminal: int, rest: int, waiting: list[int]) -> int:
        """The place where `rest` is left of a terminal; a new one has to wait for its own bytes."""
        found = self._scans.get((terminal, rest))
        if found is None and len(self._rows) < MAX_NODES:
            found = self._scans[terminal, rest] = self._new(())
            waiting.append(rest)
        elif found is None:
            if terminal not in self._beyond:
                self._beyond[terminal] = self._new(range(256))
            found = self._beyond[terminal]
        return found

    def _distances(self, free: int) -> Costs:
        """int16 [places, places]: what it costs to insert a way from one to another (Floyd 1962)."""
        count = len(self._rows)
        distances = np.full((count, count), FAR, np.int16)
        is_free = np.array([free >> byte & 1 for byte in range(256)], bool)
        for place, row in enumerate(self._rows):
            distances[place, row] = 1
            distances[place, row[is_free]] = 0
        for place, to in self._moves:
            distances[place, to] = 0
        np.fill_diagonal(distances, 0)
        distances[:, DEAD] = distances[DEAD, :] = FAR
        for middle in range(count):
            np.minimum(distances, distances[:, middle, None] + distances[middle], out=distances)
        return distances

    def needed(self, units: Sequence[bytes]) -> list[list[int]] | None:
        """Of each rest of a text of `units`, from the whole to none, the edits that it needs from each
        place; None for a text that is too long."""
        if len(units) * (self._insertions.size + _PER_CHARACTER) > MAX_WORK:
            return None
        layer = self._insertions[:, END]
        layers = [layer.tolist()]
        for unit in reversed(units):
            kept = (self._insertions + self._before(unit, layer)).min(axis=1)
            changed = (self._edits + layer).min(axis=1)
            layer = np.minimum(np.minimum(kept, changed), np.int16(FAR))
            layers.append(layer.tolist())
        return layers[::-1]

    def _before(self, unit: bytes, layer: Costs) -> Costs:
        """What is needed before a character, given what is needed behind it."""
        for number, byte in enumerate(reversed(unit)):
            if number:
                layer = np.where(self._insertions == 0, layer, np.int16(FAR)).min(axis=1)
            layer = layer[self._steps[:, byte]]
        return layer

    def places(self, configuration: int) -> list[int]:
        """The places where a configuration may be."""
        found = self._places.get(configuration)
        if found is None:
            places: set[int] = set()
            for row, terminal, ignored, scan in self._threads.threads[configuration]:
                if terminal == BETWEEN_TERMINALS or ignored:
                    allowed = self._threads.rows.rows[row]
                    places.update(self._places_of(allowed.terminals), (END,) if allowed.accepting else ())
                else:
                    rest = self._threads.scans.pairs[scan][0]
                    places.add(self._scans.get((terminal, rest), self._beyond.get(terminal, DEAD)))
            found = self._places[configuration] = sorted(places)
        return found


class _Following:
    """Which terminals may follow which, whatever else was read before."""

    def __init__(self, threads: EarleyConfigurations) -> None:
        self._automata = threads.rows.automata
        x = threads.scans.expressions
        self._empty = {t for t, number in enumerate(threads.terminals) if number and x.endings[number]}
        self._behind: dict[int, set[int]] = {}
        for edges in self._automata.edges:
            for symbol, target, _ in edges:
                self._behind.setdefault(symbol, set()).add(target)

    def of(self, terminal: int) -> set[int]:
        """The terminals that may follow, with ACCEPT where the text may end."""
        found: set[int] = set()
        seen = set(self._behind.get(terminal, ()))
        waiting = list(seen)
        while waiting:
            state = waiting.pop()
            for symbol, target, _ in self._automata.edges[state]:
                more = self._through(state, symbol, target, found) - seen
                seen |= more
                waiting += more
        return found

    def _through(self, state: int, symbol: int, target: int, found: set[int]) -> set[int]:
        """The states that an edge leads to without reading; a terminal on it is added to `found`."""
        rule = -1 - self._automata.rule_of_state[state]
        if symbol == ACCEPT and rule != self._automata.goal:
            return self._behind.get(rule, set())
        if symbol == ACCEPT or symbol >= 0:
            found.add(symbol)
            return {target} if symbol in self._empty else set()
        return {self._automata.rules[-1 - symbol][0]}
