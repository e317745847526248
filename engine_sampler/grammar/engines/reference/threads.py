"""All readings of a text at once.

A thread is one reading: a row, and how far which terminal has been read behind it (a scan), or that it
stands between terminals. A terminal may end wherever its expression does, so every split of the text is
followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...derivatives.derivatives import FirstBytes
from ...derivatives.expressions import EMPTY, EPSILON
from ...derivatives.limits import MAX_EMPTY_GUARDS
from ...errors import GrammarError, GrammarLimitError
from .configurations import LOST, Configurations
from .rows import Rows
from .scans import DEAD, Scans

BETWEEN = -1
"""The terminal of a thread that stands between terminals; its scan holds the guard of what follows."""


class Thread(NamedTuple):
    """One reading. Where `ignored`, the terminal is skipped text, and the row stays."""

    row: int
    terminal: int
    ignored: bool
    scan: int


class Threads(Configurations[Thread]):
    """All configurations of one set of tables.

    terminals     the expression of each terminal, None for those of special tokens
    specials      the token ids of each terminal of special tokens
    ignore        the terminals that may be skipped; they are as long as they can be
    """

    def __init__(
        self,
        rows: Rows,
        scans: Scans,
        terminals: Sequence[int | None],
        specials: Mapping[int, frozenset[int]],
        ignore: Sequence[int],
    ) -> None:
        super().__init__(scans.expressions.meter)
        self.rows = rows
        self.scans = scans
        self.terminals = terminals
        self._specials = specials
        self.ignored = frozenset(ignore)
        self._alive_at: dict[tuple[int, int], bool] = {}
        self._firsts: dict[frozenset[int], FirstBytes] = {}
        self._begun: dict[tuple[frozenset[int], int], list[tuple[int, int]]] = {}
        x = scans.expressions
        self._under_guard = frozenset(
            terminal
            for terminal, expression in enumerate(terminals)
            if expression is not None and x.endings[expression] and EMPTY not in x.endings[expression]
        )
        self.start = self.between([(0, EMPTY)])
        if self.start == LOST:
            raise GrammarError("no text at all matches the grammar")

    def between(self, places: Iterable[tuple[int, int]]) -> int:
        """The configuration of threads that stand between terminals, given rows and guards."""
        threads: set[Thread] = set()
        for row, guard in places:
            self._stand(row, guard, threads)
        return self.configuration(threads)

    def special_step(self, configuration: int, token_id: int) -> int:
        """The configuration after a special token."""
        return self.between(
            (following, EMPTY)
            for terminal, row in self._special_places(configuration)
            if token_id in self._specials[terminal]
            and (following := self.rows.advance(row, terminal)) is not None
        )

    def special_ids(self, configuration: int) -> set[int]:
        """The special tokens that may come."""
        return {
            token_id
            for terminal, row in self._special_places(configuration)
            if self.rows.advance(row, terminal) is not None
            for token_id in self._specials[terminal]
        }

    def _special_places(self, configuration: int) -> list[tuple[int, int]]:
        return [
            (terminal, thread.row)
            for thread in self.configurations[configuration]
            if thread.terminal == BETWEEN
            for terminal in self._specials.keys() & self.rows.rows[thread.row].terminals
        ]

    def accepting(self, configuration: int) -> bool:
        """Whether the text so far is in the language."""
        return any(
            thread.terminal == BETWEEN and self.rows.rows[thread.row].accepting
            for thread in self.configurations[configuration]
        )

    def first_bytes(self, configuration: int) -> int:
        """The bytes that may come next as a mask; perhaps too many."""
        mask = 0
        for thread in self.configurations[configuration]:
            for reading in self.beginnings(thread) if thread.terminal == BETWEEN else (thread,):
                mask |= self.scans.expressions.first[self.scans.pairs[reading.scan][0]]
        return mask

    def beginnings(self, thread: Thread) -> list[Thread]:
        """The threads that read the terminals which may come where a thread stands between them."""
        guard = self.scans.pairs[thread.scan][1]
        return [
            Thread(thread.row, terminal, ignored, self.scans.scan(expression, guard))
            for ignored, terminals in ((True, self.ignored), (False, self.rows.rows[thread.row].terminals))
            for terminal in terminals
            if (expression := self.terminals[terminal]) is not None
        ]

    def endings(self, thread: Thread, scan: int) -> list[tuple[int, int]]:
        """Rows and guards behind the terminal of a thread, where it may end at `scan`."""
        row: int | None = thread.row
        if not self.scans.can_end(scan):
            return []
        if not thread.ignored:
            row = self.rows.advance(thread.row, thread.terminal)
        if row is None:
            return []
        return [(row, guard) for guard in self.scans.ends(scan, thread.ignored)]

    def _read(self, thread: Thread, byte: int) -> set[Thread]:
        following: set[Thread] = set()
        if thread.terminal == BETWEEN:
            self._begin(thread, byte, following)
        else:
            self._arrive(thread, self.scans.step(thread.scan, byte), following)
        return following

    def _begin(self, thread: Thread, byte: int, following: set[Thread]) -> None:
        """Read the first byte of every terminal that may come."""
        guard = self.scans.guard_step(self.scans.pairs[thread.scan][1], byte)
        if guard is None:
            return
        for ignored, terminals in ((True, self.ignored), (False, self.rows.rows[thread.row].terminals)):
            for terminal, rest in self._beginning_with(terminals, byte):
                begun = Thread(thread.row, terminal, ignored, DEAD)
                self._arrive(begun, self.scans.scan(rest, guard), following)

    def _beginning_with(self, terminals: frozenset[int], byte: int) -> list[tuple[int, int]]:
        """The terminals that may begin with a byte, each with what is left of it."""
        found = self._begun.get((terminals, byte))
        if found is None:
            derivatives = self.scans.derivatives
            if terminals not in self._firsts:
                first = self.scans.expressions.first
                self._firsts[terminals] = FirstBytes(
                    (terminal, first[expression])
                    for terminal in sorted(terminals)
                    if (expression := self.terminals[terminal]) is not None
                )
            found = self._begun[terminals, byte] = []
            for terminal in self._firsts[terminals].beginning_with(byte):
                rest = derivatives.derivative(self.terminals[terminal] or EMPTY, byte)
                if derivatives.live(rest):
                    found.append((terminal, rest))
        return found

    def _arrive(self, thread: Thread, scan: int, following: set[Thread]) -> None:
        """Add what a thread is once its terminal has been read as far as `scan`."""
        if scan == DEAD:
            return
        if self.scans.continues(scan):
            following.add(thread._replace(scan=scan))
        for row, guard in self.endings(thread, scan):
            self._stand(row, guard, following)

    def _stand(self, row: int, guard: int, following: set[Thread]) -> None:
        """Add a thread between terminals, and those behind terminals that are empty under a guard."""
        waiting = [(row, guard)]
        x = self.scans.expressions
        for at, under in waiting:
            if self._alive(at, under):
                following.add(Thread(at, BETWEEN, False, self.scans.scan(EPSILON, under)))
            for terminal in self._under_guard & self.rows.rows[at].terminals:
                behind = self.rows.advance(at, terminal)
                for end in x.endings[self.terminals[terminal] or EMPTY]:
                    new = self.scans.clean(x.union((under, end)))
                    if behind is not None and (behind, new) not in waiting:
                        waiting.append((behind, new))
            if len(waiting) > MAX_EMPTY_GUARDS:
                raise GrammarLimitError(f"more than {MAX_EMPTY_GUARDS} look-aheads may stand at one place")

    def _alive(self, row: int, guard: int) -> bool:
        """Whether the text can go on between terminals or end there: a guard may forbid all that may come."""
        found = self._alive_at.get((row, guard))
        if found is None:
            _, _, terminals, accepting = self.rows.rows[row]
            found = accepting or not terminals.isdisjoint(self._specials)
            if not found and guard == EMPTY:
                found = bool(terminals)
            elif not found:
                terminals |= self.ignored
                allowed = (byte for byte in range(256) if self.scans.guard_step(guard, byte) is not None)
                found = any(self._beginning_with(terminals, byte) for byte in allowed)
            self._alive_at[row, guard] = found
        return found

    def _needed(self, threads: set[Thread]) -> frozenset[Thread]:
        """A thread between terminals under a guard says nothing new where one is without."""
        free = self.scans.scan(EPSILON, EMPTY)
        rows = {thread.row for thread in threads if thread.terminal == BETWEEN and thread.scan == free}
        return frozenset(
            thread
            for thread in threads
            if thread.terminal != BETWEEN or thread.scan == free or thread.row not in rows
        )
