"""What every rank can find out about a request before its owner adds it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine_sampler import ParameterError, SamplingParams, Scheduler
from engine_sampler.for_backends import (
    History,
    Request,
    RequestId,
    sibling_count,
    structured_in,
    token_ids_in,
    without_takers,
)


def checked_count(scheduler: Scheduler, params: SamplingParams, grammar: Any) -> int:
    """How many requests `params` describe; raises `ParameterError` as `Scheduler.add` does."""
    count = sibling_count(params)
    scheduler.limits.check(params, scheduler.vocabulary.size)
    names = structured_in(params.given)
    if grammar is not None and names:
        raise ParameterError(f"grammar and {names[0]} are not allowed together: at most one of them")
    return count


def trial_request(
    scheduler: Scheduler,
    request_id: RequestId,
    params: SamplingParams,
    tokens: tuple[Sequence[int], Sequence[int]],
    criteria: Sequence[Callable[..., Any]],
) -> Request:
    """The request with `tokens`, its prompt and its output, but without its grammar: built to find out
    whether that is possible. Raises `ParameterError` as `Scheduler.add` does."""
    vocabulary, max_model_len = scheduler.vocabulary, scheduler.max_model_len
    history = History(
        token_ids_in("prompt_token_ids", tokens[0], vocabulary),
        token_ids_in("output_token_ids", tokens[1], vocabulary),
    )
    if max_model_len is not None and len(history) >= max_model_len:
        raise ParameterError(
            f"the prompt has {len(history)} tokens, max_model_len={max_model_len} allows fewer"
        )
    return Request(
        request_id,
        without_takers(params),
        history,
        vocabulary,
        max_model_len=max_model_len,
        stopping_criteria=criteria,
    )
