"""A serving engine: one thread runs a model for the requests of all others."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from engine_sampler import GivenLogprobs, Logprobs, RequestLimits, SamplingMask, SamplingParams, StepResult
from engine_sampler.session import Session

logger = logging.getLogger("engine_sampler")


class Reported(NamedTuple):
    """What a step reports of its rows, where a request of it asks for that."""

    logprobs: Logprobs | None = None
    given_logprobs: GivenLogprobs | None = None
    sampling_mask: SamplingMask | None = None


NOTHING = Reported()


@dataclass(frozen=True)
class Update:
    """What one step gave one request.

    number         which of the requests that were added together, from 0
    reported       of the whole step, in which the request has `rows`
    finish_reason  None while the request continues; `error` says why it is "error"
    """

    number: int
    token_ids: Sequence[int] = ()
    text: str = ""
    reported: Reported = NOTHING
    rows: range = range(0)
    finish_reason: str | None = None
    error: str | None = None


Deliver = Callable[[Update], None]
"""Takes the updates of a request, on the thread of the engine: it only passes them on."""


class BusyError(Exception):
    """More requests would be live than the engine allows, or it has stopped."""


class ServingEngine:
    """Runs a session's model: requests come and go between any two steps and from any thread.

    session    encodes prompts, runs the model, and has the scheduler
    max_batch  requests of a step, with one row and their drafts each; further ones wait
    max_live   requests that run or wait; further ones are refused
    limits     what one request may ask for, since clients may be hostile
    max_length  tokens of a request, its prompt included, if the model has no limit of its own
    drafter    what drafts tokens for requests that name no `drafter`
    """

    def __init__(
        self,
        session: Session,
        max_batch: int = 64,
        max_live: int = 1024,
        limits: RequestLimits | None = None,
        max_length: int = 8192,
        drafter: str | Sequence[str] | None = None,
    ) -> None:
        self.session, self.scheduler = session, session.scheduler
        self.scheduler.limits = limits or RequestLimits()
        self.scheduler.max_model_len = self.scheduler.max_model_len or max_length
        self.max_batch, self.max_live = min(max_batch, session.max_requests or max_batch), max_live
        session.check(SamplingParams(drafter=drafter))
        self.drafter, self.is_stopped = drafter, False
        self._numbers = itertools.count()
        self._contexts: dict[int, list[int]] = {}
        self._receivers: dict[int, tuple[Deliver, int]] = {}
        self._withheld: dict[int, list[Update]] = {}
        """The newest tokens of requests that may still take them back."""
        self._cancelled: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._membership = threading.Lock()
        """Held where requests join, so that none joins an engine that has stopped."""
        self._work = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    # --- from any thread -------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to run requests."""
        self._thread.start()

    def stop(self) -> None:
        """End after the step that is running; requests that are live end with `error`."""
        self.is_stopped = True
        self._work.set()
        if self._thread.is_alive():
            self._thread.join()

    def add(self, params: SamplingParams, prompts: Sequence[Sequence[int]], deliver: Deliver) -> list[int]:
        """Add the `n` requests of each prompt, whose updates go to `deliver`; returns their ids.

        Compiles their grammar, on the thread of the caller. Raises ParameterError for what is not allowed,
        and BusyError.
        """
        self.session.check(params)
        n = params.n
        with self._membership:
            if self.is_stopped or len(self._receivers) + n * len(prompts) > self.max_live:
                raise BusyError("the engine has stopped" if self.is_stopped else "the engine is busy")
            ids = list(itertools.islice(self._numbers, n * len(prompts)))
            for number, i in enumerate(ids):
                self._contexts[i], self._receivers[i] = list(prompts[number // n]), (deliver, number)
        added = 0
        try:
            for prompt in prompts:
                self.scheduler.add_group(params, prompt, request_ids=ids[added : added + n])
                if params.token_healing:
                    fed = self.scheduler.record(ids[added]).prompt_token_ids
                    self._contexts |= {i: list(fed) for i in ids[added : added + n]}
                added += n
        except BaseException:
            for i in ids[added:]:
                self._contexts.pop(i, None)
                self._receivers.pop(i, None)
            self.cancel(ids[:added])
            raise
        self._work.set()
        return ids

    def cancel(self, ids: Iterable[int]) -> None:
        """End requests whose client has gone; those that have ended stay as they are."""
        for i in ids:
            self._cancelled.put(i)
        self._work.set()

    # --- on its own thread -----------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with ThreadPoolExecutor(1, "model") as device:
                while not self.is_stopped:
                    self._turn(device)
        finally:
            with self._membership:
                self.is_stopped, left = True, list(self._receivers)
            for i in left:
                with suppress(Exception):  # of a model that has failed before
                    self._end(i, "error", "the engine has stopped")

    def _turn(self, device: Executor) -> None:
        """One step of the oldest requests, or a pause if there are none."""
        while not self._cancelled.empty():
            self._end(self._cancelled.get(), "abort")
        ids: list[Any] = self.scheduler.request_ids[: self.max_batch]
        if not ids:
            self._work.wait()
            self._work.clear()
            return
        drafts = self.scheduler.draft(ids, drafter=self.drafter) if self.session.checks_drafts else {}
        forward = device.submit(self.session.forward_drafts, {i: self._contexts[i] for i in ids}, drafts)
        try:
            self.scheduler.prepare(ids)  # grammar masks, while the forward pass runs
            result = self.scheduler.step(forward.result(), ids, drafts or None)
        except Exception as error:  # the model has failed: what it knows of these requests is in doubt
            logger.exception("a step of %d requests failed", len(ids))
            wait([forward])
            for i in ids:
                self._end(i, "error", f"the model failed: {type(error).__name__}")
        else:
            self._deliver(result, drafts)

    def _deliver(self, result: StepResult, drafts: Mapping[Any, Sequence[int]]) -> None:
        request_ids: list[Any] = result.request_ids
        for row, i in enumerate(request_ids):
            self.session.follow(self._contexts[i], result, row, drafts.get(i, ()))
            if result.rewinds and (count := result.rewinds[row]):
                del self._withheld[i][-count:]
            for update in self._updates(result, row, i):
                self._receivers[i][0](update)
            if result.finish_reasons[row] is not None:
                self._forget(i)

    def _updates(self, result: StepResult, row: int, i: int) -> list[Update]:
        """What a step has given a request, without tokens that may still be taken back."""
        tokens, number = result.tokens(row), self._receivers[i][1]
        rows = range(result.first_rows[row], result.first_rows[row] + len(tokens))
        end = Update(
            number,
            text=result.text[row] or "",
            finish_reason=result.finish_reasons[row],
            error=result.errors[row],
        )
        reported = Reported(result.logprobs, result.given_logprobs, result.sampling_mask)
        withheld = result.withheld[row] if result.withheld else 0
        if not withheld and i not in self._withheld:
            return [replace(end, token_ids=tokens, reported=reported, rows=rows)]
        each = zip(tokens, rows, strict=True)
        given = (Update(number, [t], "", reported, range(r, r + 1)) for t, r in each)
        updates = [*self._withheld.get(i, ()), *given]
        certain = len(updates) - withheld
        self._withheld[i] = updates[certain:]
        return [*updates[:certain], *([end] if end.text or end.finish_reason else [])]

    def _end(self, i: int, finish_reason: str, error: str | None = None) -> None:
        """End a request that no step has ended."""
        if i in self._receivers:
            deliver, number = self._receivers[i]
            deliver(Update(number, finish_reason=finish_reason, error=error))
            self._forget(i)

    def _forget(self, i: int) -> None:
        del self._contexts[i], self._receivers[i]
        self._withheld.pop(i, None)
        self.scheduler.remove(i)
        self.session.forget(i)
