"""SGLang's parameters of a request, as ours."""

from __future__ import annotations

from functools import partial
from typing import Any

from sglang.srt.runtime_context import get_exec
from sglang.srt.sampling.sampling_params import TOP_K_ALL

from engine_sampler import RowSampler, SamplingParams
from engine_sampler.for_bridges import child_seed_of, parameters_among, params_or_plain

from . import NAME


def params_of(request: Any, seed: int = 0, request_id: str = "") -> SamplingParams:
    """The parameters of a request that concern a draw, those in its `custom_params` that are ours included;
    penalties, biases and masks are in the logits already. Keys that are not ours may belong to processors of
    others. Raises `ParameterError` for values that are not allowed, and for names that SGLang has itself."""
    own_seed = request.sampling_seed
    params = SamplingParams(order="sglang").replace(
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=0 if request.top_k >= TOP_K_ALL else request.top_k,
        min_p=request.min_p,
        seed=child_seed_of(seed, str(request_id)) if own_seed is None else own_seed,
        **parameters_among(request.custom_params or {}, request, "SGLang", "custom_params", ["seed"]),
    )
    RowSampler.check(params)
    return params


def params_or_sglangs(request: Any, seed: int, request_id: str) -> SamplingParams:
    """`params_of`; without `custom_params` if these are wrong, since a sampler cannot end a request."""
    return params_or_plain(partial(params_of, seed=seed, request_id=request_id), request, "custom_params")


def check_if_chosen(_: Any, request: Any, vocab_size: int) -> None:
    """Raise ValueError, which SGLang answers with HTTP 400, for wrong `custom_params`, if our sampler is the
    one that will read them."""
    try:
        chosen = get_exec().kernel.sampling_backend
    except ValueError:  # nothing is configured in this process
        return
    if chosen == NAME:
        params_of(request)
