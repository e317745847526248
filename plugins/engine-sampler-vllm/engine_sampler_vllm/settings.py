"""vLLM's parameters of a request, as ours."""

from __future__ import annotations

from typing import Any

from vllm.exceptions import VLLMValidationError

from engine_sampler import RowSampler, SamplingParams
from engine_sampler.for_bridges import parameters_among, refused_with

from .places import PLACES

_SAME = (
    "temperature top_p top_k min_p presence_penalty frequency_penalty repetition_penalty min_tokens "
    "logit_bias allowed_token_ids seed"
).split()
"""Parameters that both have, under one name."""


def params_of(request: Any) -> SamplingParams:
    """The parameters of a request, those in its `extra_args` that are ours included; keys that are not may
    belong to other processors. Raises `ParameterError` for values that are not allowed, and for keys that
    vLLM has itself."""
    values = {name: value for name in _SAME if (value := getattr(request, name)) is not None}
    if words := request.bad_words_token_ids:
        values["bad_words"] = words
    if request.min_tokens:
        values["stop_token_ids"] = sorted(request.all_stop_token_ids)
    extra = parameters_among(request.extra_args or {}, request, "vLLM", "extra_args")
    params = SamplingParams(order="vllm").replace(**values, **extra)
    RowSampler.check(params)
    return params


def put_in() -> None:
    """Let vLLM's server refuse wrong `extra_args`."""
    PLACES.follow(PLACES.module("vllm.sampling_params").SamplingParams, "verify", _check)


@refused_with(VLLMValidationError)  # HTTP 400
def _check(_: Any, request: Any, *arguments: Any, **keywords: Any) -> None:
    params_of(request)
