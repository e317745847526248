"""Budgets: how many tokens have begun in the terminals, and the parts of several, that a text may be in.

Budgets do not change how a token is read: configurations and masks are those of the grammar without them.
Only between tokens, the threads in terminals whose budgets are spent are dropped, and of threads between
terminals what goes on with their parts, if the text can go on without these threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .configurations import REJECTED, Configurations
from .masks import ConfigurationMasks
from .threads import BETWEEN_TERMINALS, EarleyConfigurations, EarleyThread

Counts = tuple[int, ...]
"""How many tokens have begun in the parts of each level, NONE for no part with a budget."""

NONE = 2**31 - 1


class Place(NamedTuple):
    """Where a text is.

    configuration  all the ways to read it
    spent          for each thread in a terminal or a part with a budget, how many tokens have begun there
    exceeds        whether budgets are spent, but the text cannot go on without these threads
    """

    configuration: int
    spent: Mapping[EarleyThread, Counts] = {}
    exceeds: bool = False


NOWHERE = Place(REJECTED)
"""The place of a text that the grammar does not allow."""


class Places:
    """The places of the texts under one set of tables.

    budgets    as in `Program.budgets`
    terminals  how many terminals there are
    """

    def __init__(
        self,
        configurations: Configurations[Any],
        masks: ConfigurationMasks,
        budgets: Sequence[int],
        terminals: int,
    ) -> None:
        self._configurations: Any = configurations
        self._masks = masks
        levels = len(budgets) // terminals if terminals else 0
        self._none = (0,) * levels
        self._budgets = {i: tuple(budgets[i * levels :][:levels]) for i in range(terminals) if levels}
        self._within: dict[frozenset[int], Counts] = {}
        self.start = Place(configurations.start)

    def after(self, place: Place, data: bytes, configuration: int, token_id: int | None) -> Place:
        """The place in `configuration`, which follows after `data`, the bytes of a token, from `place` on.
        Bytes that are no token spend nothing."""
        if configuration == REJECTED:
            return NOWHERE
        if not self._none:
            return Place(configuration)
        at, spent = place.configuration, dict(place.spent) if data else {}
        for index, byte in enumerate(data):
            spent = self._after_byte(at, spent, byte, int(token_id is not None and not index))
            at = self._configurations.step(at, byte)
        if token_id is not None:
            self._add_whole(place, token_id, spent)
        return self._settled(configuration, spent)

    def _after_byte(
        self, configuration: int, spent: Mapping[EarleyThread, Counts], byte: int, new: int
    ) -> dict[EarleyThread, Counts]:
        """What the threads have spent after a byte, with which `new` tokens begin."""
        configurations: Any = self._configurations
        after: dict[EarleyThread, Counts] = {}
        for thread in configurations.threads[configuration]:
            between = thread.terminal == BETWEEN_TERMINALS
            for reader in configurations.beginnings(thread) if between else (thread,):
                counts = self._counts(reader, spent.get(thread), new, between)
                self._note(after, configurations.thread_step(reader, byte), counts)
        return after

    def _add_whole(self, place: Place, token_id: int, after: dict[EarleyThread, Counts]) -> None:
        """Add to `after` what the threads have spent that follow by a token as a whole."""
        configurations: EarleyConfigurations = self._configurations
        for thread in configurations.threads[place.configuration]:
            if thread.terminal == BETWEEN_TERMINALS:
                for terminal in sorted(
                    configurations.specials.keys() & configurations.rows.rows[thread.row].terminals
                ):
                    counts = self._counts(
                        thread._replace(terminal=terminal), place.spent.get(thread), 1, True
                    )
                    self._note(after, configurations.after_special(thread.row, terminal, token_id), counts)

    def _counts(self, reader: EarleyThread, before: Counts | None, new: int, begun: bool) -> Counts:
        """What has been spent once a thread has read on in its terminal, which it has `begun` with that."""
        own = self._none if reader.ignored else self._budgets[reader.terminal]
        before = before or (NONE,) * len(own)
        return tuple(
            new if spent == NONE or (begun and budget > 0) else spent + new
            for spent, budget in zip(before, own, strict=True)
        )

    def _note(
        self, after: dict[EarleyThread, Counts], threads: Iterable[EarleyThread], counts: Counts
    ) -> None:
        """A thread that comes about in several ways has spent the least: with that, the text can go on in the
        most ways."""
        for thread in threads:
            budgets = self._budgets_of(thread)
            if any(budgets):
                own = [count if budget else NONE for count, budget in zip(counts, budgets, strict=True)]
                after[thread] = tuple(map(min, own, after.get(thread, own)))

    def _budgets_of(self, thread: EarleyThread) -> Counts:
        """The budgets of the terminal of a thread, or of the parts that its row is within."""
        if thread.terminal != BETWEEN_TERMINALS and not thread.ignored:
            return tuple(map(abs, self._budgets[thread.terminal]))
        terminals = self._configurations.rows.rows[thread.row].terminals
        if terminals not in self._within:
            found = self._none
            for terminal in terminals:
                found = tuple(
                    max(0, known, -one) for known, one in zip(found, self._budgets[terminal], strict=True)
                )
            self._within[terminals] = found
        return self._within[terminals]

    def _settled(self, configuration: int, spent: Mapping[EarleyThread, Counts]) -> Place:
        """The place without the threads that have spent their budgets, if the text can go on without them."""
        rest: set[EarleyThread] = set()
        counted: dict[EarleyThread, Counts] = {}
        is_spent = False
        for thread in self._configurations.threads[configuration]:
            counts, budgets = spent.get(thread, ()), self._budgets_of(thread)
            pairs = enumerate(zip(counts, budgets, strict=False))
            over = [level for level, (count, budget) in pairs if 0 < budget <= count < NONE]
            left = self._left(thread, over)
            is_spent |= bool(over)
            rest.update(left)
            self._note(counted, left if counts else (), counts)
        if not is_spent:
            return Place(configuration, spent)
        number = self._configurations.configuration(rest)
        return Place(number, counted) if self._can_go_on(number) else Place(configuration, spent, True)

    def _left(self, thread: EarleyThread, over: Sequence[int]) -> Sequence[EarleyThread]:
        """What is left of a thread that has spent its budgets at the levels `over`."""
        if not over:
            return (thread,)
        if thread.terminal != BETWEEN_TERMINALS and not thread.ignored:
            return ()
        row = self._configurations.rows.rows[thread.row]
        rest = (one for one in row.terminals if any(self._budgets[one][level] < 0 for level in over))
        found: tuple[EarleyThread, ...] = self._configurations.left_without(thread, frozenset(rest))
        return found

    def _can_go_on(self, configuration: int) -> bool:
        if configuration == REJECTED or self._configurations.accepting(configuration):
            return configuration != REJECTED
        return bool(self._masks.mask(configuration).any())
