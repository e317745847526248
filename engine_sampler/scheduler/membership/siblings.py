"""The siblings of a group: how many parameters describe, and which of them are the best."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import quoted
from ...contract import ParameterError
from ...params import SamplingParams, row_count
from ...requests.ending import RequestError
from ...requests.request import Request


def sibling_count(params: SamplingParams) -> int:
    """How many requests `params` describe."""
    if not isinstance(params, SamplingParams):
        raise ParameterError(f"params={quoted(params)} is not allowed: a SamplingParams")
    return row_count(params)


def ranked(requests: Sequence[Request]) -> list[Request]:
    """The requests by score or cumulative logprob, the best first; those that ended with `error` come last.
    Raises `RequestError` if this is known of only some of the others."""
    sound = [r for r in requests if r.error is None]
    unknown = [r for r in sound if r.score is None and r.cumulative_logprob is None]
    if unknown and len(unknown) < len(sound):
        raise RequestError(f"request {quoted(unknown[0].id)} has no logprobs to rank it by")
    return sorted(requests, key=lambda r: (r.error is not None, -_merit(r)))


def _merit(request: Request) -> float:
    return (request.cumulative_logprob or 0.0) if request.score is None else request.score
