"""Rows of an Earley parser (Earley 1970), each made once: what the rules allow at one place of a text.

An item is a place of a rule (see automata.py) and the row where that rule began. A row is the set of its
items; equal sets are the same row, so that whatever follows is found once and rows are a lazily made
automaton. Items of rules that begin in the row itself are not listed one by one: they depend only on
which rules those are, and are shared.

Finished items leave no trace but what their completion brings, and what completing a rule of an earlier
row brings is found once: long lists stay cheap, also right-recursive ones (as Leo's did, 1991).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...derivatives.limits import Meter
from .automata import Automata, Landing

Item = tuple[int, int]
"""A place, and the row of its origin."""

NOWHERE = -1
"""The origin of the goal."""

FINISHED: Item = (-1, NOWHERE)
"""The item that says: the text may end here."""


class Row(NamedTuple):
    """What the rules allow at one place of a text.

    items      the places and origins, of rules that began before
    beginning  the places of rules that begin here
    terminals  the terminals that may come
    accepting  whether the text may end here
    """

    items: tuple[Item, ...]
    beginning: tuple[int, ...]
    terminals: frozenset[int]
    accepting: bool


class Rows:
    """All rows of one set of tables; the first one is 0."""

    def __init__(self, automata: Automata, meter: Meter) -> None:
        self.automata = automata
        self._meter = meter
        self.rows: list[Row] = []
        self._numbers: dict[frozenset[Item], int] = {}
        self._after: dict[tuple[int, int], int | None] = {}
        self._completions: dict[Item, frozenset[Item]] = {}
        self._beginnings: dict[frozenset[int], tuple[int, ...]] = {}
        self._cores: dict[frozenset[int], tuple[tuple[int, ...], frozenset[int]]] = {}
        goal = automata.start(automata.goal)
        items, _ = self._close([(automata.landing(goal), NOWHERE, automata.goal)])
        self._row(items)

    def advance(self, row: int, terminal: int) -> int | None:
        """The row behind a terminal, None if it cannot come or leads nowhere."""
        key = row, terminal
        if key not in self._after:
            self._after[key] = self._advance(row, terminal)
        return self._after[key]

    def _advance(self, row: int, terminal: int) -> int | None:
        items, waiting = self._close(self._behind(row, terminal))
        for node in waiting:
            items |= self._completed(node)
        return self._row(items) if items else None

    def _behind(self, row: int, symbol: int) -> Iterator[tuple[Landing, int, int]]:
        """Where the items of a row that wait for `symbol` lead: landing, origin, rule."""
        automata = self.automata
        items, beginning, _, _ = self.rows[row]
        for place, origin in items:
            if place >= 0:
                for target in automata.offer(place).leads.get(symbol, ()):
                    yield automata.landing(target), origin, automata.rule_of(target)
        for place in beginning:
            for target in automata.offer(place).leads.get(symbol, ()):
                yield automata.landing(target), row, automata.rule_of(target)

    def _close(self, landings: Iterable[tuple[Landing, int, int]]) -> tuple[set[Item], set[Item]]:
        """The items of landings, and the completions (rule, origin) that they call for."""
        items: set[Item] = set()
        completed: set[Item] = set()
        for (places, completes), origin, rule in landings:
            self._meter.spend(1 + len(places))
            items.update((place, origin) for place in places)
            if completes and origin == NOWHERE:
                items.add(FINISHED)
            elif completes:
                completed.add((rule, origin))
        return items, completed

    def _completed(self, wanted: Item) -> frozenset[Item]:
        """The items that a rule brings that began in a row and is complete later."""
        waiting = [wanted]
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
            self._completions[node] = self._united(items, [self._completions[other] for other in outer])
        return self._completions[wanted]

    def _complete_within(self, node: Item) -> tuple[set[Item], set[Item]]:
        """What the completion of a rule brings in its own row, and the completions in earlier ones."""
        row = node[1]
        items: set[Item] = set()
        inner = {node}
        outer: set[Item] = set()
        waiting = [node]
        while waiting:
            more, completed = self._close(self._behind(row, waiting.pop()[0]))
            items |= more
            for other in completed:
                if other[1] != row:
                    outer.add(other)
                elif other not in inner:
                    inner.add(other)
                    waiting.append(other)
        return items, outer

    def _united(self, items: set[Item], others: list[frozenset[Item]]) -> frozenset[Item]:
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
            places = frozenset(place for place, _ in items if place >= 0)
            beginning, terminals = self._core(places)
            self.rows.append(Row(tuple(sorted(items)), beginning, terminals, FINISHED in items))
            self._numbers[key] = number
        return number

    def _core(self, places: frozenset[int]) -> tuple[tuple[int, ...], frozenset[int]]:
        """The places of rules that begin, and the terminals that may come, where `places` are offered."""
        found = self._cores.get(places)
        if found is None:
            rules = self._expected_rules(places)
            beginning = self._beginnings.get(rules)
            if beginning is None:
                beginning = self._beginnings[rules] = self._beginning(rules)
            leads = (self.automata.offer(place).leads for place in (*places, *beginning))
            terminals = frozenset(symbol for lead in leads for symbol in lead if symbol >= 0)
            found = self._cores[places] = beginning, terminals
        return found

    def _expected_rules(self, places: Iterable[int]) -> frozenset[int]:
        leads = (self.automata.offer(place).leads for place in places)
        return frozenset(symbol for lead in leads for symbol in lead if symbol < 0)

    def _beginning(self, rules: frozenset[int]) -> tuple[int, ...]:
        """The places of rules that begin, with those of the rules that these begin with."""
        seen = set(rules)
        waiting = sorted(rules)
        places: dict[int, None] = {}
        while waiting:
            landing = self.automata.landing(self.automata.start(waiting.pop()))
            places.update(dict.fromkeys(landing.places))
            new = self._expected_rules(landing.places) - seen
            self._meter.spend(1 + len(landing.places))
            seen |= new
            waiting += sorted(new)
        return tuple(places)
