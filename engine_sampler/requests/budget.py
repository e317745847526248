"""The budget of a step: how much its grammars and samplers may do, and which requests it leaves out for that.

A step must not wait long for one of its requests. So matchers, and samplers that prepare, count what they do
(`contract.Work`), and a step over n rows gives them `step_work(n)` steps of it:

1. A fifth is kept for accepting the tokens drawn; masks and samplers get the rest, and leave over what they
   do not need. Tokens that are chosen elsewhere get another fifth, from one step to the next.
2. First every request gets an equal part of half of that, which is enough for nearly all.
3. Those that need more take turns of `REQUEST_WORK`, as long as anything is left. Whoever had the last turn
   longest ago comes first.
4. A request that is still not done is postponed: its row gives no token, nothing about it has changed, and
   the next step continues where this one has stopped.
5. Some work cannot be divided. So after `SHORT_TURNS` turns that did not suffice, a turn gets `REQUEST_WORK`
   even if less is left; and after `MOST_TURNS` the request ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..contract import Work
from ..contract.work import REQUEST_WORK, STEP_WORK, step_work

SHORT_TURNS, MOST_TURNS = 31, 100_000

_KEPT = 5
"""Accepts get this fraction of a step's work."""
_IN_PARTS = 2
"""First attempts get this fraction of the rest."""


class Share:
    """What a request, or a beam search, has had of the budget.

    postponed  whether the step leaves it out.
    turns      how many turns it has had since it last got what it needed.
    last_turn  the number of the last one, among the turns of all.
    """

    __slots__ = ("last_turn", "postponed", "turns")

    def __init__(self, last_turn: int = 0) -> None:
        self.postponed = False
        self.turns = 0
        self.last_turn = last_turn


class Budget:
    """The work of each step, divided by the rule above. What it gives for the next calls is always the same
    object, or None if nothing is bounded."""

    def __init__(self, vocab_size: int, postpone: bool = True) -> None:
        self._vocab_size = vocab_size
        self._work = Work(0, 0) if postpone else None
        self._elsewhere = Work(0, STEP_WORK // _KEPT) if postpone else None
        self._kept = 0
        self._rows: int | None = None
        self._is_divided = True
        """Whether the work of the step that has begun has been worked out."""
        self._rows_elsewhere: int | None = None
        self._numbers = itertools.count(1)

    def start(self, rows: int | None = None) -> None:
        """Begin a step over `rows` rows; without them, what is done during the forward pass."""
        self._rows, self._is_divided = rows, False  # most steps never ask

    def start_elsewhere(self, rows: int) -> None:
        """Allow what tokens chosen elsewhere may take until the next step, of `rows` rows."""
        self._rows_elsewhere = rows

    def start_accepts(self) -> None:
        """Give out what was kept for accepts."""
        work = self._of_step()
        if work is not None and self._kept:
            work.allow(0, max(work.left, 0) + self._kept)
            self._kept = 0

    def parts(self, count: int) -> Work | None:
        """The work for the first attempts of `count` requests. If they use up all of it in vain, a turn is
        left: else many requests that need a little more than their part would wait for ever."""
        work = self._of_step()
        if work is not None:
            work.allow(max(work.left // (_IN_PARTS * max(count, 1)), 1))
        return work

    def turns(self, waiting: Iterable[int], requests: Sequence[Any]) -> Iterator[int]:
        """The indices `waiting` of `requests`, each when it has its turn, as far as the work lasts."""
        for i in sorted(waiting, key=lambda i: requests[i].share.last_turn):
            work = self._of_step()
            if work is None or work.left <= 0:
                return
            self.turn(requests[i].share)
            yield i

    def turn(self, share: Share) -> Work | None:
        """The work for one turn, in a step."""
        return self._give_turn(self._of_step(), share)

    def turn_elsewhere(self, share: Share) -> Work | None:
        """The work for one turn with a token chosen elsewhere."""
        if self._elsewhere is not None and self._rows_elsewhere is not None:
            steps = min(step_work(self._rows_elsewhere, self._vocab_size), STEP_WORK)
            self._elsewhere.allow(0, steps // _KEPT)
            self._rows_elsewhere = None
        return self._give_turn(self._elsewhere, share)

    def _of_step(self) -> Work | None:
        """The work of the step that has begun, divided when it is first asked for."""
        if not self._is_divided and self._work is not None:
            rows, self._is_divided = self._rows, True
            steps = STEP_WORK if rows is None else min(step_work(rows, self._vocab_size), STEP_WORK)
            self._kept = steps // _KEPT
            self._work.allow(0, steps - self._kept)
        return self._work

    def _give_turn(self, work: Work | None, share: Share) -> Work | None:
        share.postponed = False
        if work is not None:
            is_long = share.turns % (SHORT_TURNS + 1) == SHORT_TURNS
            work.allow(REQUEST_WORK, REQUEST_WORK if is_long else None)
            share.last_turn = next(self._numbers)
            share.turns += 1
        return work
