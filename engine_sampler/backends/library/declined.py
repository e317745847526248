"""What a library leaves to the host: single rows, or a whole batch, which it may run in smaller pieces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from .binding import Refusal
from .call_rows import CallRows
from .header import number
from .session import LibrarySession, Parts


class Fallback(Protocol):
    """Learns what a library does not do.

    lost  whether the library must no longer be called.
    """

    lost: bool

    def refuse(self, session: LibrarySession, parts: Parts) -> None:
        """The library does not run the program of `parts` after all."""

    def lose(self, reason: str) -> None:
        """The library's device is lost."""


class Attempts:
    """Calls of a library for some rows: for all of them, then again for fewer as the header defines.

    run  (context, `es_batch`) → code: the first call, for all rows.
    """

    def __init__(
        self, session: LibrarySession, fallback: Fallback, struct: Any, rows: CallRows, max_rows: int
    ) -> None:
        self._session = session
        self._fallback = fallback
        self._struct = struct
        self._rows = rows
        self._max_rows = max_rows or rows.n
        self.run = session.step if rows.n <= self._max_rows else _too_many
        if len(rows.unread) == rows.n:
            self.run = _nothing

    def declined(self, code: int) -> np.ndarray:
        """The numbers of the rows that the host runs, int64 and ascending, after `run` returned `code`."""
        declined = np.array(self._declined(0, self._rows.n, code), np.int64)
        self._rows.status[self._rows.unread] = number("ES_ROW_DECLINED")
        return np.union1d(declined, self._rows.unread)

    def _declined(self, first: int, end: int, code: int) -> Iterable[int]:
        """The same for the rows from `first` to `end`, after it returned `code` for all of them."""
        status = self._rows.status
        if code == number("ES_OK"):
            return first + np.flatnonzero(status[first:end])
        status[first:end] = number("ES_ROW_DECLINED")
        middle = self._division(first, end, code)
        if middle is not None:
            pieces = ((first, middle), (middle, end))
            return [i for a, b in pieces for i in self._declined(a, b, self._run_piece(a, b))]
        self._learn(code, first)
        return range(first, end)

    def _division(self, first: int, end: int, code: int) -> int | None:
        """Where to split rows that were declined as a whole; None if splitting does not help."""
        if code == number("ES_NO_MEMORY") and end - first > 1:
            return (first + end) // 2
        _, last = self._rows.entry_of(first)
        return last if code == number("ES_UNSUPPORTED") and end > last else None

    def _run_piece(self, first: int, end: int) -> int:
        """Run some of the rows on the library; returns its code."""
        if self._fallback.lost:
            return number("ES_DEVICE")
        if end - first > self._max_rows:
            return number("ES_NO_MEMORY")
        self._rows.point(self._struct, first, end)
        code = self._session.step(self._session.context.pointer, self._struct)
        self._rows.point(self._struct)
        return code

    def _learn(self, code: int, first: int) -> None:
        """Have the fallback know of a `code` that means more than "not now"."""
        try:
            self._session.context.check("run", code)
        except Refusal as refusal:
            if code == number("ES_DEVICE"):
                self._fallback.lose(str(refusal))
            elif code == number("ES_UNSUPPORTED"):
                entry, _ = self._rows.entry_of(first)
                self._fallback.refuse(self._session, entry.parts)


def _too_many(context: Any, batch: Any) -> int:
    """Used in place of `run` when there are more rows than the library takes at once."""
    return number("ES_NO_MEMORY")


def _nothing(context: Any, batch: Any) -> int:
    """Used in place of `run` when the host runs all rows."""
    return number("ES_OK")
