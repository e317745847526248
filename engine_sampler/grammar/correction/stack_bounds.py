"""Lower bounds on the cost from a configuration of an LALR parser to the end of a text; see `lower_bounds`.

What a stack still needs is found on the stack itself: its top is within some right sides of rules, each of
which can be finished at the cost of its remaining symbols, and is then replaced by the left side.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from ..engines.reference.lexers import IGNORED_SYMBOL
from ..engines.reference.lexing import BETWEEN_TERMINALS, LalrConfigurations
from ..engines.reference.lr import LrRow
from ..program.lalr import ACCEPT
from .lower_bounds import ExpressionBounds
from .rule_bounds import NEVER

Symbol = tuple[bool, int]
"""Whether it is a terminal; its number, or that of a left side."""

RightSide = list[tuple[Symbol, ...]]
"""The symbols in each place of the right side of a rule, and of others that the parser takes for it."""


class StackBounds:
    """Lower bounds on the cost from the configurations of `parser` to the end of the text: a byte costs 1."""

    def __init__(self, parser: LalrConfigurations) -> None:
        self._parser = parser
        self._rows = parser.rows
        self._tables = parser.rows.parser
        self._of_expression = ExpressionBounds(parser.expressions)
        self._steps = [self._steps_of(state) for state in range(len(self._tables.states))]
        self._sides = self._right_sides()
        self._costs = self._symbol_costs()
        self._within = self._positions()
        self._of_stack: dict[LrRow, int] = {}
        self._of_configuration: dict[int, int] = {}

    def __call__(self, configuration: int) -> int:
        """The cost of the cheapest way from a configuration to the end, or less; NEVER if there is none."""
        least = self._of_configuration.get(configuration)
        if least is None:
            least = NEVER
            for row, symbol, rest, _, _ in self._parser.threads[configuration]:
                after: int | None = row
                cost = 0
                if symbol != BETWEEN_TERMINALS:
                    cost = self._of_expression(rest)
                    after = row if symbol == IGNORED_SYMBOL else self._rows.advance(row, symbol)
                if after is not None and cost < least:
                    least = min(least, cost + self._from_stack(self._rows.rows[after]))
            self._of_configuration[configuration] = least
        return least

    # --- the grammar, from the tables ----------------------------------------------------------------

    def _steps_of(self, state: int) -> dict[Symbol, int]:
        """The states after a state, by the symbol between them."""
        tables = self._tables.states[state]
        shifts: dict[Symbol, int] = {(True, name): to for name, to in tables.actions if to >= 0}
        return shifts | {(False, side): to for side, to in tables.gotos}

    def _right_sides(self) -> dict[int, RightSide]:
        """The right side of each rule. All ways of its length to a state that reduces it spell it."""
        before = {to: state for state, steps in enumerate(self._steps) for to in steps.values()}
        between: dict[int, dict[Symbol, None]] = {}
        for steps in self._steps:
            for symbol, to in steps.items():
                between.setdefault(to, {})[symbol] = None
        sides: dict[int, RightSide] = {}
        for state, tables in enumerate(self._tables.states):
            for action in {*(action for _, action in tables.actions), tables.end}:
                if action < 0 and -1 - action not in sides:
                    spelled, at = [], state
                    for _ in range(self._tables.rules[-1 - action][1]):
                        spelled.append(tuple(between[at]))
                        at = before[at]
                    sides[-1 - action] = spelled[::-1]
        return sides

    def _symbol_costs(self) -> dict[Symbol, int]:
        """The cost of the cheapest text of each symbol."""
        costs = {
            (True, terminal): NEVER if number is None else self._of_expression(number)
            for terminal, number in enumerate(self._parser.lexers.terminals)
        }
        changed = True
        while changed:
            changed = False
            for rule, spelled in self._sides.items():
                left = False, self._tables.rules[rule][0]
                cost = min(NEVER, sum(_place_costs(spelled, costs)))
                if cost < costs.get(left, NEVER):
                    costs[left] = cost
                    changed = True
        return costs

    def _positions(self) -> list[dict[tuple[int, int], int]]:
        """For each state, the rules that it is within: their left sides, the symbols read, and the cost of
        the others."""
        positions: list[dict[tuple[int, int], int]] = [{} for _ in self._steps]
        ways: dict[int, list[tuple[RightSide, list[int]]]] = {}
        for rule, spelled in self._sides.items():
            costs = _place_costs(spelled, self._costs)
            left = [min(NEVER, sum(costs[count + 1 :])) for count in range(len(spelled))]
            ways.setdefault(self._tables.rules[rule][0], []).append((spelled, left))
        for state, tables in enumerate(self._tables.states):
            for side, _ in tables.gotos:
                for spelled, left in ways.get(side, ()):
                    states = {state}
                    for count, symbols in enumerate(spelled, 1):
                        states = {
                            to
                            for at in states
                            for symbol in symbols
                            if (to := self._steps[at].get(symbol)) is not None
                        }
                        for at in states:
                            known = positions[at].get((side, count), NEVER)
                            positions[at][side, count] = min(left[count - 1], known)
        return positions

    # --- stacks --------------------------------------------------------------------------------------

    def _from_stack(self, stack: LrRow) -> int:
        """A lower bound on the cost from a stack to the end of the text (Dijkstra 1959)."""
        if stack in self._of_stack:
            return self._of_stack[stack]
        queue: list[tuple[int, int, LrRow | None]] = [(0, 0, stack)]
        done: set[LrRow] = set()
        number = 0
        least = NEVER
        while queue:
            cost, _, at = heappop(queue)
            if at is None or cost >= NEVER:
                least = min(cost, NEVER)
                break
            if at in done:
                continue
            done.add(at)
            for step, following in self._ways(at):
                known = None if following is None else self._of_stack.get(following)
                number += 1
                if known is None:
                    heappush(queue, (cost + step, number, following))
                else:
                    heappush(queue, (cost + step + known, number, None))
        self._of_stack[stack] = least
        return least

    def _ways(self, stack: LrRow) -> Iterator[tuple[int, LrRow | None]]:
        """The stacks after the end of a rule that the top is within, with their costs; None: the end."""
        if self._tables.states[stack.state].end == ACCEPT:
            yield 0, None
        if stack.below < 0:
            for side, to in self._tables.states[stack.state].gotos:
                if self._tables.states[to].end == ACCEPT:
                    yield self._costs.get((False, side), NEVER), None
        for (side, count), cost in self._within[stack.state].items():
            base, at = stack.below, 1
            while at < count and base >= 0:
                base, at = self._rows.rows[base].below, at + 1
            if base < 0:
                continue
            for other, to in self._tables.states[self._rows.rows[base].state].gotos:
                if other == side:
                    yield cost, LrRow(to, base)


def _place_costs(spelled: RightSide, costs: dict[Symbol, int]) -> list[int]:
    """The cost of the cheapest text for each place of a right side."""
    return [min(costs.get(symbol, NEVER) for symbol in symbols) for symbols in spelled]
