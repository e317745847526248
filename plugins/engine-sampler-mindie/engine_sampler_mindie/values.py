"""`logits_or_logprobs`: what the drawn tokens of the older interface score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine_sampler import Logprobs, SamplingParams, StepResult
from engine_sampler.arithmetic import FLT_MAX, LogitRows
from engine_sampler.for_bridges import divided, lowered

from .cache import CachedRequest
from .output import NO_LOGPROB
from .settings import has_penalty, is_greedy


class Scores:
    """The scores of the tokens that a batch draws, for its rows' settings `params`.

    observed  whether greedy rows score 0, the logarithm of probability 1, instead of their best logit.
    """

    def __init__(self, params: Sequence[SamplingParams], observed: bool) -> None:
        self._observed = observed
        self._greedy = np.array([is_greedy(p) for p in params], np.bool_)
        self.all_greedy = bool(self._greedy.all())
        self._penalized = [i for i, p in enumerate(params) if self._greedy[i] and has_penalty(p)]

    def of(self, logits: LogitRows, result: StepResult, requests: Sequence[CachedRequest]) -> np.ndarray:
        """float32 [rows], from a step whose tokens have joined the `requests`."""
        values = np.full(len(logits), NO_LOGPROB, np.float32)
        there = result.token_ids >= 0
        if self.all_greedy:
            return values
        if isinstance(result.logprobs, Logprobs):
            values[there] = result.logprobs.logprobs[there, 0]
        best = np.flatnonzero(self._greedy & there)
        if self._observed:
            values[best] = 0.0
        elif len(best):
            values[best] = _logits_at(logits, best, result.token_ids[best])
            for i in self._penalized:
                if there[i]:
                    values[i] = _penalized(values[i : i + 1], int(result.token_ids[i]), requests[i])[0]
        return values


def _logits_at(logits: LogitRows, rows: np.ndarray, token_ids: np.ndarray) -> np.ndarray:
    """float32 [n], one logit of each of `rows`."""
    values = logits.array[rows, token_ids]
    if logits.bfloat16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)


def _penalized(logit: np.ndarray, token_id: int, request: CachedRequest) -> np.ndarray:
    """The `logit` [1] of a token after the penalties that applied when it was drawn, as the last one."""
    params, output = request.params, request.output[:-1]
    count = np.count_nonzero(output == token_id)
    if count or (request.prompt == token_id).any():
        q = np.minimum(params.repetition_penalty, FLT_MAX).astype(np.float32)
        logit = np.clip(divided(logit, q, q), -FLT_MAX, FLT_MAX)
    if count:
        counts = np.array([count])
        logit = lowered(logit, counts, params.frequency_penalty, params.presence_penalty)
    return np.clip(logit, -FLT_MAX, FLT_MAX)
