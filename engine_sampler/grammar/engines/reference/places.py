"""Budgets: how many tokens have begun in the terminals that a text may be in.

Budgets do not change how a token is read: configurations and masks are those of the grammar without them.
Only between tokens, the threads in terminals whose budgets are spent are dropped, if the text can go on
without these threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .configurations import REJECTED, Configurations
from .masks import ConfigurationMasks
from .threads import BETWEEN_TERMINALS, EarleyThread


class Place(NamedTuple):
    """Where a text is.

    configuration  all the ways to read it
    spent          for each thread in a terminal with a budget, how many tokens have begun there
    exceeds        whether budgets are spent, but the text cannot go on without these threads
    """

    configuration: int
    spent: Mapping[EarleyThread, int] = {}
    exceeds: bool = False


NOWHERE = Place(REJECTED)
"""The place of a text that the grammar does not allow."""


class Places:
    """The places of the texts under one set of tables.

    budgets   how many tokens may begin in each terminal, 0 for any number; empty without budgets
    """

    def __init__(
        self, configurations: Configurations[Any], masks: ConfigurationMasks, budgets: Sequence[int]
    ) -> None:
        self._configurations = configurations
        self._masks = masks
        self._budgets = {terminal: budget for terminal, budget in enumerate(budgets) if budget}
        self.start = Place(configurations.start)

    def after(self, place: Place, data: bytes, configuration: int, *, is_token: bool) -> Place:
        """The place in `configuration`, which follows after `data` from `place` on. Bytes that are no token
        spend nothing."""
        if configuration == REJECTED:
            return NOWHERE
        if not self._budgets:
            return Place(configuration)
        at, spent = place.configuration, place.spent
        for index, byte in enumerate(data):
            spent = self._after_byte(at, spent, byte, int(is_token and not index))
            at = self._configurations.step(at, byte)
        return self._settled(configuration, spent)

    def _after_byte(
        self, configuration: int, spent: Mapping[EarleyThread, int], byte: int, new: int
    ) -> dict[EarleyThread, int]:
        """What the threads have spent after a byte, with which `new` tokens begin. A thread that comes about
        in several ways has spent the least: with that, the text can go on in the most ways."""
        after: dict[EarleyThread, int] = {}
        for thread in self._configurations.threads[configuration]:
            for following in self._configurations.thread_step(thread, byte):
                if following.terminal in self._budgets and not following.ignored:
                    tokens = new + (0 if thread.terminal == BETWEEN_TERMINALS else spent[thread])
                    after[following] = min(tokens, after.get(following, tokens))
        return after

    def _settled(self, configuration: int, spent: Mapping[EarleyThread, int]) -> Place:
        """The place without the threads that have spent their budgets, if the text can go on without them."""
        over = {thread for thread, tokens in spent.items() if tokens >= self._budgets[thread.terminal]}
        if not over:
            return Place(configuration, spent)
        rest = self._configurations.configuration(
            thread for thread in self._configurations.threads[configuration] if thread not in over
        )
        if not self._can_go_on(rest):
            return Place(configuration, spent, True)
        return Place(rest, {thread: tokens for thread, tokens in spent.items() if thread not in over})

    def _can_go_on(self, configuration: int) -> bool:
        if configuration == REJECTED or self._configurations.accepting(configuration):
            return configuration != REJECTED
        return bool(self._masks.mask(configuration).any())
