"""`OpeningMatcher`: an answer under a grammar, which thoughts may precede."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.copying import ForkedByCopy
from ...contract import Work, is_bounded


class OpeningMatcher(ForkedByCopy):
    """A matcher before whose text a start marker may stand: it allows what its `inner` matcher allows, and
    the next token of a marker as long as there has been nothing else.

    is_open  whether markers are allowed.
    taken    how many of the tokens, from the first on, the inner matcher has accepted.
    """

    def __init__(self, inner: Any, markers: Sequence[tuple[int, ...]]) -> None:
        self.inner = inner
        self.is_open = True
        self._markers = markers
        self._longest = max(map(len, markers), default=0)
        self._first: tuple[int, ...] = ()
        """The first tokens, as many as a marker may have."""
        self._count = 0
        self.taken = 0
        self._before: int | None = getattr(inner, "accepted_calls", None)

    @property
    def bounded(self) -> bool:
        return is_bounded(self.inner)

    @property
    def accepted_calls(self) -> int | None:
        """How many tokens it has accepted, if the inner matcher knows that of itself."""
        return None if self._before is None else self._count

    def fill_bitmask(self, bitmask: Any, row: int = 0, work: Work | None = None) -> None:
        if self._goes_on:
            self.inner.fill_bitmask(bitmask, row, **_limits(work))
        else:
            bitmask[row] = 0
        done = self._count
        for marker in self._markers if self.is_open and done < self._longest else ():
            if len(marker) > done and marker[:done] == self._first:
                bitmask.view("uint32")[row, marker[done] // 32] |= 1 << marker[done] % 32

    def accept(self, token_id: int, work: Work | None = None) -> bool:
        count, first = self._count + 1, self._first
        opens = False
        if count <= self._longest:
            first = (*first, token_id)
            opens = self.is_open and any(marker[:count] == first for marker in self._markers)
        limits = () if work is None else (work,)
        takes = self._goes_on and bool(self.inner.accept(token_id, *limits))
        if takes or opens:
            self._first, self._count = first, count
            self.taken += takes
        return takes or opens

    def rollback(self, n: int) -> None:
        self._cut(self._count - n)

    def rewind(self, count: int) -> None:
        """Go back to the first `count` tokens after a call that was interrupted."""
        if self._before is not None:
            self.inner.rewind(self._before + min(self.taken, count))
        self._keep(count)

    def fork(self) -> OpeningMatcher:
        child = OpeningMatcher(self.inner.fork(), self._markers)
        child.is_open, child.taken, child._before = self.is_open, self.taken, self._before
        child._first, child._count = self._first, self._count
        return child

    def is_accepting(self) -> bool:
        return self._goes_on and bool(self.inner.is_accepting())

    def is_terminated(self) -> bool:
        return self._goes_on and bool(self.inner.is_terminated())

    def forced_tokens(self, *, work: Work | None = None) -> list[int]:
        forced = getattr(self.past_opening, "forced_tokens", None)
        if forced is None:
            return []
        tokens: list[int] = forced(**_limits(work))
        return tokens

    @property
    def past_opening(self) -> Any:
        """The inner matcher; None where a marker may begin or goes on."""
        return self.inner if self._goes_on and not (self.is_open and not self._count) else None

    def open_terminals(self) -> Any:
        """As the inner matcher has it, of which nothing is read within a marker."""
        found = self.inner.open_terminals()
        return found if self._goes_on else found * 0

    @property
    def _goes_on(self) -> bool:
        """Whether the inner matcher has accepted all tokens."""
        return self.taken == self._count

    def _cut(self, count: int) -> None:
        if self.taken > count:
            self.inner.rollback(self.taken - count)
        self._keep(count)

    def _keep(self, count: int) -> None:
        """Forget all tokens but the first ones."""
        self._first, self._count, self.taken = self._first[:count], count, min(self.taken, count)


def _limits(work: Work | None) -> dict[str, Work]:
    return {} if work is None else {"work": work}
