"""Rows of an Earley parser, which are Earley's item sets (1970), each built once.

An item is a position in a rule (see `automata`) and an origin, the row in which that rule began. A row is
the set of its items. Equal sets are the same row, so everything that follows a row is computed once, and
rows are an automaton that is built on demand. The predicted items, of rules that begin in the row itself,
are not listed one by one: they depend only on which rules these are, and are shared between rows.

A row contains no completed items, only the items that result from completing them; and the result of
completing a rule that began in an earlier row is computed once. So long lists stay cheap, including
right-recursive ones (as in Leo's algorithm, 1991).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...derivatives.limits import Meter
from .automata import Automata, Closure

Item = tuple[int, int]
"""A position in a rule, and its origin: the row in which the rule began."""

NO_ROW = -1
"""The origin of the goal."""

FINISHED: Item = (-1, NO_ROW)
"""The item of rows after which the text may end."""


class EarleyRow(NamedTuple):
    """An Earley item set: everything the rules allow at one point of a text.

    items      the items of rules that began in earlier rows
    beginning  the positions in rules that begin here: their origin is this row
    terminals  the terminals that may follow
    accepting  whether the text may end here
    """

    items: tuple[Item, ...]
    beginning: tuple[int, ...]
    terminals: frozenset[int]
    accepting: bool


class EarleyRows:
    """All rows of one set of tables; the first one is 0."""

    def __init__(self, automata: Automata, meter: Meter) -> None:
        self.automata = automata
        self._meter = meter
        self.rows: list[EarleyRow] = []
        self._numbers: dict[frozenset[Item], int] = {}
        self._after: dict[tuple[int, int], int | None] = {}
        self._without: dict[tuple[int, frozenset[int]], int] = {}
        self._completions: dict[Item, frozenset[Item]] = {}
        self._beginnings: dict[frozenset[int], tuple[int, ...]] = {}
        self._cores: dict[frozenset[int], tuple[tuple[int, ...], frozenset[int]]] = {}
        goal = automata.start(automata.goal)
        items, _ = self._close([(automata.closure(goal), NO_ROW, automata.goal)])
        self._row(items)

    def advance(self, row: int, terminal: int) -> int | None:
        """The row after a terminal, None if the terminal cannot follow."""
        key = row, terminal
        if key not in self._after:
            self._after[key] = self._advance(row, terminal)
        return self._after[key]

    def _advance(self, row: int, terminal: int) -> int | None:
        items, waiting = self._close(self._targets(row, terminal))
        for node in waiting:
            items |= self._completed(node)
        return self._row(items) if items else None

    def without(self, row: int, terminals: frozenset[int]) -> int:
        """A row after which some terminals do not follow."""
        key = row, terminals
        if key not in self._without:
            self._meter.add_state()
            known = self.rows[row]
            self.rows.append(known._replace(terminals=known.terminals - terminals))
            self._without[key] = len(self.rows) - 1
        return self._without[key]

    def _targets(self, row: int, symbol: int) -> Iterator[tuple[Closure, int, int]]:
        """The items of a row advanced over `symbol`: closure, origin, rule."""
        automata = self.automata
        items, beginning, _, _ = self.rows[row]
        for position, origin in items:
            if position >= 0:
                for target in automata.transitions(position).targets.get(symbol, ()):
                    yield automata.closure(target), origin, automata.rule_of(target)
        for position in beginning:
            for target in automata.transitions(position).targets.get(symbol, ()):
                yield automata.closure(target), row, automata.rule_of(target)

    def _close(self, closures: Iterable[tuple[Closure, int, int]]) -> tuple[set[Item], set[Item]]:
        """The items of closures, and the completions (rule, origin) that they imply."""
        items: set[Item] = set()
        completed: set[Item] = set()
        for (positions, completes), origin, rule in closures:
            self._meter.spend(1 + len(positions))
            items.update((position, origin) for position in positions)
            if completes and origin == NO_ROW:
                items.add(FINISHED)
            elif completes:
                completed.add((rule, origin))
        return items, completed

    def _completed(self, completion: Item) -> frozenset[Item]:
        """The items that result from completing a rule that began in a row: completion is (rule, origin)."""
        waiting = [completion]
        calls: dict[Item, tuple[set[Item], set[Item]]] = {}
        while waiting:
            node = waiting[-1]
            if node in self._completions:
                waiting.pop()
                continue
            if node not in calls:
                calls[node] = self._complete_within(node)
            items, outer = calls[node]
            missing = [other for other in outer if other not in self._completions]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            del calls[node]
            self._completions[node] = self._union(items, [self._completions[other] for other in outer])
        return self._completions[completion]

    def _complete_within(self, node: Item) -> tuple[set[Item], set[Item]]:
        """The items from completing a rule within its origin row, and the completions in earlier rows."""
        row = node[1]
        items: set[Item] = set()
        inner = {node}
        outer: set[Item] = set()
        unvisited = [node]
        while unvisited:
            more, completed = self._close(self._targets(row, unvisited.pop()[0]))
            items |= more
            for other in completed:
                if other[1] != row:
                    outer.add(other)
                elif other not in inner:
                    inner.add(other)
                    unvisited.append(other)
        return items, outer

    def _union(self, items: set[Item], others: list[frozenset[Item]]) -> frozenset[Item]:
        if not items and len(others) == 1:
            return others[0]
        result = frozenset(items).union(*others)
        self._meter.spend(len(result))
        return result

    def _row(self, items: set[Item]) -> int | None:
        key = frozenset(items)
        number = self._numbers.get(key)
        if number is None:
            self._meter.add_state()
            self._meter.spend(len(items))
            number = len(self.rows)
            positions = frozenset(position for position, _ in items if position >= 0)
            beginning, terminals = self._core(positions)
            self.rows.append(EarleyRow(tuple(sorted(items)), beginning, terminals, FINISHED in items))
            self._numbers[key] = number
        return number

    def _core(self, positions: frozenset[int]) -> tuple[tuple[int, ...], frozenset[int]]:
        """The positions in rules that begin here, and the terminals that may follow `positions`."""
        core = self._cores.get(positions)
        if core is None:
            rules = self._expected_rules(positions)
            beginning = self._beginnings.get(rules)
            if beginning is None:
                beginning = self._beginnings[rules] = self._beginning(rules)
            targets = (self.automata.transitions(position).targets for position in (*positions, *beginning))
            terminals = frozenset(symbol for symbols in targets for symbol in symbols if symbol >= 0)
            core = self._cores[positions] = beginning, terminals
        return core

    def _expected_rules(self, positions: Iterable[int]) -> frozenset[int]:
        targets = (self.automata.transitions(position).targets for position in positions)
        return frozenset(symbol for symbols in targets for symbol in symbols if symbol < 0)

    def _beginning(self, rules: frozenset[int]) -> tuple[int, ...]:
        """The positions in rules that begin here, including the rules that these begin with."""
        seen = set(rules)
        waiting = sorted(rules)
        positions: dict[int, None] = {}
        while waiting:
            closure = self.automata.closure(self.automata.start(waiting.pop()))
            positions.update(dict.fromkeys(closure.positions))
            new = self._expected_rules(closure.positions) - seen
            self._meter.spend(1 + len(closure.positions))
            seen |= new
            waiting += sorted(new)
        return tuple(positions)
