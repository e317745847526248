"""Configurations of an LALR parser with its lexers.

A thread is one way to read the text (see `configurations`): a row of the parser and, unless it is between
terminals, the terminal being read. Which terminal is the first to match, and how long its match is, only
the text that follows decides. So every possibility is followed, and each thread stores the futures in
which it is wrong (`excluded`, see `lexers`). A thread is dead once these are all futures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ...derivatives.expressions import ANYTHING, EMPTY, EPSILON
from ...derivatives.limits import Meter
from ...errors import GrammarError
from .configurations import REJECTED, Configurations
from .lexers import IGNORED_SYMBOL, Lexers, PartialMatch
from .lr import LrRows

BETWEEN_TERMINALS = -2
"""The symbol of a thread between two terminals."""


class LalrThread(NamedTuple):
    """One way to read the text.

    row                   the row of the parser before the terminal
    symbol, rest, whole   the terminal being read, see `lexers.PartialMatch`, or BETWEEN_TERMINALS
    excluded              the futures in which the thread is wrong
    """

    row: int
    symbol: int
    rest: int
    whole: int
    excluded: int


class LalrConfigurations(Configurations[LalrThread]):
    """All configurations of one set of tables.

    specials   the token ids of each terminal of special tokens

    Raises GrammarError if no text at all matches.
    """

    def __init__(
        self, rows: LrRows, lexers: Lexers, specials: Mapping[int, frozenset[int]], meter: Meter
    ) -> None:
        super().__init__(meter)
        self.rows = rows
        self.lexers = lexers
        self._derivatives = lexers.derivatives
        self.expressions = lexers.derivatives.expressions
        self.specials = specials
        self._can_continue_at: dict[tuple[int, int], bool] = {}
        self.start = self.configuration(self._between(0, EMPTY))
        if self.start == REJECTED:
            raise GrammarError("no text at all matches the grammar")

    def accepting(self, configuration: int) -> bool:
        return any(self.rows.accepting(row) for row in self._ends(configuration))

    def special_ids(self, configuration: int) -> set[int]:
        terminals = self._special_rows(configuration)
        return {token_id for terminal, _ in terminals for token_id in self.specials[terminal]}

    def special_step(self, configuration: int, token_id: int) -> int:
        specials = self._special_rows(configuration)
        rows = [row for terminal, row in specials if token_id in self.specials[terminal]]
        return self.configuration(thread for row in rows for thread in self._between(row, EMPTY))

    def first_bytes(self, configuration: int) -> int:
        mask = 0
        for thread in self.threads[configuration]:
            if thread.symbol != BETWEEN_TERMINALS:
                mask |= self.expressions.first[thread.rest]
                continue
            for match, _ in self.lexers.begin(self.rows.state(thread.row)):
                mask |= self.expressions.first[match.rest]
        return mask

    def _ends(self, configuration: int) -> Iterator[int]:
        """The rows of the threads between terminals that hold if only special tokens may follow."""
        for thread in self.threads[configuration]:
            if thread.symbol == BETWEEN_TERMINALS and not self.expressions.endings[thread.excluded]:
                yield thread.row

    def _special_rows(self, configuration: int) -> list[tuple[int, int]]:
        """The terminals of special tokens that may follow, each with the row after it."""
        return [pair for row in self._ends(configuration) for pair in self._after_specials(row)]

    def _after_specials(self, row: int) -> Iterator[tuple[int, int]]:
        for terminal in self.specials:
            if (after := self.rows.advance(row, terminal)) is not None:
                yield terminal, after

    def _row_after(self, row: int, symbol: int) -> int | None:
        return row if symbol == IGNORED_SYMBOL else self.rows.advance(row, symbol)

    def _read(self, thread: LalrThread, byte: int) -> Iterator[LalrThread]:
        excluded = self._derivatives.derivative(thread.excluded, byte)
        if excluded == ANYTHING:
            return
        if thread.symbol != BETWEEN_TERMINALS:
            match = self.lexers.step(PartialMatch(*thread[1:4]), byte)
            yield from self._after_byte(thread.row, match, excluded)
            return
        for match, before in self.lexers.begin_with(self.rows.state(thread.row), byte):
            yield from self._after_byte(thread.row, match, self.expressions.union((excluded, before)))

    def _after_byte(self, row: int, match: PartialMatch, excluded: int) -> Iterator[LalrThread]:
        """The threads after a byte of a terminal: the terminal continues, or has ended."""
        after = self._row_after(row, match.symbol)
        if after is None or excluded == ANYTHING:
            return
        if self._derivatives.possible(match.rest, excluded):
            yield LalrThread(row, *match, excluded)
        for guard in self.expressions.endings[match.rest]:
            ended = self.expressions.concat(guard, ANYTHING), self._derivatives.longer(match.whole)
            yield from self._between(after, self.expressions.union((excluded, *ended)))

    def _between(self, row: int, excluded: int) -> Iterable[LalrThread]:
        """The thread between terminals, if the text can continue or end there."""
        if not self._derivatives.live(excluded):
            excluded = EMPTY
        if self._can_continue(row, excluded):
            yield LalrThread(row, BETWEEN_TERMINALS, EPSILON, EPSILON, excluded)

    def _can_continue(self, row: int, excluded: int) -> bool:
        continues = self._can_continue_at.get((row, excluded))
        if continues is None:
            begins = any(symbol != IGNORED_SYMBOL for symbol in self._possible(row, EMPTY))
            stops = self._can_stop(row)
            continues = self._can_continue_at[row, excluded] = (begins or stops) and (
                (stops and not self.expressions.endings[excluded])
                or any(True for _ in self._possible(row, excluded))
            )
        return continues

    def _can_stop(self, row: int) -> bool:
        """Whether the text may end, or continue with a special token."""
        return self.rows.accepting(row) or any(True for _ in self._after_specials(row))

    def _possible(self, row: int, excluded: int) -> Iterator[int]:
        """The symbols that may be read after a row."""
        for match, before in self.lexers.begin(self.rows.state(row)):
            after = self._row_after(row, match.symbol)
            futures = self.expressions.union((excluded, before))
            if after is not None and self._derivatives.possible(match.rest, futures):
                yield match.symbol
