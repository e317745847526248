"""A group of requests that is one beam search: its requests are the texts under way."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..arithmetic import GREEDY_BELOW
from ..params import SamplingParams
from .beam_search import BeamSearch, Candidate
from .request import Request
from .results import RequestId

logger = logging.getLogger("engine_sampler")

Score = Callable[[Request, np.ndarray], np.ndarray]
"""A request and a row of logprobs in, the row after the request's chain out."""


@dataclass
class BeamStep:
    """What a step makes of a group.

    requests   the request of each row, with its new token; after the last step those that ended, the best
               first.
    parents    of each row the number of the one that it continues.
    token_ids  of each row its new token, −1 after the last step.
    """

    requests: list[Request]
    parents: list[int]
    token_ids: list[int]


@dataclass
class BeamGroup:
    """The requests `request_ids`, one for each row, and the search they belong to."""

    request_ids: list[RequestId]
    search: BeamSearch[Request] = field(repr=False)
    aborted: bool = False
    """Whether one of the requests has been removed."""

    @classmethod
    def of(cls, params: SamplingParams, request_ids: Sequence[RequestId], eos_count: int) -> BeamGroup:
        """A group of `params`, whose texts end at `eos_count` tokens and those of the request."""
        search: BeamSearch[Request] = BeamSearch(
            beam_width(params),
            params.length_penalty,
            params.early_stopping,
            eos_count * (not params.ignore_eos) + len(params.stop_token_ids),
            params.max_tokens,
        )
        return cls(list(request_ids), search)

    def step(self, requests: Sequence[Request], rows: Sequence[np.ndarray], score: Score) -> BeamStep:
        """Continue the texts of `requests`, of which `rows` are the logits, float32 [vocab] each.

        The score of a token is what the request's chain makes of ln softmax(logits): masked, penalised,
        divided by the temperature, and not normalised again.
        """
        faults: list[str] = []
        logprobs = [self._scored(r, row, score, faults) for r, row in zip(requests, rows, strict=True)]
        candidates = self.search.candidates(logprobs)
        texts = [self._continued(requests[c.beam], c) for c in candidates]
        going = self.search.advance(candidates, texts, [not text.live for text in texts])
        if self.search.done:
            return self._last(requests, faults)
        chosen = [texts[i] for i in going]
        for place, request in enumerate(chosen):
            if request in chosen[:place]:  # fills a row: it is not followed
                chosen[place] = request.fork(request.id, None)
        return BeamStep(chosen, [candidates[i].beam for i in going], [candidates[i].token_id for i in going])

    def _scored(
        self, request: Request, row: np.ndarray, score: Score, faults: list[str]
    ) -> np.ndarray | None:
        try:
            return score(request, row)
        except Exception as fault:
            faults.append(str(fault))
            logger.error("request %r: %s", request.id, fault)
            return None

    def _continued(self, parent: Request, candidate: Candidate) -> Request:
        child = parent.fork(parent.id, None)
        child.grow(candidate.token_id, candidate.logprob)
        return child

    def _last(self, requests: Sequence[Request], faults: Sequence[str]) -> BeamStep:
        """The texts that ended; requests for which there is none end with an error."""
        ended = []
        for found in self.search.ended:
            found.text.score = found.score
            ended.append(found.text)
        for request in requests[len(ended) :]:
            text = request.fork(request.id, None)  # the search may turn out to have been removed meanwhile
            text.fail(faults[0] if faults else "the beam search found no other text that ends")
            ended.append(text)
        n = len(requests)
        return BeamStep(ended, list(range(n)), [-1] * n)


def beam_width(params: SamplingParams) -> int:
    """How many texts a beam search with `params` follows."""
    return int(params.beam_width or params.best_of or params.n)


def search_params(params: SamplingParams) -> SamplingParams:
    """`params` for the texts of a beam search: a greedy temperature, which would leave one token, is none."""
    return params.replace(temperature=1.0) if params.temperature < GREEDY_BELOW else params
