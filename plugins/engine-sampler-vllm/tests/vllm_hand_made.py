"""Batches that tests make by hand, as tensors of parameters: with a request for each row, as if vLLM's model
runner had told our processor of them."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from engine_sampler_vllm.batches import FollowingProcessor, requests_in
from vllm.v1.sample.logits_processor import LogitsProcessors, MinPLogitsProcessor

from engine_sampler import SamplingParams
from engine_sampler.for_bridges import EngineRequest

_COLUMNS = "temperature top_p top_k".split()
_PENALTIES = "presence frequency repetition".split()


class _Processor:
    """A processor of vLLM's that our requests say nothing of."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def is_argmax_invariant(self) -> bool:
        return False

    def apply(self, logits: Any) -> Any:
        return self._own.apply(logits)


def followed(metadata: Any, count: int) -> Any:
    """vLLM's metadata of `count` rows, whose requests have not been there before."""
    if requests_in(metadata, count) is not None:
        return metadata
    following = FollowingProcessor(SimpleNamespace(model_config=None))
    prompts, outputs = metadata.prompt_token_ids, metadata.output_token_ids
    for row in range(count):
        prompt = [] if prompts is None else prompts[row].tolist()
        params = SamplingParams(order="vllm", **_settings_of(metadata, row))
        following.rows[row] = EngineRequest(params, prompt, outputs[row] if outputs else [])
    own = [p for p in metadata.logitsprocs.all if not isinstance(p, MinPLogitsProcessor)]
    processors = LogitsProcessors([following, *map(_Processor, own)])
    return dataclasses.replace(metadata, logitsprocs=processors)


def _settings_of(metadata: Any, row: int) -> dict[str, Any]:
    columns = {name: getattr(metadata, name) for name in _COLUMNS}
    if not metadata.no_penalties:
        columns |= {f"{name}_penalty": getattr(metadata, f"{name}_penalties") for name in _PENALTIES}
    for processor in metadata.logitsprocs.argmax_invariant:
        if isinstance(processor, MinPLogitsProcessor) and processor.min_p_count:
            columns["min_p"] = processor.min_p_cpu_tensor
    settings = {name: column[row].item() for name, column in columns.items() if column is not None}
    settings.setdefault("temperature", 0.0)
    if metadata.allowed_token_ids_mask is not None:
        settings["allowed_token_ids"] = np.flatnonzero(~metadata.allowed_token_ids_mask[row].numpy()).tolist()
    if row in metadata.generators:
        settings["seed"] = int(torch.randint(2**62, (), generator=metadata.generators[row]))
    if row in metadata.bad_words_token_ids:
        settings["bad_words"] = metadata.bad_words_token_ids[row]
    return settings


def with_requests(sampler: type) -> type:
    """Our sampler, for such batches."""

    class WithRequests(sampler):  # type: ignore[misc, valid-type]
        def forward(
            self, logits: Any, sampling_metadata: Any, predict_bonus_token: bool = False, *rest: Any
        ) -> Any:
            if not predict_bonus_token:
                sampling_metadata = followed(sampling_metadata, len(logits))
            return super().forward(logits, sampling_metadata, predict_bonus_token, *rest)

    return WithRequests
