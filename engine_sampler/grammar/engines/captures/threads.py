"""Which terminals end as threads of an engine go on: what the engine itself does not keep.

after(thread, unit, live)     the threads among `live` that a unit of the text leads to
ended(thread, unit, after)    the terminals that have ended then, if `after` is between terminals
beginnings(live)              the threads at the beginning of a text, with the terminals before them
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Set
from typing import Any, TypeAlias

from ...derivatives.expressions import EMPTY, EPSILON
from ..reference import lexing
from ..reference.configurations import Configurations
from ..reference.lexers import IGNORED_SYMBOL
from ..reference.lexing import LalrConfigurations, LalrThread
from ..reference.threads import BETWEEN_TERMINALS, EarleyConfigurations, EarleyThread

IGNORED = 1 << 30
"""What is skipped, among terminals: after all others."""

Terminals: TypeAlias = tuple[int, ...]
"""A terminal or IGNORED, and those after it that are read as the empty text."""


class Threads(ABC):
    """See the module."""

    def __init__(self, configurations: Configurations[Any]) -> None:
        self._all = configurations
        self._special_steps: dict[tuple[Any, int], Iterable[Any]] = {}

    def after(self, thread: Any, unit: int, live: Set[Any]) -> Iterator[Any]:
        """The threads of `live` that a thread turns into after a unit."""
        for after in self._all.thread_step(thread, unit) if unit >= 0 else self._special_step(thread, unit):
            if after in live:
                yield after
            elif (wider := self._wider(after)) in live:
                yield wider

    def accepts(self, thread: Any) -> bool:
        """Whether a text may end in a thread."""
        return self.is_between(thread) and self._all.accepting(self._all.configuration((thread,)))

    def _special_step(self, thread: Any, unit: int) -> Iterable[Any]:
        if not self.is_between(thread):
            return ()
        found = self._special_steps.get((thread, unit))
        if found is None:
            after = self._all.special_step(self._all.configuration((thread,)), -1 - unit)
            found = self._special_steps[thread, unit] = self._all.threads[after]
        return found

    def _wider(self, thread: Any) -> Any:
        """The thread that stands for this one where both are possible."""
        return thread

    @abstractmethod
    def is_between(self, thread: Any) -> bool: ...

    @abstractmethod
    def terminal(self, thread: Any) -> int:
        """The terminal of a thread that is in one."""

    @abstractmethod
    def ended(self, thread: Any, unit: int, after: Any) -> Iterator[Terminals]: ...

    @abstractmethod
    def beginnings(self, live: Set[Any]) -> Iterator[tuple[Terminals, Any]]: ...


class EarleyThreads(Threads):
    """Of an Earley parser."""

    def __init__(self, configurations: EarleyConfigurations) -> None:
        super().__init__(configurations)
        self._configurations = configurations
        self._rows = configurations.rows
        self._free = configurations.scans.scan(EPSILON, EMPTY)
        self._at_once: dict[tuple[EarleyThread, int], list[tuple[int, int]]] = {}
        self._paths: dict[tuple[int, int], Terminals | None] = {}

    def is_between(self, thread: EarleyThread) -> bool:
        return thread.terminal == BETWEEN_TERMINALS

    def terminal(self, thread: EarleyThread) -> int:
        return IGNORED if thread.ignored else thread.terminal

    def _wider(self, thread: EarleyThread) -> EarleyThread:
        return thread._replace(scan=self._free) if thread.terminal == BETWEEN_TERMINALS else thread

    def beginnings(self, live: Set[EarleyThread]) -> Iterator[tuple[Terminals, EarleyThread]]:
        for thread in live:
            path = self._empty_path(0, thread.row)
            if thread.terminal == BETWEEN_TERMINALS and path is not None:
                yield (IGNORED, *path), thread

    def ended(self, thread: EarleyThread, unit: int, after: EarleyThread) -> Iterator[Terminals]:
        if thread.terminal != BETWEEN_TERMINALS:
            row = thread.row if thread.ignored else self._rows.advance(thread.row, thread.terminal)
            found: Iterable[tuple[int, int | None]] = [(self.terminal(thread), row)]
        elif unit < 0:
            found = self._specials(thread.row, -1 - unit)
        else:
            found = self._of_one_byte(thread, unit)
        for terminal, row in found:
            path = None if row is None else self._empty_path(row, after.row)
            if path is not None:
                yield terminal, *path

    def _specials(self, row: int, token_id: int) -> Iterator[tuple[int, int | None]]:
        for terminal in self._rows.rows[row].terminals & self._configurations.specials.keys():
            if token_id in self._configurations.specials[terminal]:
                yield terminal, self._rows.advance(row, terminal)

    def _of_one_byte(self, thread: EarleyThread, byte: int) -> list[tuple[int, int]]:
        """The terminals that a byte may be the whole of, each with the row after it."""
        key = thread, byte
        if key not in self._at_once:
            configurations, scans = self._configurations, self._configurations.scans
            first = scans.expressions.first
            self._at_once[key] = [
                (self.terminal(begun), row)
                for begun in configurations.beginnings(thread)
                if first[scans.pairs[begun.scan][0]] >> byte & 1
                for row, _ in configurations.endings(begun, scans.step(begun.scan, byte))
            ]
        return self._at_once[key]

    def _empty_path(self, row: int, target: int) -> Terminals | None:
        """The terminals that lead from a row to another one as the empty text; None if none do."""
        if row == target:
            return ()
        key = row, target
        if key not in self._paths:
            self._paths[key] = self._search(row, target)
        return self._paths[key]

    def _search(self, row: int, target: int) -> Terminals | None:
        paths: dict[int, Terminals] = {row: ()}
        queue = [row]
        for at in queue:
            for terminal in sorted(self._configurations.empty_under_guard & self._rows.rows[at].terminals):
                after = self._rows.advance(at, terminal)
                if after is not None and after not in paths:
                    paths[after] = (*paths[at], terminal)
                    queue.append(after)
        return paths.get(target)


class LalrThreads(Threads):
    """Of an LALR parser with its lexers."""

    def __init__(self, configurations: LalrConfigurations) -> None:
        super().__init__(configurations)
        self._configurations = configurations
        self._rows = configurations.rows

    def is_between(self, thread: LalrThread) -> bool:
        return thread.symbol == lexing.BETWEEN_TERMINALS

    def terminal(self, thread: LalrThread) -> int:
        return IGNORED if thread.symbol == IGNORED_SYMBOL else thread.symbol

    def beginnings(self, live: Set[LalrThread]) -> Iterator[tuple[Terminals, LalrThread]]:
        for thread in live:
            yield (IGNORED,), thread

    def ended(self, thread: LalrThread, unit: int, after: LalrThread) -> Iterator[Terminals]:
        configurations = self._configurations
        if not self.is_between(thread):
            symbols = [thread.symbol]
        elif unit < 0:
            symbols = [one for one, ids in configurations.specials.items() if -1 - unit in ids]
        else:
            matches = configurations.lexers.begin_with(self._rows.state(thread.row), unit)
            symbols = [match.symbol for match, _ in matches if configurations.expressions.endings[match.rest]]
        for symbol in symbols:
            row = thread.row if symbol == IGNORED_SYMBOL else self._rows.advance(thread.row, symbol)
            if row == after.row:
                yield (IGNORED if symbol == IGNORED_SYMBOL else symbol,)
