"""One derivation of a text, out of all those in its chart: where its captured rules begin and end.

A rule is walked from its beginning; of the symbols that may come next, the one that reaches farthest is
taken. A rule that consists of itself alone, in however many steps, is one that was completed before: so a
derivation ends, and each rule that was completed has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..steps import Steps
from .chart import Chart, Moves, Next
from .expectations import Expectations

_Node = tuple[int, int]
"""A position in a rule, and the place that it has come to."""

_Ways = dict[_Node, list[tuple[int, _Node]]]
"""From each node the symbols that may come next, each with the node after it."""


class SymbolSpan(NamedTuple):
    """A symbol of a text, from place `start` up to `end`."""

    symbol: int
    start: int
    end: int


class Derivation:
    """Reads the derivation of a text from its chart."""

    def __init__(self, chart: Chart, moves: Moves, expected: Expectations, steps: Steps) -> None:
        self._chart = chart
        self._moves = moves
        self._automata = moves.automata
        self._expected = expected
        self._steps = steps

    def whole(self) -> Iterator[SymbolSpan]:
        """The relevant rules of a text of the language, outer ones first."""
        yield from self.within([SymbolSpan(self._automata.goal, 0, len(self._chart.completed) - 1)])

    def begun(self, following: Next) -> Iterator[SymbolSpan]:
        """The relevant rules that have ended in the beginning of a text, before some terminals."""
        end = len(self._chart.completed) - 1
        for position, origin in self._chart.items[end]:
            targets = self._moves.targets(position)
            if not targets.keys().isdisjoint(following) or (not following and max(targets, default=-1) >= 0):
                for rule, begin, at, reached in self._open_rules(position, origin, end):
                    yield from self.within(self._path(rule, begin, reached, [at]))
                return

    def _open_rules(self, position: int, origin: int, end: int) -> list[tuple[int, int, int, int]]:
        """The rules that are open at an item, the outermost first: with where each began, its position, and
        the place that it has come to."""
        goal = self._automata.goal
        rule = self._automata.rule_of(position)
        inner: dict[tuple[int, int], tuple[int, int, int, int]] = {}
        queue = [(rule, origin)]
        seen = set(queue)
        opened = {queue[0]: (rule, origin, position, end)}
        for node in queue:
            if node == (goal, 0):
                break
            rule, begin = node
            for at, outer_begin in self._chart.waiting[begin].get(rule, ()):
                self._steps.spend()
                outer = self._automata.rule_of(at), outer_begin
                if outer not in seen:
                    seen.add(outer)
                    queue.append(outer)
                    inner[outer] = opened[node]
                    opened[outer] = (*outer, at, begin)
        node, open_rules = (goal, 0), []
        while node in opened:
            open_rules.append(opened[node])
            if node not in inner:
                break
            node = inner[node][:2]
        return open_rules

    def within(self, parts: list[SymbolSpan]) -> Iterator[SymbolSpan]:
        """The relevant rules among parts and within them, outer ones first."""
        waiting = self._relevant(parts)
        while waiting:
            part = waiting.pop()
            yield part
            rule, start, end = part
            completed = self._chart.completed[end][rule, start]
            waiting += self._relevant(self._path(rule, start, end, completed.positions, completed.number))

    def _relevant(self, parts: list[SymbolSpan]) -> list[SymbolSpan]:
        """The relevant rules of some parts, the last one first."""
        return [part for part in reversed(parts) if part.symbol in self._expected.relevant]

    def _path(
        self, rule: int, start: int, end: int, positions: list[int], number: int = 0
    ) -> list[SymbolSpan]:
        """The parts of a rule that ends at one of `positions`.

        number  of its completion; 0 if it is not completed
        """
        after, distance = self._graph(rule, start, end, positions, number)
        first = self._automata.start(rule), start
        layers: list[dict[_Node, tuple[_Node, int]]] = [{first: (first, 0)}]
        while all(distance[node] for node in layers[-1]):
            layers.append(self._farthest(layers[-1], after, distance))
        node = next(node for node in layers[-1] if not distance[node])
        path: list[SymbolSpan] = []
        for layer in layers[:0:-1]:
            place = node[1]
            node, symbol = layer[node]
            path.append(SymbolSpan(symbol, node[1], place))
        return path[::-1]

    def _farthest(
        self, nodes: Iterable[_Node], after: _Ways, distance: dict[_Node, int]
    ) -> dict[_Node, tuple[_Node, int]]:
        """The nodes after some at one place that have come farthest, each with where it came from, and over
        which symbol. What has come no farther must be nearer to the end."""
        best = -1
        farthest: dict[_Node, tuple[_Node, int]] = {}
        for node in nodes:
            self._steps.spend(1 + len(after[node]))
            for symbol, to in after[node]:
                if to[1] < best or (to[1] == node[1] and distance[to] >= distance[node]):
                    continue
                if to[1] > best:
                    best = to[1]
                    farthest.clear()
                farthest.setdefault(to, (node, symbol))
        return farthest

    def _graph(
        self, rule: int, start: int, end: int, positions: list[int], number: int
    ) -> tuple[_Ways, dict[_Node, int]]:
        """The ways through a rule to one of `positions`, and how many symbols there are at least from each
        node on."""
        after: _Ways = {}
        queue: list[_Node] = [(position, end) for position in positions]
        distance = dict.fromkeys(queue, 0)
        for node in queue:
            position, place = node
            links = self._chart.items[place][position, start]
            self._steps.spend(1 + len(links))
            for link in links:
                if link is None or self._repeats(rule, SymbolSpan(*link[1:], place), start, end, number):
                    continue
                before = link.position, link.start
                after.setdefault(before, []).append((link.symbol, node))
                if before not in distance:
                    distance[before] = distance[node] + 1
                    queue.append(before)
        return after, distance

    def _repeats(self, rule: int, part: SymbolSpan, start: int, end: int, number: int) -> bool:
        """Whether a part of a completed rule is all of it, and may consist of that rule again."""
        if not number or part.symbol >= 0 or part[1:] != (start, end):
            return False
        cycle = self._expected.cycle
        if cycle[-1 - rule] != cycle[-1 - part.symbol]:
            return False
        return self._chart.completed[end][part.symbol, start].number >= number
