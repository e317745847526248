"""Lower bounds on the bytes from a configuration to the end of a text, which guide completions.

The bounds hold for every continuation, and a byte lowers them by at most 1, so a search that follows them
finds the best text (A*: Hart, Nilsson and Raphael 1968). Look-aheads are ignored, and so is what a lexer
prefers; the demands of registers are considered one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..engines.reference import lexing
from ..engines.reference.lexers import IGNORED_SYMBOL
from ..engines.reference.lexing import LalrConfigurations
from ..engines.reference.rows import FINISHED, NO_ROW
from ..engines.reference.threads import BETWEEN_TERMINALS, EarleyConfigurations
from ..program.lalr import ACCEPT
from .least_costs import NEVER, LeastCosts, Making, Node, expression_costs
from .rule_bounds import RuleBounds

_ROW, _RULE = range(2)
_STACK, _WITHIN = range(2)


class EarleyBounds:
    """The bounds of an Earley parser: those of rows, and of the rules that wait in them."""

    def __init__(self, parser: EarleyConfigurations) -> None:
        self._parser, self._rows, self._automata = parser, parser.rows, parser.rows.automata
        self._of_expression = expression_costs(parser.scans.expressions)
        terminals = [NEVER if number is None else self._of_expression(number) for number in parser.terminals]
        self._of_position = RuleBounds(self._automata, terminals)
        self._costs = LeastCosts(self._ways)

    def __call__(self, configuration: int) -> int:
        """The cost of the cheapest way from a configuration to the end, or less; NEVER if there is none."""
        least = NEVER
        for row, terminal, ignored, scan in self._parser.threads[configuration]:
            is_between = terminal == BETWEEN_TERMINALS
            rest = 0 if is_between else self._of_expression(self._parser.scans.pairs[scan][0])
            after = row if is_between or ignored else self._rows.advance(row, terminal)
            if after is not None and rest < least:
                least = min(least, rest + self._costs(_ROW, after))
        return least

    def _ways(self, node: Node) -> Iterator[Making]:
        """From a row, or from the end of a rule that began in a row, to the end of the text."""
        kind, *_, row = node
        if row == NO_ROW:
            yield Making(0)
            return
        items, beginning, _, _ = self._rows.rows[row]
        for item in items if kind == _ROW else (*items, *((position, row) for position in beginning)):
            if item == FINISHED:
                if kind == _ROW:
                    yield Making(0)
            elif kind == _ROW:
                yield self._way(*item)
            else:
                for target in self._automata.transitions(item[0]).targets.get(node[1], ()):
                    yield self._way(target, item[1])

    def _way(self, position: int, origin: int) -> Making:
        """On to the end of a rule."""
        return Making(self._of_position(position), ((_RULE, self._automata.rule_of(position), origin),))


class StackBounds:
    """The bounds of an LALR parser: what its stacks need to be reduced, state by state."""

    def __init__(self, parser: LalrConfigurations) -> None:
        self._parser, self._rows = parser, parser.rows
        self._of_expression = expression_costs(parser.expressions)
        rules, states = parser.rows.parser.rules, parser.rows.parser.states
        self._steps: list[list[tuple[int, tuple[Node, ...], int]]] = []
        """From each state what a symbol costs, and needs, and the state behind it."""
        for state, tables in enumerate(states):
            numbers = [(parser.lexers.terminals[name], to) for name, to in tables.actions if to >= 0]
            shifts = [(self._of_expression(one), (), to) for one, to in numbers if one is not None]
            self._steps.append([*shifts, *((0, ((_WITHIN, state, *of, 0),), to) for *of, to in tables.gotos)])
        self._reduced = {
            (state, *rules[-1 - action])
            for state, tables in enumerate(states)
            for action in {*(action for _, action in tables.actions), tables.end}
            if action < 0
        }
        self._within = self._all_within()
        self._costs = LeastCosts(self._ways)

    def _all_within(self) -> dict[int, list[tuple[int, int]]]:
        """For each state, the left sides that may be made there, with how many symbols are read."""
        into: dict[int, set[int]] = {}
        for state, steps in enumerate(self._steps):
            for _, _, to in steps:
                into.setdefault(to, set()).add(state)
        waiting = list(self._reduced)
        seen = set(waiting)
        for state, side, count in waiting:  # which grows
            new = {(before, side, count - 1) for before in into.get(state, ()) if count} - seen
            seen |= new
            waiting += new
        within: dict[int, list[tuple[int, int]]] = {}
        for state, side, count in waiting:
            within.setdefault(state, []).append((side, count))
        return within

    def __call__(self, configuration: int) -> int:
        """The cost of the cheapest way from a configuration to the end, or less; NEVER if there is none."""
        least = NEVER
        for row, symbol, expression, _, _ in self._parser.threads[configuration]:
            is_between = symbol == lexing.BETWEEN_TERMINALS
            rest = 0 if is_between else self._of_expression(expression)
            is_same = is_between or symbol == IGNORED_SYMBOL
            after = row if is_same else self._rows.advance(row, symbol)
            if after is not None and rest < least:
                least = min(least, rest + self._costs(_STACK, *self._rows.rows[after]))
        return least

    def _ways(self, node: Node) -> Iterator[Making]:
        """From a stack to the end of the text; or from a state to a left side, some symbols of it read."""
        kind, state, *rest = node
        if kind == _WITHIN:
            side, count = rest
            if (state, side, count) in self._reduced:
                yield Making(0)
            for cost, parts, to in self._steps[state]:
                if (side, count + 1) in self._within.get(to, ()):
                    yield Making(cost, (*parts, (_WITHIN, to, side, count + 1)))
            return
        if self._rows.ends[state] == ACCEPT:
            yield Making(0)
        if rest[0] == NO_ROW:
            for side, to in self._rows.gotos[state].items():
                if self._rows.ends[to] == ACCEPT:
                    yield Making(0, ((_WITHIN, state, side, 0),))
        for side, count in self._within.get(state, ()):
            base, at = rest[0], 1
            while at < count and base >= 0:
                base, at = self._rows.rows[base].below, at + 1
            if base >= 0 and count:
                goto = self._rows.gotos[self._rows.state(base)].get(side)
                if goto is not None:
                    yield Making(0, ((_WITHIN, state, side, count), (_STACK, goto, base)))
