"""Configurations of an Earley parser without a separate lexer.

A thread is one way to split the text into terminals (see `configurations`): the Earley row after the
complete terminals and, unless it is between terminals, the terminal being read and its progress (a scan,
see `scans`). A terminal may end wherever its expression matches, so every split is followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...derivatives.derivatives import FirstBytes
from ...derivatives.expressions import EMPTY, EPSILON
from ...derivatives.limits import MAX_EMPTY_GUARDS
from ...errors import GrammarError, GrammarLimitError
from .configurations import REJECTED, Configurations
from .rows import EarleyRows
from .scans import DEAD, Scans

BETWEEN_TERMINALS = -1
"""The terminal of a thread between two terminals; its scan holds the guard on the text that follows."""


class EarleyThread(NamedTuple):
    """One way to read the text.

    row       the row of the parser before the terminal
    terminal  the terminal being read, or BETWEEN_TERMINALS
    ignored   whether the terminal is skipped text, which does not change the row
    scan      the progress within the terminal
    """

    row: int
    terminal: int
    ignored: bool
    scan: int


class EarleyConfigurations(Configurations[EarleyThread]):
    """All configurations of one set of tables.

    terminals     the expression of each terminal, None for terminals of special tokens
    specials      the token ids of each terminal of special tokens
    ignore        the terminals that may be skipped; each takes its longest match

    empty_under_guard   those that match the empty text only where something does not follow
    """

    def __init__(
        self,
        rows: EarleyRows,
        scans: Scans,
        terminals: Sequence[int | None],
        specials: Mapping[int, frozenset[int]],
        ignore: Sequence[int],
    ) -> None:
        super().__init__(scans.expressions.meter)
        self.rows = rows
        self.scans = scans
        self.terminals = terminals
        self.specials = specials
        self.ignored = frozenset(ignore)
        self._can_continue_at: dict[tuple[int, int], bool] = {}
        self._firsts: dict[frozenset[int], FirstBytes] = {}
        self._begun: dict[tuple[frozenset[int], int], list[tuple[int, int]]] = {}
        x = scans.expressions
        self.empty_under_guard = frozenset(
            terminal
            for terminal, expression in enumerate(terminals)
            if expression is not None and x.endings[expression] and EMPTY not in x.endings[expression]
        )
        self.start = self.between([(0, EMPTY)])
        if self.start == REJECTED:
            raise GrammarError("no text at all matches the grammar")

    def between(self, rows: Iterable[tuple[int, int]]) -> int:
        """The configuration of threads between terminals, given rows and guards."""
        threads: set[EarleyThread] = set()
        for row, guard in rows:
            self._add_between(row, guard, threads)
        return self.configuration(threads)

    def special_step(self, configuration: int, token_id: int) -> int:
        """The configuration after a special token."""
        return self.between(
            (following, EMPTY)
            for terminal, row in self._special_rows(configuration)
            if token_id in self.specials[terminal]
            and (following := self.rows.advance(row, terminal)) is not None
        )

    def after_special(self, row: int, terminal: int, token_id: int) -> tuple[EarleyThread, ...]:
        """The threads after a special token in a row, if it is one of a terminal."""
        following = self.rows.advance(row, terminal) if token_id in self.specials.get(terminal, ()) else None
        return () if following is None else self.threads[self.between([(following, EMPTY)])]

    def left_without(self, thread: EarleyThread, terminals: frozenset[int]) -> tuple[EarleyThread, ...]:
        """What is left of a thread that is in none of the terminals of its row, if some cannot follow."""
        row, guard = self.rows.without(thread.row, terminals), self.scans.pairs[thread.scan][1]
        if thread.terminal == BETWEEN_TERMINALS:
            return self.threads[self.between([(row, guard)])]
        return (thread._replace(row=row),) if self._can_continue(row, EMPTY) else ()

    def special_ids(self, configuration: int) -> set[int]:
        """The special tokens that may follow."""
        return {
            token_id
            for terminal, row in self._special_rows(configuration)
            if self.rows.advance(row, terminal) is not None
            for token_id in self.specials[terminal]
        }

    def _special_rows(self, configuration: int) -> list[tuple[int, int]]:
        """The terminals of special tokens that may follow, each with the row before it."""
        return [
            (terminal, thread.row)
            for thread in self.threads[configuration]
            if thread.terminal == BETWEEN_TERMINALS
            for terminal in self.specials.keys() & self.rows.rows[thread.row].terminals
        ]

    def accepting(self, configuration: int) -> bool:
        """Whether the text so far is in the language."""
        return any(
            thread.terminal == BETWEEN_TERMINALS and self.rows.rows[thread.row].accepting
            for thread in self.threads[configuration]
        )

    def first_bytes(self, configuration: int) -> int:
        """The bytes that may come next, as a mask; perhaps too many."""
        mask = 0
        for thread in self.threads[configuration]:
            for reader in self.beginnings(thread) if thread.terminal == BETWEEN_TERMINALS else (thread,):
                mask |= self.scans.expressions.first[self.scans.pairs[reader.scan][0]]
        return mask

    def open_terminals(self, configuration: int) -> set[int]:
        """The terminals that are being read or may begin."""
        found: set[int] = set()
        for thread in self.threads[configuration]:
            is_within = thread.terminal != BETWEEN_TERMINALS and not thread.ignored
            found.update((thread.terminal,) if is_within else self.rows.rows[thread.row].terminals)
        return found

    def beginnings(self, thread: EarleyThread) -> list[EarleyThread]:
        """The threads that begin the terminals which may follow a thread between terminals."""
        guard = self.scans.pairs[thread.scan][1]
        return [
            EarleyThread(thread.row, terminal, ignored, self.scans.scan(expression, guard))
            for ignored, terminals in ((True, self.ignored), (False, self.rows.rows[thread.row].terminals))
            for terminal in terminals
            if (expression := self.terminals[terminal]) is not None
        ]

    def endings(self, thread: EarleyThread, scan: int) -> list[tuple[int, int]]:
        """The rows and guards after the terminal of a thread, if it may end at `scan`."""
        row: int | None = thread.row
        if not self.scans.can_end(scan):
            return []
        if not thread.ignored:
            row = self.rows.advance(thread.row, thread.terminal)
        if row is None:
            return []
        return [(row, guard) for guard in self.scans.ends(scan, thread.ignored)]

    def _read(self, thread: EarleyThread, byte: int) -> set[EarleyThread]:
        following: set[EarleyThread] = set()
        if thread.terminal == BETWEEN_TERMINALS:
            self._begin_terminals(thread, byte, following)
        else:
            self._add_after_byte(thread, self.scans.step(thread.scan, byte), following)
        return following

    def _begin_terminals(self, thread: EarleyThread, byte: int, following: set[EarleyThread]) -> None:
        """Read the first byte of every terminal that may follow."""
        guard = self.scans.guard_step(self.scans.pairs[thread.scan][1], byte)
        if guard is None:
            return
        for ignored, terminals in ((True, self.ignored), (False, self.rows.rows[thread.row].terminals)):
            for terminal, rest in self._beginning_with(terminals, byte):
                begun = EarleyThread(thread.row, terminal, ignored, DEAD)
                self._add_after_byte(begun, self.scans.scan(rest, guard), following)

    def _beginning_with(self, terminals: frozenset[int], byte: int) -> list[tuple[int, int]]:
        """The terminals that may begin with a byte, each with its derivative by that byte."""
        begun = self._begun.get((terminals, byte))
        if begun is None:
            derivatives = self.scans.derivatives
            if terminals not in self._firsts:
                first = self.scans.expressions.first
                self._firsts[terminals] = FirstBytes(
                    (terminal, first[expression])
                    for terminal in sorted(terminals)
                    if (expression := self.terminals[terminal]) is not None
                )
            begun = self._begun[terminals, byte] = []
            for terminal in self._firsts[terminals].beginning_with(byte):
                rest = derivatives.derivative(self.terminals[terminal] or EMPTY, byte)
                if derivatives.live(rest):
                    begun.append((terminal, rest))
        return begun

    def _add_after_byte(self, thread: EarleyThread, scan: int, following: set[EarleyThread]) -> None:
        """Add the threads that a thread turns into once its terminal has been read as far as `scan`."""
        if scan == DEAD:
            return
        if self.scans.continues(scan):
            following.add(thread._replace(scan=scan))
        for row, guard in self.endings(thread, scan):
            self._add_between(row, guard, following)

    def _add_between(self, row: int, guard: int, following: set[EarleyThread]) -> None:
        """Add a thread between terminals, and those after terminals that are empty under a guard."""
        queue = [(row, guard)]
        x = self.scans.expressions
        for row, guard in queue:
            if self._can_continue(row, guard):
                following.add(EarleyThread(row, BETWEEN_TERMINALS, False, self.scans.scan(EPSILON, guard)))
            for terminal in self.empty_under_guard & self.rows.rows[row].terminals:
                after = self.rows.advance(row, terminal)
                for end in x.endings[self.terminals[terminal] or EMPTY]:
                    both_guards = self.scans.clean(x.union((guard, end)))
                    if after is not None and (after, both_guards) not in queue:
                        queue.append((after, both_guards))
            if len(queue) > MAX_EMPTY_GUARDS:
                raise GrammarLimitError(f"more than {MAX_EMPTY_GUARDS} look-aheads may occur at one position")

    def _can_continue(self, row: int, guard: int) -> bool:
        """Whether the text can continue or end between terminals: a guard may forbid every continuation."""
        continues = self._can_continue_at.get((row, guard))
        if continues is None:
            _, _, terminals, accepting = self.rows.rows[row]
            continues = accepting or not terminals.isdisjoint(self.specials)
            if not continues and guard == EMPTY:
                continues = bool(terminals)
            elif not continues and terminals:
                expressions = (self.terminals[terminal] for terminal in terminals | self.ignored)
                continues = any(self.scans.possible(one, guard) for one in expressions if one is not None)
            self._can_continue_at[row, guard] = continues
        return continues

    def _needed(self, threads: set[EarleyThread]) -> frozenset[EarleyThread]:
        """A thread between terminals under a guard is subsumed by one in the same row without a guard."""
        unguarded = self.scans.scan(EPSILON, EMPTY)
        rows = {
            thread.row
            for thread in threads
            if thread.terminal == BETWEEN_TERMINALS and thread.scan == unguarded
        }
        return frozenset(
            thread
            for thread in threads
            if thread.terminal != BETWEEN_TERMINALS or thread.scan == unguarded or thread.row not in rows
        )
