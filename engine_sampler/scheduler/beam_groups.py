"""A group of requests that is one beam search: each of its requests holds one of the live texts."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..arithmetic import GREEDY_BELOW
from ..base.errors import INTERRUPTIONS, quoted
from ..contract import Work
from ..params import SamplingParams, row_count
from ..requests.budget import Share
from ..requests.ending import RequestError, reason_of
from ..requests.request import Request
from ..requests.results import RequestId, StepResult
from ..requests.results.fields import tell_end
from .beam_search import BeamSearch, Candidate

logger = logging.getLogger("engine_sampler")

Score = Callable[[Request, np.ndarray], np.ndarray]
"""A request and a row of logits → the scores of its next tokens, float32 [vocab]."""


@dataclass
class BeamStep:
    """One step of a group.

    search     the search after it.
    requests   the request of each row, with its new token; after the last step the finished texts, the
               best first.
    parents    for each row, the number of the row that it continues.
    token_ids  for each row, its new token; −1 after the last step.
    """

    search: BeamSearch[Request]
    requests: list[Request]
    parents: list[int]
    token_ids: list[int]

    def write(self, result: StepResult, indices: Sequence[int], request_ids: Sequence[RequestId]) -> None:
        """Write the step into `result`, where the group's rows are at `indices`."""
        for i, request, parent, token_id in zip(
            indices, self.requests, self.parents, self.token_ids, strict=True
        ):
            result.token_ids[i] = token_id
            result.parent_ids[i] = request_ids[parent]
            if request.text is not None:
                whole = partial(getattr, request.text, "text")
                result.text[i] = "" if request.live else request.attempt("the text", whole, otherwise="")
            tell_end(result, i, request)


@dataclass
class BeamGroup:
    """The requests `request_ids`, one for each row, and the search they belong to."""

    request_ids: list[RequestId]
    search: BeamSearch[Request] = field(repr=False)
    aborted: bool = False
    """Whether one of the requests has been removed."""
    share: Share = field(default_factory=Share, repr=False)
    """What all of them together have had of the budget of their steps."""

    @classmethod
    def of(cls, params: SamplingParams, request_ids: Sequence[RequestId], eos_count: int) -> BeamGroup:
        """A group with `params`, in a vocabulary with `eos_count` EOS tokens."""
        search: BeamSearch[Request] = BeamSearch(
            row_count(params),
            params.length_penalty,
            params.early_stopping,
            eos_count * (not params.ignore_eos),
            params.max_tokens,
        )
        return cls(list(request_ids), search)

    def step(
        self, requests: Sequence[Request], rows: Sequence[np.ndarray], score: Score, work: Work | None
    ) -> BeamStep | None:
        """Continue the texts of `requests` with their rows of logits, float32 [vocab] each; the group stays
        as it is. None if their grammars need more than `work`.

        `score` gives the scores of a row: the request's chain applied to ln softmax(logits), so masked,
        penalised and divided by the temperature, but not renormalised.
        """
        faults: list[str] = []
        scores = [self._scores(r, row, score, faults) for r, row in zip(requests, rows, strict=True)]
        search = copy.copy(self.search)  # its lists are replaced, not changed
        candidates = search.candidates(scores, [request.stop_checks.own_stops for request in requests])
        texts: list[Request] = []
        going = 0
        for candidate in candidates:
            if len(texts) >= search.width and going == search.width:
                break  # no other one counts
            text = self._continued(requests[candidate.beam], candidate, work)
            if text.postponed:
                return None
            texts.append(text)
            going += text.live
        chosen = search.advance(candidates, texts, [not text.live for text in texts])
        if search.done:
            return _last_step(search, requests, faults)
        beams = [texts[i] for i in chosen]
        for i, request in enumerate(beams):
            if request in beams[:i]:  # it only fills a row, and is not continued
                beams[i] = request.fork(request.id, None)
        parents = [candidates[i].beam for i in chosen]
        return BeamStep(search, beams, parents, [candidates[i].token_id for i in chosen])

    def failed(self, requests: Sequence[Request], fault: BaseException) -> BeamStep:
        """The last step of a group of which something has raised `fault`, unless that interrupts the step."""
        requests[0].let_pass(fault)
        reason, n = reason_of("the beam search", fault), len(requests)
        return BeamStep(self.search, [_failed(r, reason) for r in requests], list(range(n)), [-1] * n)

    def _scores(
        self, request: Request, row: np.ndarray, score: Score, faults: list[str]
    ) -> np.ndarray | None:
        try:
            return score(request, row)
        except (MemoryError, *INTERRUPTIONS):
            raise
        except BaseException as fault:
            faults.append(str(fault))
            logger.error("request %r: %s", request.id, fault)
            return None

    def _continued(self, parent: Request, candidate: Candidate, work: Work | None) -> Request:
        child = parent.fork(parent.id, None)
        child.attempt("the request", child.accept_without_slot, candidate.token_id, candidate.logprob, work)
        return child


def _last_step(search: BeamSearch[Request], requests: Sequence[Request], faults: Sequence[str]) -> BeamStep:
    """The finished texts; requests left without one end with an error."""
    ended = []
    for found in search.ended:
        found.text.score = found.score
        ended.append(found.text)
    reason = faults[0] if faults else "the beam search found no other text that ends"
    ended += [_failed(request, reason) for request in requests[len(ended) :]]
    n = len(requests)
    return BeamStep(search, ended, list(range(n)), [-1] * n)


def _failed(request: Request, reason: str) -> Request:
    """The request as it ends with an error; the original, which may have been removed meanwhile, stays."""
    ended = copy.copy(request)
    ended.slot = -1
    ended.fail(reason)
    return ended


def check_beam_rows(
    groups: Iterable[BeamGroup], request_ids: Iterable[RequestId], drafts: Any, trees: Any = None
) -> None:
    """Raise `RequestError` for drafts in a step with a beam search, and for a search that lacks rows."""
    for name, given in (("draft_token_ids", drafts), ("draft_trees", trees)):
        if given is not None:
            raise RequestError(f"{name} are not allowed in a step with a beam search")
    ids = set(request_ids)
    for group in groups:
        missing = [i for i in group.request_ids if i not in ids]
        if missing:
            present = next(i for i in group.request_ids if i in ids)
            raise RequestError(
                f"request {quoted(present)} belongs to a beam search: {quoted(missing[0])} must be in the "
                "same step"
            )


def search_params(params: SamplingParams) -> SamplingParams:
    """`params` for the texts of a beam search: a greedy temperature would leave one token, so it becomes
    1."""
    return params.replace(temperature=1.0) if params.temperature < GREEDY_BELOW else params
