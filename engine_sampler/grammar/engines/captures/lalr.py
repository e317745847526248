"""The parser of an LALR grammar over the terminals of one text: where its rules begin and end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..reference.lr import LrRows
from ..steps import Steps
from .chart import Next
from .derivation import SymbolSpan

_Stack = list[tuple[int, int]]
"""States, each with the place where its symbol began; the first one has none."""


class Reductions:
    """The rules of one text, inner ones first, as parts whose symbol is -1 - their left side."""

    def __init__(self, rows: LrRows, steps: Steps) -> None:
        self._rows = rows
        self._steps = steps
        self._stack: _Stack = [(rows.parser.first, 0)]

    def of(self, terminals: Sequence[Next], is_whole: bool, following: Next) -> Iterator[SymbolSpan]:
        """Those that end in a text: in a whole one, or in the beginning of one, behind which comes
        `following`. A lexer leaves no choice between terminals once they have ended."""
        for place, (terminal, *_) in enumerate(terminals):
            yield from self._reduced(place, terminal)
            self._stack.append((self._rows.actions[self._state][terminal], place))
        if is_whole:
            while (action := self._rows.ends[self._state]) < 0:
                yield self._reduce(action, len(terminals))
        elif len(following) == 1:
            yield from self._reduced(len(terminals), following[0])

    @property
    def _state(self) -> int:
        return self._stack[-1][0]

    def _reduced(self, place: int, terminal: int) -> Iterator[SymbolSpan]:
        while (action := self._rows.actions[self._state][terminal]) < 0:
            yield self._reduce(action, place)

    def _reduce(self, action: int, place: int) -> SymbolSpan:
        side, length = self._rows.parser.rules[-1 - action]
        self._steps.spend(1 + length)
        begin = self._stack[-length][1] if length else place
        del self._stack[len(self._stack) - length :]
        self._stack.append((self._rows.gotos[self._state][side], begin))
        return SymbolSpan(-1 - side, begin, place)
