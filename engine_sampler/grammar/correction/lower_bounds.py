"""Lower bounds on the bytes from a configuration to the end of a text, which guide completions.

The bounds hold for every continuation, and a byte lowers them by at most its own cost, so a search that
follows them finds the best text (A*: Hart, Nilsson and Raphael 1968). Those of terminals and rules are
computed by Knuth's generalisation of Dijkstra's algorithm (1977). Look-aheads are ignored, and the demands of
registers are considered one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..derivatives.expressions import Expressions, children
from ..engines.reference.rows import FINISHED, NO_ROW
from ..engines.reference.threads import BETWEEN_TERMINALS, EarleyConfigurations
from ..program.expression import AUTOMATON, BOTH, CLASS, CONCAT, GUARD, LITERAL, REPEAT, UNION
from .rule_bounds import NEVER, cheapest, position_bounds

BegunRule = tuple[int, int]
"""A rule, and the row where it began."""


class LowerBounds:
    """Lower bounds on the cost from the configurations of `parser` to the end of the text: a byte costs 1."""

    def __init__(self, parser: EarleyConfigurations) -> None:
        self._parser = parser
        self._rows = parser.rows
        self._automata = parser.rows.automata
        self._of_expression = ExpressionBounds(parser.scans.expressions)
        terminals = [NEVER if number is None else self._of_expression(number) for number in parser.terminals]
        self._of_position = position_bounds(self._automata, terminals)
        self._of_row: dict[int, int] = {}
        self._after_rule: dict[BegunRule, int] = {(self._automata.goal, NO_ROW): 0}
        self._of_configuration: dict[int, int] = {}

    def __call__(self, configuration: int) -> int:
        """The cost of the cheapest way from a configuration to the end, or less; NEVER if there is none."""
        least = self._of_configuration.get(configuration)
        if least is None:
            least = NEVER
            for row, terminal, ignored, scan in self._parser.threads[configuration]:
                after: int | None = row
                rest = 0
                if terminal != BETWEEN_TERMINALS:
                    rest = self._of_expression(self._parser.scans.pairs[scan][0])
                    after = row if ignored else self._rows.advance(row, terminal)
                if after is not None and rest < least:
                    least = min(least, rest + self._from_row(after))
            self._of_configuration[configuration] = least
        return least

    def _from_row(self, row: int) -> int:
        """A lower bound on the cost from a row to the end of the text."""
        found = self._of_row.get(row)
        if found is None:
            found = NEVER
            for item in self._rows.rows[row].items:
                if item == FINISHED:
                    found = 0
                    break
                bound = self._of_position(item[0])
                if bound < found:
                    found = min(found, bound + self._cost_after((self._automata.rule_of(item[0]), item[1])))
            self._of_row[row] = found
        return found

    def _cost_after(self, begun_rule: BegunRule) -> int:
        """A lower bound on the cost from the end of a rule to the end of the text."""
        waiting = [begun_rule]
        while waiting:
            node = waiting[-1]
            if node in self._after_rule:
                waiting.pop()
                continue
            same_row, ways = self._returns(node)
            missing = [to for _, to, _ in ways if to not in same_row and to not in self._after_rule]
            if missing:
                waiting += missing
            else:
                self._add_costs(same_row, ways)
        return self._after_rule[begun_rule]

    def _returns(self, node: BegunRule) -> tuple[set[BegunRule], list[tuple[BegunRule, BegunRule, int]]]:
        """The rules that began in the same row and may end where `node` does, and the ways from the end of
        one rule to that of its caller: from, to, cost."""
        same_row, ways, unvisited = {node}, [], [node]
        while unvisited:
            at = unvisited.pop()
            for position, origin in self._callers(at):
                to = self._automata.rule_of(position), origin
                ways.append((at, to, self._of_position(position)))
                if origin == node[1] and to not in same_row and to not in self._after_rule:
                    same_row.add(to)
                    unvisited.append(to)
        return same_row, ways

    def _callers(self, node: BegunRule) -> Iterator[tuple[int, int]]:
        """The positions, with their origins, after a rule that began in a row."""
        rule, row = node
        items, beginning, _, _ = self._rows.rows[row]
        for position, origin in (*items, *((position, row) for position in beginning)):
            if position >= 0:
                for target in self._automata.transitions(position).targets.get(rule, ()):
                    yield target, origin

    def _add_costs(self, same_row: set[BegunRule], ways: list[tuple[BegunRule, BegunRule, int]]) -> None:
        backwards: dict[BegunRule, list[tuple[BegunRule, int]]] = {}
        ends = []
        for at, to, cost in ways:
            if to in same_row:
                backwards.setdefault(to, []).append((at, cost))
            else:
                ends.append((at, cost + self._after_rule[to]))
        found = cheapest(backwards, ends)
        self._after_rule.update((node, found.get(node, NEVER)) for node in same_row)


class ExpressionBounds:
    """Lower bounds on the cost of the texts that expressions match, in bytes."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._known: dict[int, int] = {}
        self._automata: dict[int, dict[int, int]] = {}

    def __call__(self, number: int) -> int:
        """The cost of the cheapest text that an expression matches, or less."""
        waiting = [number]
        while waiting:
            at = waiting[-1]
            missing = [part for part in children(self._expressions.nodes[at]) if part not in self._known]
            if missing and at not in self._known:
                waiting += missing
            else:
                waiting.pop()
                self._known[at] = self._cost(at)
        return self._known[number]

    def _cost(self, number: int) -> int:
        node = self._expressions.nodes[number]
        kind = node[0]
        if kind == LITERAL:
            return len(node[1])
        if kind == CLASS:
            return 1
        if kind == CONCAT:
            return min(NEVER, self._known[node[1]] + self._known[node[2]])
        if kind == UNION:
            return min((self._known[part] for part in node[1]), default=NEVER)
        if kind == BOTH:
            return max(self._known[part] for part in node[1])
        if kind == REPEAT:
            return min(NEVER, self._known[node[1]] * node[2])
        if kind == GUARD:
            return self._known[node[1]]
        if kind == AUTOMATON:
            return self._of_automaton(node[1]).get(node[2], NEVER)
        return int(not self._expressions.endings[number])  # a complement

    def _of_automaton(self, automaton: int) -> dict[int, int]:
        found = self._automata.get(automaton)
        if found is None:
            ways: dict[int, list[tuple[int, int]]] = {}
            ends = []
            for state, (accepts, _, targets) in enumerate(self._expressions.automata[automaton]):
                for target in set(targets) - {-1}:
                    ways.setdefault(target, []).append((state, 1))
                if accepts:
                    ends.append((state, 0))
            found = self._automata[automaton] = cheapest(ways, ends)
        return found
