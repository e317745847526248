"""Rows of an LALR parser: the nodes of a graph-structured stack, each built once.

A row is a parser state and the row below it on the stack, so a row represents a whole stack. The tables
come from a program (see `engine_sampler.grammar.program.lalr`). Equal stacks are the same row, however
they came about, so the row after a row and a terminal is computed once, as with Earley rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...derivatives.limits import Meter
from ...program.lalr import ACCEPT, Pairs, Parser, once

NO_ROW = -1
"""What is below the bottom row of a stack."""


class LrRow(NamedTuple):
    """A parser state and the row below it on the stack."""

    state: int
    below: int


class LrRows:
    """All rows of one set of tables; the first one is 0.

    actions, gotos, ends   of each state, as in `parser`: by terminal, by left side, and at the end of a text
    """

    def __init__(self, parser: Parser, meter: Meter) -> None:
        self.parser = parser
        self._rules = parser.rules
        actions_of: Callable[[Pairs], dict[int, int]] = once(dict)
        self.actions = [actions_of(state.actions) for state in parser.states]
        self.gotos = [dict(state.gotos) for state in parser.states]
        self.ends = [state.end for state in parser.states]
        self._meter = meter
        self.rows: list[LrRow] = []
        self._numbers: dict[LrRow, int] = {}
        self._after: dict[tuple[int, int], int | None] = {}
        self._accepting: dict[int, bool] = {}
        self._row(LrRow(parser.first, NO_ROW))

    def state(self, row: int) -> int:
        """The number of a row's state."""
        return self.rows[row].state

    def advance(self, row: int, terminal: int) -> int | None:
        """The row after a terminal, None if the terminal cannot follow."""
        key = row, terminal
        if key not in self._after:
            self._after[key] = self._advance(row, terminal)
        return self._after[key]

    def accepting(self, row: int) -> bool:
        """Whether the text may end here."""
        accepts = self._accepting.get(row)
        if accepts is None:
            top: int | None = row
            while top is not None and (end := self.ends[self.rows[top].state]) < 0:
                top = self._reduce(top, end)
            accepts = self._accepting[row] = top is not None and end == ACCEPT
        return accepts

    def _advance(self, row: int, terminal: int) -> int | None:
        top: int | None = row
        while top is not None:
            action = self.actions[self.rows[top].state].get(terminal)
            if action is None:
                return None
            if action >= 0:
                return self._row(LrRow(action, top))
            top = self._reduce(top, action)
        return None

    def _reduce(self, row: int, action: int) -> int | None:
        """The row after the right side of a rule is replaced by its left side."""
        side, length = self._rules[-1 - action]
        self._meter.spend(1 + length)
        for _ in range(length):
            row = self.rows[row].below
        target = self.gotos[self.rows[row].state].get(side)
        return None if target is None else self._row(LrRow(target, row))

    def _row(self, row: LrRow) -> int:
        number = self._numbers.get(row)
        if number is None:
            self._meter.add_state()
            number = len(self.rows)
            self.rows.append(row)  # first, in case of an interruption
            self._numbers[row] = number
        return number
