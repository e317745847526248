"""Tokens chosen elsewhere join their requests, as far as the work of the requests' grammars goes."""

from __future__ import annotations

from collections.abc import Sequence

from ..requests.budget import Budget
from ..requests.request import Request
from .membership.live_requests import LiveRequests


class Accepting:
    """Adds tokens to requests. Where that takes a grammar more work than one step may do, the rest waits in
    the request's backlog and goes on with the next steps, which leave the request out."""

    def __init__(self, requests: LiveRequests, budget: Budget) -> None:
        self._requests = requests
        self._budget = budget
        self._has_backlog = False

    def accept(self, request: Request, token_ids: Sequence[int], logprobs: Sequence[float]) -> None:
        """Add tokens to a live request; those after one that ends it are dropped."""
        if request.live:
            self._requests.keeping.keep_one(request)
            request.backlog = [*request.backlog, *zip(token_ids, logprobs, strict=True)]
        self._work_off(request)

    def go_on(self) -> None:
        """Continue what waits, with the work of a new step."""
        self._budget.start_elsewhere(len(self._requests.live))
        if self._has_backlog:
            live = list(self._requests.live.values())
            for request in live:
                if request.backlog:
                    self._requests.keeping.keep_one(request)
                self._work_off(request)
            paused = [self._requests.known[i] for i in self._requests.suspended]
            self._has_backlog = any(request.backlog for request in (*live, *paused))
            self._requests.step_lock.checkpoint()

    def _work_off(self, request: Request) -> None:
        """Accept the tokens that wait, in their order; a request that has failed accepts no more."""
        done = 0
        while request.live and done < len(request.backlog):
            work = None if request.grammar is None else self._budget.turn_elsewhere(request.share)
            token_id, logprob = request.backlog[done]
            accepted = request.attempt(
                "the request", request.accept, self._requests.slots, token_id, None, logprob, work
            )
            if not accepted and request.live:
                break  # postponed
            done += 1
        if not request.live:
            done = len(request.backlog)
        request.backlog = request.backlog[done:]
        self._has_backlog |= bool(request.backlog)
        self._requests.retire_if_done(request)
