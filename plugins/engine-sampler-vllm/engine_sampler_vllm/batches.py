"""What `RowSampler.step` is told about the rows of a batch."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from vllm.v1.sample.logits_processor.builtin import (
    LogitBiasLogitsProcessor,
    MinPLogitsProcessor,
    MinTokensLogitsProcessor,
)

from engine_sampler import SamplingParams

from .following import FollowingProcessor, in_vocabulary, requests_in

_UNFOLLOWED = itertools.count()


def arguments_of(metadata: Any, count: int, vocab_size: int) -> dict[str, Any]:
    """Keys, parameters and tokens of the `count` requests of a batch."""
    requests = requests_in(metadata, count)
    if requests is None:
        return _from_tensors(metadata, count, vocab_size)
    return {
        "keys": [request.key for request in requests],
        "params": [request.params for request in requests],
        "prompts": [request.prompt_within(vocab_size) for request in requests],
        "outputs": [request.tokens() for request in requests],
    }


def processed_by_others(logits: torch.Tensor, metadata: Any) -> torch.Tensor:
    """The logits after what is not ours: processors of others, and vLLM's budget of thoughts. A copy if these
    are any."""
    ours = (FollowingProcessor, MinPLogitsProcessor)  # `_from_tensors` reads min_p
    if requests_in(metadata, len(logits)) is not None:
        ours += (LogitBiasLogitsProcessor, MinTokensLogitsProcessor)
    others = [p for p in metadata.logitsprocs.all if not isinstance(p, ours)]
    holder = metadata.thinking_budget_state_holder
    has_budget = holder is not None and holder.has_tracked_requests()
    if not others and not has_budget:
        return logits
    logits = logits.to(torch.float32, copy=True)
    for processor in others:
        logits = processor.apply(logits)
    if has_budget:
        holder.update_state(metadata.output_token_ids, metadata.spec_token_ids, repeat_indices=None)
        logits = holder.apply_to_logits(logits, False, metadata.spec_token_ids)
    return logits


def mask_of(metadata: Any, count: int) -> torch.Tensor | None:
    """bool [count, vocab], what `allowed_token_ids` leave; None if that is all, or if the parameters of the
    requests say it."""
    if metadata.allowed_token_ids_mask is None or requests_in(metadata, count) is not None:
        return None
    return ~metadata.allowed_token_ids_mask.cpu()


def _from_tensors(metadata: Any, count: int, vocab_size: int) -> dict[str, Any]:
    """For a batch that nobody follows: each row is a request that has not been there before."""
    columns: dict[str, Any] = {"top_p": metadata.top_p, "top_k": metadata.top_k}
    columns["temperature"] = torch.zeros(count) if metadata.temperature is None else metadata.temperature
    if not metadata.no_penalties:
        columns |= {
            "presence_penalty": metadata.presence_penalties,
            "frequency_penalty": metadata.frequency_penalties,
            "repetition_penalty": metadata.repetition_penalties,
        }
    for processor in metadata.logitsprocs.argmax_invariant:
        if isinstance(processor, MinPLogitsProcessor) and processor.min_p_count:
            columns["min_p"] = processor.min_p_cpu_tensor[:count]
    read: dict[str, Any] = {
        name: column.cpu().numpy() for name, column in columns.items() if column is not None
    }
    seeds = [metadata.generators.get(row) for row in range(count)]
    read["seed"] = [None if g is None else int(torch.randint(2**62, (), generator=g)) for g in seeds]
    if words := metadata.bad_words_token_ids:
        read["bad_words"] = [words.get(row) for row in range(count)]
    prompts = metadata.prompt_token_ids
    return {
        "keys": [(next(_UNFOLLOWED),) for _ in range(count)],
        "params": SamplingParams(order="vllm"),
        "columns": read,
        "prompts": None if prompts is None else [in_vocabulary(row, vocab_size) for row in prompts.tolist()],
        "outputs": metadata.output_token_ids[:count] or None,
    }
