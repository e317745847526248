"""Rows of an LALR parser: a state and the row below it, each made once.

The tables come from a program (see `lalr`). A row that is reduced looks like any other, so what
follows a row and a terminal is found once, as with Earley's rows.
"""

from __future__ import annotations

from typing import NamedTuple

from ...derivatives.limits import Meter
from ...program.lalr import ACCEPT, Parser

NOWHERE = -1
"""What is below the row of an empty text."""


class Row(NamedTuple):
    """A state of the parser and the row below it."""

    state: int
    below: int


class LRRows:
    """All rows of one set of tables; the first one is 0."""

    def __init__(self, parser: Parser, meter: Meter) -> None:
        self._rules = parser.rules
        self._actions = [dict(state.actions) for state in parser.states]
        self._gotos = [dict(state.gotos) for state in parser.states]
        self._ends = [state.end for state in parser.states]
        self._meter = meter
        self.rows: list[Row] = []
        self._numbers: dict[Row, int] = {}
        self._after: dict[tuple[int, int], int | None] = {}
        self._accepting: dict[int, bool] = {}
        self._row(Row(parser.first, NOWHERE))

    def state(self, row: int) -> int:
        """The number of a row's state."""
        return self.rows[row].state

    def advance(self, row: int, terminal: int) -> int | None:
        """The row behind a terminal, None if it cannot come."""
        key = row, terminal
        if key not in self._after:
            self._after[key] = self._advance(row, terminal)
        return self._after[key]

    def accepting(self, row: int) -> bool:
        """Whether the text may end here."""
        found = self._accepting.get(row)
        if found is None:
            at: int | None = row
            while at is not None and (end := self._ends[self.rows[at].state]) < 0:
                at = self._reduce(at, end)
            found = self._accepting[row] = at is not None and end == ACCEPT
        return found

    def _advance(self, row: int, terminal: int) -> int | None:
        at: int | None = row
        while at is not None:
            action = self._actions[self.rows[at].state].get(terminal)
            if action is None:
                return None
            if action >= 0:
                return self._row(Row(action, at))
            at = self._reduce(at, action)
        return None

    def _reduce(self, row: int, action: int) -> int | None:
        """The row where a rule's right side has become its left side."""
        side, length = self._rules[-1 - action]
        self._meter.spend(1 + length)
        for _ in range(length):
            row = self.rows[row].below
        target = self._gotos[self.rows[row].state].get(side)
        return None if target is None else self._row(Row(target, row))

    def _row(self, row: Row) -> int:
        number = self._numbers.get(row)
        if number is None:
            self._meter.add_state()
            number = self._numbers[row] = len(self.rows)
            self.rows.append(row)
        return number
