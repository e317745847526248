"""The states of the terminals of one grammar, by derivatives, for whatever looks for terminals that lead
nowhere."""

from __future__ import annotations

from collections.abc import Sequence

from ...derivatives.derivatives import Derivatives
from ...derivatives.expressions import Expressions
from ...derivatives.limits import Meter, ReadingMeter
from ...derivatives.loading import number_of
from ...derivatives.states import reached, texts_between
from ...errors import GrammarLimitError
from ...program.byte_sets import first_bytes
from ...program.expression import EMPTY, Expression, looks_ahead
from ...work import spend

MAX_STATES = 64
"""The most states of a terminal that is examined; one with more is taken to lead on."""

MAX_STEPS = 100_000
"""The most steps of derivatives in a search; a grammar that needs more is taken to have no dead ends."""


class TerminalStates:
    """The states of terminals.

    expressions  of the terminals; there may be more later

    x            the tables of expressions, of which each state is one
    derivatives  their derivatives
    """

    def __init__(self, expressions: Sequence[Expression | None]) -> None:
        self._expressions = expressions
        self.x = Expressions(Meter())
        self.derivatives = Derivatives(self.x)
        self._numbers: dict[int, int] = {}
        self._first: dict[int, int] = {}
        self._steps: dict[int, dict[int, dict[int, int]] | None] = {}

    def begin_search(self) -> None:
        """Allow `MAX_STEPS` steps from now on, which count as work of reading the grammar."""
        self.x.meter = ReadingMeter(MAX_STEPS)

    def expression(self, symbol: int) -> Expression:
        """The expression of a terminal; EMPTY for special tokens."""
        return self._expressions[symbol] or EMPTY

    def start(self, symbol: int) -> int:
        """The first state of a terminal."""
        if symbol not in self._numbers:
            self._numbers[symbol] = self.load(self.expression(symbol))
        return self._numbers[symbol]

    def load(self, texts: Expression) -> int:
        """The first state of an expression."""
        return number_of(self.x, texts)

    def first(self, symbol: int) -> int:
        """The bytes with which the texts of a terminal begin, as a mask; perhaps too many."""
        if symbol not in self._first:
            own = self.expression(symbol)
            self._first[symbol] = self._first_steps(symbol) if looks_ahead(own) else first_bytes(own)
        return self._first[symbol]

    def _first_steps(self, symbol: int) -> int:
        spend(20)
        try:
            return sum(self.derivatives.live_steps(self.start(symbol)).values())
        except GrammarLimitError:
            spend(0)  # the limit may be that on reading
            return first_bytes(self.expression(symbol))

    def steps(self, symbol: int) -> dict[int, dict[int, int]] | None:
        """The steps from each state of a terminal: the bytes that lead to each next one. None if there are
        more than `MAX_STATES` states."""
        if symbol not in self._steps:
            self._steps[symbol] = reached(self.derivatives, self.start(symbol), MAX_STATES)
        return self._steps[symbol]

    def apart(self, symbol: int) -> Expression | None:
        """The texts of a terminal without its look-aheads, if what they look at never lies behind its end.

        None if it may, or if the terminal has more than `MAX_STATES` states.
        """
        steps = self.steps(symbol)
        if steps is None:
            return None
        numbers = {state: number for number, state in enumerate(steps)}
        ends = {state: guards for state in steps if (guards := self.x.endings[state])}
        if any(all(map(self.derivatives.continues, guards)) for guards in ends.values()):
            return None
        states = [(False, [(mask, numbers[after]) for after, mask in to.items()]) for to in steps.values()]
        return texts_between(states, 0, {numbers[state] for state in ends})
