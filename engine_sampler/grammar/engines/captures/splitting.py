"""A text split into the terminals of its grammar.

The configurations of an engine are all the ways to read a text, and know nothing of where their parts began.
So a text is followed forwards once; then backwards, by the threads from which its end is reached; and then
these are walked from its beginning: of all terminals that may be next, the longest are taken. Ignored text
comes after all others, and a token that the grammar names is that token where it can be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Any, NamedTuple

from ...errors import GrammarError
from ..reference.configurations import REJECTED, Configurations
from ..reference.lexing import LalrConfigurations
from ..reference.threads import EarleyConfigurations
from ..steps import Steps
from .threads import IGNORED, EarleyThreads, LalrThreads, Terminals, Threads
from .units import Units

_Groups = dict[tuple[int, ...], tuple[set[int], set[Any]]]
"""Threads between terminals, and which terminals have ended right before them: by whether that is ignored
text, and by those after it that are read as the empty text."""


class TerminalSpan(NamedTuple):
    """One of some terminals, from unit `start` of a text up to `end`."""

    terminals: tuple[int, ...]
    start: int
    end: int


class Split(NamedTuple):
    """A text as terminals.

    pieces    those that have ended, without ignored text
    is_whole  whether the text is in the language; else it is the beginning of such texts
    next      the terminals that may have begun at the end of such a beginning; () if there is none
    """

    pieces: list[TerminalSpan]
    is_whole: bool
    next: tuple[int, ...]


def split(configurations: Configurations[Any], threads: Threads, units: Units, steps: Steps) -> Split:
    """The split of a text. Raises GrammarError for a text that is not the beginning of one of the language,
    GrammarLimitError for one that needs too many steps."""
    reached = _forwards(configurations, units, steps)
    is_whole = configurations.accepting(reached[-1])
    ends = configurations.threads[reached[-1]]
    last = frozenset(filter(threads.accepts, ends) if is_whole else ends)
    live = _backwards(configurations, threads, units, reached, last, steps)
    groups = _grouped(threads.beginnings(live[0]))
    return _Walk(threads, units, live, steps).split(groups, is_whole)


def _backwards(
    configurations: Configurations[Any],
    threads: Threads,
    units: Units,
    reached: Sequence[int],
    last: frozenset[Any],
    steps: Steps,
) -> list[frozenset[Any]]:
    """Before each unit, the threads from which one of the `last` is reached, and these behind all."""
    live = [last]
    known: dict[tuple[int, int, Set[Any]], frozenset[Any]] = {}
    for at in range(len(units.units) - 1, -1, -1):
        key = reached[at], units.units[at], live[-1]
        leading = known.get(key)
        if leading is None:
            candidates = configurations.threads[reached[at]]
            steps.spend(1 + len(candidates))
            leading = known[key] = frozenset(
                thread for thread in candidates if any(threads.after(thread, *key[1:]))
            )
        if at in units.named:
            end, token_id = units.named[at]
            behind = live[len(units.units) - end]
            candidates = configurations.threads[reached[at]]
            leading = leading.union(
                thread for thread in candidates if any(threads.after(thread, -1 - token_id, behind))
            )
        live.append(leading)
    return live[::-1]


def threads_of(configurations: Configurations[Any]) -> Threads:
    """The threads of either parser."""
    if isinstance(configurations, LalrConfigurations):
        return LalrThreads(configurations)
    assert isinstance(configurations, EarleyConfigurations)
    return EarleyThreads(configurations)


def _forwards(configurations: Configurations[Any], units: Units, steps: Steps) -> list[int]:
    """The configuration before each unit, and after the last one."""
    at = configurations.start
    reached = [at]
    waiting: dict[int, int] = {}
    for number, unit in enumerate(units.units):
        steps.spend()
        if number in units.named:
            end, token_id = units.named[number]
            waiting[end] = configurations.special_step(at, token_id)
        at = configurations.step(at, unit) if unit >= 0 else configurations.special_step(at, -1 - unit)
        if number + 1 in waiting:
            at = configurations.either(waiting.pop(number + 1), at)
        if at == REJECTED and not waiting:
            raise GrammarError(f"the text leaves the grammar behind its first {units.offsets[number]} bytes")
        reached.append(at)
    return reached


class _Walk:
    """The walk over the live threads of one text."""

    def __init__(self, threads: Threads, units: Units, live: list[frozenset[Any]], steps: Steps) -> None:
        self._threads = threads
        self._units = units
        self._live = live
        self._steps = steps

    def split(self, groups: _Groups, is_whole: bool) -> Split:
        """The split, from threads between terminals on."""
        pieces: list[TerminalSpan] = []
        at = end = 0
        while True:
            kind = min(groups)
            terminals, between = groups[kind]
            if not kind[0]:
                pieces.append(TerminalSpan(tuple(sorted(terminals)), at, end))
            pieces += (TerminalSpan((terminal,), end, end) for terminal in kind[1:])
            at = end
            if at == len(self._units.units):
                return Split(pieces, is_whole, ())
            end, groups, running = self._longest(at, between)
            if not groups:
                begun = set(map(self._threads.terminal, running)) - {IGNORED}
                return Split(pieces, is_whole, tuple(sorted(begun)))

    def _longest(self, start: int, between: Set[Any]) -> tuple[int, _Groups, Set[Any]]:
        """Where the longest terminal from `start` on ends, and the threads there; if the text ends within it,
        the threads there, which are in terminals."""
        if start in self._units.named:
            end, token_id = self._units.named[start]
            if groups := _grouped(self._ends(between, -1 - token_id, end)):
                return end, groups, set()
        end, longest, running = start, _Groups(), between
        for at in range(start, len(self._units.units)):
            unit, live = self._units.units[at], self._live[at + 1]
            self._steps.spend(1 + len(running))
            if groups := _grouped(self._ends(running, unit, at + 1)):
                end, longest = at + 1, groups
            following = {after for one in running for after in self._threads.after(one, unit, live)}
            running = {one for one in following if not self._threads.is_between(one)}
            if not running:
                return end, longest, running
        return end, {}, running

    def _ends(self, running: Set[Any], unit: int, at: int) -> Iterator[tuple[Terminals, Any]]:
        """The threads between terminals to which a unit leads, with the terminals that have ended."""
        for thread in running:
            for after in self._threads.after(thread, unit, self._live[at]):
                if self._threads.is_between(after):
                    for terminals in self._threads.ended(thread, unit, after):
                        yield terminals, after


def _grouped(ends: Iterator[tuple[Terminals, Any]]) -> _Groups:
    groups: _Groups = {}
    for (terminal, *empty), thread in ends:
        terminals, threads = groups.setdefault((int(terminal == IGNORED), *empty), (set(), set()))
        terminals.add(terminal)
        threads.add(thread)
    return groups
