"""The grammar masks of a step: filled during the forward pass, or when the step needs them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ..contract import bitmask_words, failure
from ..grammar.engines.native import NativeMatcher, Work, fill_rows, load_library
from ..grammar.errors import UnfinishedError
from ..grammar.limits import REQUEST_WORK, STEP_WORK
from .constraint import Constraint
from .request import Request

_ACCEPT_SHARE = 5
"""Accepts get this fraction of a step's work, masks the rest."""


class GrammarWork:
    """Divides the work that native grammars may do in one step among its requests.

    First each request gets an equal part, which is enough for nearly all of them. Those that need more take
    turns, in this step and in the next ones: whoever had the last turn longest ago comes first.

    turns  the numbers of the turns to come, the same for all that give turns to the same requests.
    work   what is left; None if it is not bounded, which takes the native library.
    """

    def __init__(self, turns: Iterator[int], bounded: bool = True) -> None:
        self.work = Work(0, 0) if bounded and load_library() is not None else None
        self._turns = turns

    def start(self, steps: int) -> None:
        """A new step, whose grammars may do `steps` of work."""
        if self.work is not None:
            self.work.allow(0, steps)

    def divide(self, count: int) -> Work | None:
        """The work for the first attempts of `count` requests."""
        if self.work is not None:
            self.work.allow(max(self.work.left // max(count, 1), 1))
        return self.work

    def in_turn(self, waiting: Iterable[int], requests: Sequence[Request]) -> Iterator[int]:
        """The indices `waiting` of `requests`, as far as the work lasts."""
        grammars = {i: grammar for i in waiting if (grammar := requests[i].grammar) is not None}
        for i in sorted(grammars, key=lambda i: grammars[i].turn):
            if self.work is None or self.work.left <= 0:
                return
            self.work.allow(REQUEST_WORK)
            grammars[i].turn = next(self._turns)
            grammars[i].deferred = False
            yield i


class GrammarMasks:
    """One mask for each request of the last batch, int32 [requests, ceil(vocab / 32)].

    defer     whether requests are deferred that need more work than a step may do.
    accepts   the work for the accepts of a step.
    """

    def __init__(self, vocab_size: int, defer: bool = True) -> None:
        self._words = bitmask_words(vocab_size)
        self._requests: list[Request] = []
        self._bitmask = np.zeros((0, self._words), np.int32)
        turns = itertools.count(1)
        self._fills, self.accepts = GrammarWork(turns, defer), GrammarWork(turns, defer)
        self._is_new_step = True
        self._seconds = 0.0

    def take_seconds(self) -> float:
        """The time that `fill` has taken since this was asked last."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def start_step(self) -> None:
        """Allow the work of a new step, from the first mask on: a step without masks costs nothing here."""
        self._is_new_step = True

    def _allow_work(self) -> None:
        if not self._is_new_step:
            return
        self._is_new_step = False
        self.accepts.start(STEP_WORK // _ACCEPT_SHARE)
        self._fills.start(STEP_WORK - STEP_WORK // _ACCEPT_SHARE)

    def fill(self, requests: list[Request], indices: Sequence[int]) -> np.ndarray:
        """The masks of requests[i] for each i of `indices`, in row i; other rows are not set.

        A mask that is filled already and still holds is left as it is. A grammar that fails ends its request.
        One that needs more work than is left in this step `deferred`, its row is all 0, and the next call
        continues. The array is reused by the next call.
        """
        started = time.perf_counter()
        self._fill(requests, indices)
        self._seconds += time.perf_counter() - started
        return self._bitmask

    def _fill(self, requests: list[Request], indices: Sequence[int]) -> None:
        self._allow_work()
        if requests is not self._requests:
            self._requests = requests
            self._bitmask = np.zeros((len(requests), self._words), np.int32)
            for request in requests:
                if request.grammar is not None:
                    request.grammar.mask_ready = request.grammar.deferred = False
        missing = [i for i in indices if not _is_ready(requests[i])]
        if missing:
            self._fill_native(requests, missing)
        for i in missing:
            if not _is_done(requests[i]):
                requests[i].fill_mask(self._bitmask, i)

    def can_fill(self, requests: Sequence[Request]) -> bool:
        """Whether the masks of all `requests` are found within the work of the step. Those that fail are."""
        self._allow_work()
        work = self._fills.divide(len(requests))
        bitmask = np.zeros((1, self._words), np.int32)
        for request in requests:
            if work is not None and request.grammar is not None and _is_native(request):
                try:
                    request.grammar.matcher.fill_within(bitmask, 0, work)
                except UnfinishedError:
                    return False
                except Exception:
                    continue  # found again, and reported, where the mask is used
        return True

    def _fill_native(self, requests: list[Request], indices: list[int]) -> None:
        """Fill the rows of native matchers in one call, then what is unfinished, in turn."""
        native = [i for i in indices if _is_native(requests[i])]
        if not native:
            return
        self._fill_rows(requests, native, self._fills.divide(len(native)))
        waiting = [i for i in native if requests[i].grammar.deferred]  # type: ignore[union-attr]
        for i in self._fills.in_turn(waiting, requests):
            self._fill_rows(requests, [i], self._fills.work)

    def _fill_rows(self, requests: list[Request], indices: list[int], work: Work | None) -> None:
        grammars = [_grammar(requests[i]) for i in indices]
        faults = fill_rows([grammar.matcher for grammar in grammars], self._bitmask, indices, work)
        for i, grammar, fault in zip(indices, grammars, faults or (), strict=False):
            grammar.mask_ready = fault is None
            grammar.deferred = isinstance(fault, UnfinishedError)
            if fault is not None and not grammar.deferred:
                requests[i].fail(failure("the grammar", fault))


def _grammar(request: Request) -> Constraint:
    assert request.grammar is not None
    return request.grammar


def _is_native(request: Request) -> bool:
    return request.grammar is not None and type(request.grammar.matcher) is NativeMatcher


def _is_ready(request: Request) -> bool:
    """Whether the request needs no mask, or has it."""
    grammar = request.grammar
    if grammar is None:
        return True
    grammar.deferred = False
    return grammar.mask_ready


def _is_done(request: Request) -> bool:
    """Whether nothing more can be done for the request's mask in this step."""
    grammar = request.grammar
    return grammar is None or grammar.mask_ready or grammar.deferred or not request.live
