"""Calls that may do little work at a time, and the laws of bounded matchers, a part of `MatcherContract`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..contract import UnfinishedError, Work, bitmask_words, is_bounded
from ..tokenizer import Tokenizer
from .search.searching import Searching

T = TypeVar("T")

BOUNDED_CALLS = ("fill_bitmask", "accept", "forced_tokens")

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


class BoundedLaws(Searching):
    """What holds of calls that are given `work`. `MatcherContract` has the attributes that these laws use."""

    tokenizer: ClassVar[Tokenizer]
    rounds: ClassVar[int]
    matcher: Any
    random_tokens: Any
    view: Any
    expect_view: Any
    text: Any

    def test_work_is_for_bounded_matchers(self) -> None:
        matcher = self.matcher()
        calls = {name: getattr(matcher, name) for name in BOUNDED_CALLS if hasattr(matcher, name)}
        taking = [name for name, call in calls.items() if _takes_work(call)]
        if is_bounded(matcher):
            missing = [name for name in calls if name not in taking]
            assert not missing, f"the matcher is bounded, but {', '.join(missing)} takes no work"
        else:
            assert not taking, f"{', '.join(taking)} takes work, which it never gets: bounded is not True"

    def test_little_work_at_a_time_changes_no_result(self) -> None:
        at_once, in_parts = WorkCounter(), WorkCounter()
        for number in self.numbers(self.rounds):
            whole, parted, tokens = self.matcher(), self.matcher(), self.random_tokens(number)
            if not is_bounded(whole):
                return
            for at in range(len(tokens) + 1):
                where = f"after {self.text(tokens[:at])!r}"
                for call in (self._mask, self._forced):
                    right = at_once.at_once(partial(call, whole))
                    found = in_parts.in_parts(partial(call, parted), where)
                    assert found == right, f"little work at a time gives {found}, not {right}, {where}"
                if at < len(tokens):
                    at_once.at_once(partial(self._accept, whole, tokens[at]))
                    in_parts.in_parts(partial(self._accept, parted, tokens[at]), where)
        in_parts.expect_like(at_once)

    # --- helpers ---------------------------------------------------------------------------------

    def _mask(self, matcher: Any, work: Work) -> list[int]:
        """The words of the mask of the next token."""
        bitmask = np.zeros((1, bitmask_words(len(self.tokenizer))), np.int32)
        matcher.fill_bitmask(bitmask, 0, work=work)
        return bitmask[0].tolist()

    def _forced(self, matcher: Any, work: Work) -> list[int]:
        """The forced tokens; [] for a matcher without them."""
        return list(matcher.forced_tokens(work=work)) if hasattr(matcher, "forced_tokens") else []

    def _accept(self, matcher: Any, token: int, work: Work) -> None:
        """Accept a token; if that is unfinished, it must have changed nothing."""
        before = self.view(matcher)
        where = f"for {token}, which may follow"
        try:
            assert matcher.accept(token, work=work), f"accept gives False {where}"
        except UnfinishedError:
            self.expect_view(matcher, before, f"after an accept that is unfinished, {where}")
            raise


def _takes_work(call: Any) -> bool:
    return "work" in inspect.signature(call).parameters
