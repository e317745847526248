"""The batches of vLLM's V1 model runner: their requests, by row, and what processors of others do to them."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from vllm.v1.sample.logits_processor import builtin
from vllm.v1.sample.logits_processor.interface import LogitsProcessor

from engine_sampler.arithmetic import child_seed
from engine_sampler.for_bridges import EngineRequest, follow_update, params_or_plain, processed_by

from .settings import params_of


class FollowingProcessor(LogitsProcessor):
    """A processor that changes nothing: vLLM tells it of every change of the batch.

    rows  the request in each row, whose `output` is vLLM's own list, to which it adds every token. One
          without a seed gets the next child of the model's: the same on all ranks.
    """

    def __init__(self, vllm_config: Any) -> None:
        self.rows: dict[int, EngineRequest] = {}
        self._seed: int = getattr(vllm_config.model_config, "seed", None) or 0
        self._count = 0

    def is_argmax_invariant(self) -> bool:
        return False

    def apply(self, logits: Any) -> Any:
        return logits

    def update_state(self, batch_update: Any) -> None:
        follow_update(self.rows, batch_update, self._enter)

    def _enter(self, params: Any, prompt: list[int] | None, output: list[int]) -> EngineRequest:
        ours = params_or_plain(params_of, params, "extra_args")
        self._count += 1
        if ours.seed is None:
            ours = ours.replace(seed=child_seed(self._seed, self._count))
        return EngineRequest(ours, prompt or (), output)


OURS = (
    FollowingProcessor,
    builtin.MinPLogitsProcessor,
    builtin.LogitBiasLogitsProcessor,
    builtin.MinTokensLogitsProcessor,
)
"""Processors that do nothing, or what the parameters of our requests say."""


def requests_in(metadata: Any, count: int) -> list[EngineRequest] | None:
    """The requests of a batch of `count` rows; None if nobody follows them, as in the runs that warm the
    device up."""
    for processor in metadata.logitsprocs.non_argmax_invariant:
        if isinstance(processor, FollowingProcessor) and processor.rows.keys() == {*range(count)}:
            return [processor.rows[row] for row in range(count)]
    return None


def has_budgets(metadata: Any) -> bool:
    """Whether thoughts have budgets in this batch."""
    holder = metadata.thinking_budget_state_holder
    return holder is not None and holder.has_tracked_requests()


def processed_by_others(logits: torch.Tensor, metadata: Any) -> torch.Tensor:
    """The logits after what is not ours: processors of others, and vLLM's budget of thoughts."""
    steps = [p.apply for p in metadata.logitsprocs.all if not isinstance(p, OURS)]
    if has_budgets(metadata):
        holder, drafts = metadata.thinking_budget_state_holder, metadata.spec_token_ids
        holder.update_state(metadata.output_token_ids, drafts, repeat_indices=None)
        steps.append(partial(holder.apply_to_logits, predict_bonus_token=False, spec_token_ids=drafts))
    return processed_by(steps, logits)
