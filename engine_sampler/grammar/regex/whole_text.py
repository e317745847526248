"""`re.match` on a text that is known to its end, by the threads of `ordered`: in linear time but for what is
new, and counted."""

from __future__ import annotations

from typing import TypeAlias

from ..work import spend
from .ordered import END, MATCHED, LookbehindState, Machine, Thread, holds_at_end
from .tree import Node

_CHARACTERS_PER_STEP = 4

Reading: TypeAlias = "tuple[tuple[LookbehindState, ...], tuple[tuple[Thread, bool], ...]]"
"""The state of each lookbehind, and each thread with whether it has ended before the end of the text."""


class WholeText:
    """Whether `re.match` matches all of a text, in the way that it prefers. The text is known to its end, so
    every lookaround is decided as `re` decides it.

    max_work   for what is new in one text

    Raises GrammarError for a lookaround within a lookbehind, GrammarLimitError.
    """

    def __init__(self, tree: Node, max_work: int) -> None:
        self._max_work = max_work
        self._machine = Machine(tree, True, max_work)
        self._states: list[Reading] = []
        self._numbers: dict[Reading, int] = {}
        self._steps: dict[tuple[int, int], int] = {}
        lookbehinds, threads = self._machine.start()
        self._start = self._number((lookbehinds, tuple((one, False) for one in dict.fromkeys(threads))))

    def is_matched(self, text: str) -> bool:
        """Whether the match of a text is all of it; nothing stands before the text."""
        spend(1 + len(text) // _CHARACTERS_PER_STEP)
        self._machine.work = self._max_work
        state, steps = self._start, self._steps
        for c in text:
            key = state, self._machine.alphabet.atom_of(ord(c))
            if key not in steps:
                steps[key] = self._number(self._read(*key))
            state = steps[key]
        threads = self._states[state][1]
        return not next((has_ended for one, has_ended in threads if holds_at_end(one)), True)

    def _number(self, state: Reading) -> int:
        if state not in self._numbers:
            self._numbers[state] = len(self._states)
            self._states.append(state)
        return self._numbers[state]

    def _read(self, state: int, atom: int) -> Reading:
        machine = self._machine
        before, threads = self._states[state]
        lookbehinds = machine.read_lookbehinds(before, atom)
        results = machine.results(lookbehinds)
        threads_after: dict[Thread, bool] = {}
        for thread, has_ended in threads:
            for one in machine.read(thread, atom, results, True):
                threads_after.setdefault(one, has_ended or thread[0] == END)
            if MATCHED in threads_after:  # the others are never preferred
                break
        return lookbehinds, tuple(threads_after.items())
