"""The regular approximation of a grammar: a finite automaton that accepts all its texts, and some others.

Of the rules it represents only which terminal may follow which. So the fewest edits that bring the rest of a
text into the language of the automaton can be computed for every state at once (Wagner 1974). No repair needs
fewer, so these bounds keep a search from following ways that only seem promising.
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

MAX_STATES = 512
"""The most states of an approximation; beyond them, the rest of a terminal is approximated by any bytes."""

MAX_FOLLOWING = 300_000
"""The most terminals times states of rules for which the follow sets are computed."""

MAX_WORK = 200_000_000
"""The most pairs of states, summed over the characters of one text, that are examined."""

_PER_CHARACTER = 20_000
"""The fixed cost of a character, in pairs of states."""

FAR = 10_000
"""The distance of a state that cannot be reached, or is farther away than this."""

DEAD, END = 0, 1


def approximation_of(parser: EarleyConfigurations, free: int) -> Approximation | None:
    """The approximation of a grammar; None for a grammar that has too many terminals.

    free  a mask of the bytes that cost nothing to insert
    """
    terminals = len(parser.terminals)
    if terminals > MAX_STATES // 4 or terminals * len(parser.rows.automata.edges) > MAX_FOLLOWING:
        return None
    return Approximation(parser, free)


class Approximation:
    """See `approximation_of`."""

    def __init__(self, parser: EarleyConfigurations, free: int) -> None:
        self._parser = parser
        self._expressions = parser.scans.expressions
        self._transitions = [np.zeros(256, np.int16)]
        self._empty_moves: list[tuple[int, int]] = []
        """The moves that read no byte: from state, to state."""
        self._state_of: dict[tuple[int, int], int] = {}
        self._overflow: dict[int, int] = {}
        ignored_bytes = self._ignored_bytes()
        self._new_state(ignored_bytes)
        terminals = [(t, number) for t, number in enumerate(parser.terminals) if number is not None]
        self._starts = {terminal: self._new_state(ignored_bytes) for terminal, _ in terminals}
        follow_sets = _FollowSets(parser)
        for terminal, number in terminals:
            ends = self._starts_of(follow_sets.of(terminal))
            self._read(terminal, number, ends)
        self._table = np.stack(self._transitions)
        self._insertions = self._distances(free)
        self._edits = np.where(self._insertions == 0, np.int16(1), self._insertions)
        self._states: dict[int, list[int]] = {}
        """The states of each configuration."""

    def _ignored_bytes(self) -> list[int]:
        """The bytes of ignored text: any of them may occur between terminals."""
        derivatives = self._parser.scans.derivatives
        numbers = [self._parser.terminals[terminal] or 0 for terminal in self._parser.ignored]
        seen = set(numbers)
        ignored: set[int] = set()
        for number in numbers:
            partition = self._expressions.partition[number]
            for kind in representatives(partition):
                rest = derivatives.derivative(number, kind)
                if derivatives.live(rest):
                    ignored.update(byte for byte in range(256) if partition[byte] == kind)
                    if rest not in seen:
                        seen.add(rest)
                        numbers.append(rest)
            if len(seen) > MAX_STATES:
                return list(range(256))
        return sorted(ignored)

    def _starts_of(self, terminals: Iterable[int]) -> list[int]:
        """The states where the terminals begin, except special ones; END for ACCEPT."""
        starts = self._starts
        return [END if one == ACCEPT else starts[one] for one in terminals if one == ACCEPT or one in starts]

    def _new_state(self, loops: Iterable[int]) -> int:
        """A new state with loops over the bytes of `loops`."""
        row = np.zeros(256, np.int16)
        row[list(loops)] = len(self._transitions)
        self._transitions.append(row)
        return len(self._transitions) - 1

    def _read(self, terminal: int, expression: int, ends: Sequence[int]) -> None:
        """Add the states within a terminal, which may continue at `ends`."""
        derivatives = self._parser.scans.derivatives
        within: list[int] = []
        self._empty_moves.append((self._starts[terminal], self._state_within(terminal, expression, within)))
        for number in within:
            at = self._state_of[terminal, number]
            if self._expressions.endings[number]:
                self._empty_moves += [(at, end) for end in ends]
            partition = np.frombuffer(self._expressions.partition[number], np.uint8)
            for kind in representatives(self._expressions.partition[number]):
                rest = derivatives.derivative(number, kind)
                if derivatives.live(rest):
                    self._transitions[at][partition == kind] = self._state_within(terminal, rest, within)
        if terminal in self._overflow:
            self._empty_moves += [(self._overflow[terminal], end) for end in ends]

    def _state_within(self, terminal: int, rest: int, waiting: list[int]) -> int:
        """The state where the expression `rest` is left of a terminal; a new one is added to `waiting`."""
        found = self._state_of.get((terminal, rest))
        if found is None and len(self._transitions) < MAX_STATES:
            found = self._state_of[terminal, rest] = self._new_state(())
            waiting.append(rest)
        elif found is None:
            if terminal not in self._overflow:
                self._overflow[terminal] = self._new_state(range(256))
            found = self._overflow[terminal]
        return found

    def _distances(self, free: int) -> Costs:
        """int16 [states, states]: the cost of inserting a path from one to another (Floyd 1962)."""
        count = len(self._transitions)
        distances = np.full((count, count), FAR, np.int16)
        is_free = np.array([free >> byte & 1 for byte in range(256)], bool)
        for state, row in enumerate(self._transitions):
            distances[state, row] = 1
            distances[state, row[is_free]] = 0
        for state, to in self._empty_moves:
            distances[state, to] = 0
        np.fill_diagonal(distances, 0)
        distances[:, DEAD] = distances[DEAD, :] = FAR
        for middle in range(count):
            np.minimum(distances, distances[:, middle, None] + distances[middle], out=distances)
        return distances

    def edit_bounds(self, units: Sequence[bytes]) -> list[list[int]] | None:
        """For each suffix of a text of `units`, from the whole text to the empty one, a lower bound on the
        edits that it needs from each state; None for a text that is too long."""
        if len(units) * (self._insertions.size + _PER_CHARACTER) > MAX_WORK:
            return None
        layer = self._insertions[:, END]
        layers = [layer.tolist()]
        for unit in reversed(units):
            kept = (self._insertions + self._bounds_before(unit, layer)).min(axis=1)
            changed = (self._edits + layer).min(axis=1)
            layer = np.minimum(np.minimum(kept, changed), np.int16(FAR))
            layers.append(layer.tolist())
        return layers[::-1]

    def _bounds_before(self, unit: bytes, layer: Costs) -> Costs:
        """The bounds before a character that is kept, given those after it."""
        for number, byte in enumerate(reversed(unit)):
            if number:
                layer = np.where(self._insertions == 0, layer, np.int16(FAR)).min(axis=1)
            layer = layer[self._table[:, byte]]
        return layer

    def states(self, configuration: int) -> list[int]:
        """The states that a configuration may be in."""
        found = self._states.get(configuration)
        if found is None:
            states: set[int] = set()
            for row, terminal, ignored, scan in self._parser.threads[configuration]:
                if terminal == BETWEEN_TERMINALS or ignored:
                    allowed = self._parser.rows.rows[row]
                    states.update(self._starts_of(allowed.terminals), (END,) if allowed.accepting else ())
                else:
                    rest = self._parser.scans.pairs[scan][0]
                    states.add(self._state_of.get((terminal, rest), self._overflow.get(terminal, DEAD)))
            found = self._states[configuration] = sorted(states)
        return found


class _FollowSets:
    """The terminals that may follow each terminal, whatever precedes it."""

    def __init__(self, parser: EarleyConfigurations) -> None:
        self._automata = parser.rows.automata
        expressions = parser.scans.expressions
        self._empty = {
            t for t, number in enumerate(parser.terminals) if number and expressions.endings[number]
        }
        self._after: dict[int, set[int]] = {}
        for edges in self._automata.edges:
            for symbol, target, _ in edges:
                self._after.setdefault(symbol, set()).add(target)

    def of(self, terminal: int) -> set[int]:
        """The terminals that may follow `terminal`, with ACCEPT if the text may end after it."""
        terminals: set[int] = set()
        seen = set(self._after.get(terminal, ()))
        waiting = list(seen)
        while waiting:
            state = waiting.pop()
            for symbol, target, _ in self._automata.edges[state]:
                more = self._through(state, symbol, target, terminals) - seen
                seen |= more
                waiting += more
        return terminals

    def _through(self, state: int, symbol: int, target: int, terminals: set[int]) -> set[int]:
        """The states that an edge leads to without reading a byte; adds its terminal, if any."""
        rule = -1 - self._automata.rule_of_state[state]
        if symbol == ACCEPT and rule != self._automata.goal:
            return self._after.get(rule, set())
        if symbol == ACCEPT or symbol >= 0:
            terminals.add(symbol)
            return {target} if symbol in self._empty else set()
        return {self._automata.rules[-1 - symbol][0]}
