"""The grammar masks of a step: filled during the forward pass, or when the step needs them."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Protocol

import numpy as np

from ..contract import INTERRUPTIONS, Backend, PreparedMasks, bitmask_words, call_plugin, failure
from ..grammar.engines.native import Work, fill_rows, fills_within, load_library
from ..grammar.errors import UnfinishedError
from ..grammar.limits import REQUEST_WORK, STEP_WORK, step_work
from .constraint import Constraint
from .request import Request

logger = logging.getLogger("engine_sampler")

_GRAMMAR = attrgetter("grammar")
_GUIDANCE = attrgetter("guidance")

_ACCEPT_SHARE = 5
"""Accepts get this fraction of a step's work, and what masks have left of the rest."""

_SHORT_TURNS = 31
"""After so many turns that did not suffice, a request gets one of `REQUEST_WORK`: some work cannot be
divided."""


class Turns(Protocol):
    """What has turns: a grammar, the guidance of one, or a beam search.

    deferred     whether the step must leave out the request: its work did not finish.
    turn         the number of the last turn it was given.
    short_turns  how many turns since it finished its work did not suffice for it.
    """

    deferred: bool
    turn: int
    short_turns: int


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

    @property
    def left(self) -> int:
        """What is left of the work of this step."""
        return 0 if self.work is None else max(self.work.left, 0)

    def start(self, steps: int) -> None:
        """A new step, whose grammars may do `steps` of work."""
        if self.work is not None:
            self.work.allow(0, steps)

    def divide(self, count: int) -> Work | None:
        """The work for the first attempts of `count` requests."""
        if self.work is not None:
            self.work.allow(max(self.work.left // max(count, 1), 1))
        return self.work

    def in_turn(
        self, waiting: Iterable[int], requests: Sequence[Request], part: Callable[..., Any] = _GRAMMAR
    ) -> Iterator[int]:
        """The indices `waiting` of `requests`, as far as the work lasts; `part` is what has turns."""
        parts = {i: found for i in waiting if (found := part(requests[i])) is not None}
        for i in sorted(parts, key=lambda i: parts[i].turn):
            if self.work is None or self.work.left <= 0:
                return
            self.give_turn(parts[i])
            yield i

    def give_turn(self, part: Turns) -> Work | None:
        """The work for one turn of a grammar or a guidance."""
        if self.work is not None:
            is_long = part.short_turns >= _SHORT_TURNS
            self.work.allow(REQUEST_WORK, REQUEST_WORK if is_long else None)
            part.turn = next(self._turns)
            part.short_turns = 0 if is_long else part.short_turns + 1
        part.deferred = False
        return self.work


class GrammarMasks:
    """One mask for each request of the last batch, int32 [requests, ceil(vocab / 32)].

    defer     whether requests are deferred that need more work than a step may do.
    accepts   the work for the accepts of a step.
    given     the work for tokens that are chosen elsewhere.
    """

    def __init__(self, vocab_size: int, defer: bool = True) -> None:
        self._vocab_size = vocab_size
        self._words = bitmask_words(vocab_size)
        self._requests: list[Request] = []
        self._bitmask = np.zeros((0, self._words), np.int32)
        turns = itertools.count(1)
        self._fills, self.accepts, self.given = (GrammarWork(turns, defer) for _ in range(3))
        self.given.start(STEP_WORK // _ACCEPT_SHARE)
        self._allowed = STEP_WORK
        self._is_new_step = self._accepts_are_new = True
        self._seconds = 0.0
        self._prepared: PreparedMasks | None = None
        self._changed: set[int] = set()
        """The rows that have been filled since the backend prepared them."""

    def forget(self) -> None:
        """Forget the masks: the next call fills them anew."""
        self._requests, self._prepared = [], None

    def prepare(self, backend: Backend, device: str, indices: Sequence[int]) -> None:
        """Let `backend` take over the masks in the rows `indices` for a step on `device`."""
        if self._prepared is not None and not self._changed:
            return
        self._changed, self._prepared = set(), None
        try:
            handle = call_plugin(
                f"backend {backend.name}", backend.prepare_masks, self._bitmask, indices, device
            )
        except INTERRUPTIONS:
            raise
        except BaseException as error:
            logger.error("masks are not prepared: %s", error)
        else:
            self._prepared = None if handle is None else PreparedMasks(handle, self._changed)

    def take_prepared(self) -> PreparedMasks | None:
        """What the backend has taken over of the masks of this step; the next one has others."""
        prepared, self._prepared = self._prepared, None
        return prepared

    def take_seconds(self) -> float:
        """The time that `fill` has taken since this was asked last."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def start_step(self, rows: int | None = None) -> None:
        """Allow the work of a new step over `rows`, or without them the work that may be done during the
        forward pass; from the first mask on: a step without masks costs nothing here."""
        self._allowed = STEP_WORK if rows is None else min(step_work(rows, self._vocab_size), STEP_WORK)
        self._is_new_step = self._accepts_are_new = True

    def _allow_fills(self) -> None:
        if self._is_new_step:
            self._is_new_step = False
            self._fills.start(self._allowed - self._allowed // _ACCEPT_SHARE)

    def allow_accepts(self, count: int) -> Work | None:
        """The work for the first attempts of the accepts of `count` requests."""
        self._start_accepts()
        return self.accepts.divide(count)

    def allow_accepts_of(self, group: Turns) -> Work | None:
        """The work for all accepts of a beam search."""
        self._start_accepts()
        return self.accepts.give_turn(group)

    def allow_given(self) -> None:
        """Allow the work for tokens that are chosen elsewhere, until the next step."""
        self.given.start(min(step_work(len(self._requests), self._vocab_size), STEP_WORK) // _ACCEPT_SHARE)

    def _start_accepts(self) -> None:
        if self._accepts_are_new:
            self._accepts_are_new = False
            self.accepts.start(self._allowed // _ACCEPT_SHARE + self._fills.left)

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
        self._allow_fills()
        if requests is not self._requests:
            self._requests, self._prepared = requests, None
            self._bitmask = np.zeros((len(requests), self._words), np.int32)
            for request in requests:
                if request.grammar is not None:
                    request.grammar.mask_ready = request.grammar.deferred = False
        missing = [i for i in indices if not _is_ready(requests[i])]
        self._changed.update(missing)
        if missing:
            self._fill_native(requests, missing)
        for i in missing:
            if not _is_done(requests[i]):
                requests[i].fill_mask(self._bitmask, i)

    def can_fill(self, group: Turns, requests: Sequence[Request]) -> bool:
        """Whether the masks of all `requests`, those of `group`, are found within the work of the step. Those
        that fail are."""
        self._allow_fills()
        work = self._fills.give_turn(group)
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

    def mask_of(self, request: Request) -> np.ndarray:
        """The mask of one request, int32 [words]. Raises `UnfinishedError` if it needs more than the work of
        the step."""
        self._allow_fills()
        grammar = _grammar(request)
        if self._fills.work is None or not _is_native(request):
            return grammar.mask()
        bitmask = np.zeros((1, self._words), np.int32)
        grammar.matcher.fill_within(bitmask, 0, self._fills.give_turn(grammar))
        grammar.short_turns = 0
        return bitmask[0]

    def guide(self, requests: Sequence[Request], indices: Sequence[int]) -> bool:
        """Let the guidances of the requests at `indices` follow their texts; returns whether any of these
        requests is `deferred`, because that needs more than the work of the step."""
        self._allow_fills()
        work = self._fills.divide(len(indices))
        waiting = [i for i in indices if not requests[i].follow_guidance(work)]
        for i in self._fills.in_turn(waiting, requests, _GUIDANCE):
            requests[i].follow_guidance(self._fills.work)
        return any(requests[i].deferred for i in waiting)

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
            if fault is None:
                grammar.short_turns = 0
            if fault is not None and not grammar.deferred:
                requests[i].fail(failure("the grammar", fault))


def _grammar(request: Request) -> Constraint:
    assert request.grammar is not None
    return request.grammar


def _is_native(request: Request) -> bool:
    return request.grammar is not None and fills_within(request.grammar.matcher)


def _is_ready(request: Request) -> bool:
    """Whether the request needs no mask in this step, or has it."""
    grammar = request.grammar
    if grammar is None or request.backlog:
        return True
    grammar.deferred = False
    return grammar.mask_ready


def _is_done(request: Request) -> bool:
    """Whether nothing more can be done for the request's mask in this step."""
    grammar = request.grammar
    return grammar is None or grammar.mask_ready or grammar.deferred or not request.live
