"""Requests that begin alike: how many there are, and which of them is the best."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.errors import quoted
from ..contract import ParameterError
from ..params import SamplingParams
from ..requests.request import Request, RequestError
from .beam_groups import beam_width


def sibling_count(params: SamplingParams) -> int:
    """How many requests `params` describe."""
    if not isinstance(params, SamplingParams):
        raise ParameterError(f"params={quoted(params)} is not allowed: a SamplingParams")
    if params["use_beam_search"]:
        return beam_width(params)
    count: int = params["best_of"] or params["n"]
    return count


def check_merits(requests: Sequence[Request]) -> None:
    """Refuse to compare requests of which only some have a score or a sum of logprobs."""
    sound = [r for r in requests if r.error is None]
    unknown = [r for r in sound if r.score is None and r.cumulative_logprob is None]
    if unknown and len(unknown) < len(sound):
        raise RequestError(f"request {unknown[0].id!r} has no logprobs to rank it by")


def merit(request: Request) -> float:
    """What a request is ranked by: the score of a beam search, or the sum of its logprobs."""
    return (request.cumulative_logprob or 0.0) if request.score is None else request.score
