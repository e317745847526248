"""Readings of a text by an LALR parser and its lexers.

A thread is one reading: a row, and a terminal under way, or none. Which terminal is the first that
matches, and how long it can get, shows only later; so every way is followed, and each thread knows the
futures that would make it wrong (`taken`, see `lexers`). It is dead once they are all there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ...derivatives.expressions import ANYTHING, EMPTY, EPSILON
from ...derivatives.limits import Meter
from ...errors import GrammarError
from .configurations import LOST, Configurations
from .lexers import IGNORE, Lexers, Reading
from .lr import LRRows

BETWEEN = -2
"""The symbol of a thread that stands between terminals."""


class Thread(NamedTuple):
    """One reading; `symbol`, `rest` and `whole` are those of a `Reading`."""

    row: int
    symbol: int
    rest: int
    whole: int
    taken: int


class Lexing(Configurations[Thread]):
    """All configurations of one set of tables.

    specials   the token ids of each terminal of special tokens

    Raises GrammarError if no text matches.
    """

    def __init__(
        self, rows: LRRows, lexers: Lexers, specials: Mapping[int, frozenset[int]], meter: Meter
    ) -> None:
        super().__init__(meter)
        self.rows = rows
        self._lexers = lexers
        self._derivatives = lexers.derivatives
        self._x = lexers.derivatives.expressions
        self._specials = specials
        self._alive_at: dict[tuple[int, int], bool] = {}
        self.start = self.configuration(self._stand(0, EMPTY))
        if self.start == LOST:
            raise GrammarError("no text at all matches the grammar")

    def accepting(self, configuration: int) -> bool:
        return any(self.rows.accepting(row) for row in self._ends(configuration))

    def special_ids(self, configuration: int) -> set[int]:
        behind = self._special_places(configuration)
        return {token_id for terminal, _ in behind for token_id in self._specials[terminal]}

    def special_step(self, configuration: int, token_id: int) -> int:
        places = self._special_places(configuration)
        rows = [row for terminal, row in places if token_id in self._specials[terminal]]
        return self.configuration(thread for row in rows for thread in self._stand(row, EMPTY))

    def first_bytes(self, configuration: int) -> int:
        mask = 0
        for thread in self.configurations[configuration]:
            if thread.symbol != BETWEEN:
                mask |= self._x.first[thread.rest]
                continue
            for reading, _ in self._lexers.begin(self.rows.state(thread.row)):
                mask |= self._x.first[reading.rest]
        return mask

    def _ends(self, configuration: int) -> Iterator[int]:
        """The rows of readings that are right if the text, or all but special tokens, ends here."""
        for thread in self.configurations[configuration]:
            if thread.symbol == BETWEEN and not self._x.endings[thread.taken]:
                yield thread.row

    def _special_places(self, configuration: int) -> list[tuple[int, int]]:
        """The terminals of special tokens that may come, and the rows behind them."""
        return [pair for row in self._ends(configuration) for pair in self._behind_specials(row)]

    def _behind_specials(self, row: int) -> Iterator[tuple[int, int]]:
        for terminal in self._specials:
            if (behind := self.rows.advance(row, terminal)) is not None:
                yield terminal, behind

    def _behind(self, row: int, symbol: int) -> int | None:
        return row if symbol == IGNORE else self.rows.advance(row, symbol)

    def _read(self, thread: Thread, byte: int) -> Iterator[Thread]:
        taken = self._derivatives.derivative(thread.taken, byte)
        if taken == ANYTHING:
            return
        if thread.symbol != BETWEEN:
            reading = self._lexers.step(Reading(*thread[1:4]), byte)
            yield from self._arrive(thread.row, reading, taken)
            return
        for reading, before in self._lexers.begin_with(self.rows.state(thread.row), byte):
            yield from self._arrive(thread.row, reading, self._x.union((taken, before)))

    def _arrive(self, row: int, reading: Reading, taken: int) -> Iterator[Thread]:
        """The threads of a terminal that has been read so far: it goes on, or is over."""
        behind = self._behind(row, reading.symbol)
        if behind is None or taken == ANYTHING:
            return
        if self._lexers.possible(reading.rest, taken):
            yield Thread(row, *reading, taken)
        for guard in self._x.endings[reading.rest]:
            ended = self._x.concat(guard, ANYTHING), self._lexers.longer(reading.whole)
            yield from self._stand(behind, self._x.union((taken, *ended)))

    def _stand(self, row: int, taken: int) -> Iterable[Thread]:
        """The thread between terminals, if the text can go on there or end."""
        if not self._derivatives.live(taken):
            taken = EMPTY
        if self._alive(row, taken):
            yield Thread(row, BETWEEN, EPSILON, EPSILON, taken)

    def _alive(self, row: int, taken: int) -> bool:
        found = self._alive_at.get((row, taken))
        if found is None:
            begins = any(symbol != IGNORE for symbol in self._possible(row, EMPTY))
            stops = self._stops(row)
            found = self._alive_at[row, taken] = (begins or stops) and (
                (stops and not self._x.endings[taken]) or any(True for _ in self._possible(row, taken))
            )
        return found

    def _stops(self, row: int) -> bool:
        """Whether the text may end, or go on with a special token."""
        return self.rows.accepting(row) or any(True for _ in self._behind_specials(row))

    def _possible(self, row: int, taken: int) -> Iterator[int]:
        """What may be read behind a row."""
        for reading, before in self._lexers.begin(self.rows.state(row)):
            behind = self._behind(row, reading.symbol)
            if behind is not None and self._lexers.possible(reading.rest, self._x.union((taken, before))):
                yield reading.symbol
