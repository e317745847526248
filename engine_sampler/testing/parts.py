"""Calls that may do little work at a time, repeated until they are done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..contract import UnfinishedError, Work

T = TypeVar("T")

LEAST = 500
"""The steps that the first attempt may do, about 10 µs; each one may do a tenth more than the one before."""

PLENTY = 10**12
"""More steps than any call does."""

_MOST_CALLS = 200
_SLACK = 5 * LEAST


class WorkCounter:
    """Counts what calls have done."""

    def __init__(self) -> None:
        self.steps = 0

    def at_once(self, call: Callable[[Work], T]) -> T:
        """The result of a call that may do as much as it needs."""
        try:
            return self._counted(call, PLENTY)
        except UnfinishedError:
            raise AssertionError("UnfinishedError is raised, but not for want of work") from None

    def in_parts(self, call: Callable[[Work], T], where: str) -> T:
        """The result of a call that stops again and again, and is repeated."""
        allowed = LEAST
        for _ in range(_MOST_CALLS):
            before = self.steps
            try:
                return self._counted(call, allowed)
            except UnfinishedError:
                used = self.steps - before
                assert used > 0, f"UnfinishedError is raised before any work is used {where}"
            allowed += allowed // 10
        raise AssertionError(f"a call is unfinished after {_MOST_CALLS} repetitions {where}")

    def _counted(self, call: Callable[[Work], T], allowed: int) -> T:
        work = Work(allowed, allowed)
        try:
            return call(work)
        finally:
            assert work.left <= allowed, f"the work that is left has grown from {allowed} to {work.left}"
            self.steps += allowed - work.left

    def expect_like(self, at_once: WorkCounter) -> None:
        """Raise AssertionError unless about as much was done in parts as at once."""
        most = 3 * at_once.steps + _SLACK
        assert self.steps <= most, (
            f"with little work at a time it takes {self.steps} steps in all, at once {at_once.steps}: a call "
            "that is repeated must continue where it stopped"
        )
        assert at_once.steps > 0, "no call counts what it does: see engine_sampler.contract.spending"
