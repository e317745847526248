"""`RowwiseSampler`: vLLM's V1 `Sampler`, drawing with `RowSampler`."""

from __future__ import annotations

from typing import Any

import torch
from vllm.v1.outputs import LogprobsTensors, SamplerOutput
from vllm.v1.sample.sampler import Sampler

from engine_sampler import RowResult, RowSampler
from engine_sampler.adapters.for_bridges import tokens_beside

from .batches import arguments_of, mask_of, processed_by_others
from .drawing import KeptRows, by_id, log_faults, parts_of
from .following import following_in


class RowwiseSampler(Sampler):
    """Draws each row as its request alone would, whatever else is in the batch.

    What concerns the bonus token of vLLM's own rejection sampler stays vLLM's.
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._kept_rows = KeptRows()

    def forward(
        self,
        logits: torch.Tensor,
        sampling_metadata: Any,
        predict_bonus_token: bool = False,
        logprobs_mode_override: Any = None,
    ) -> SamplerOutput:
        if predict_bonus_token:
            return super().forward(logits, sampling_metadata, True, logprobs_mode_override)
        mode = logprobs_mode_override or self.logprobs_mode
        drawn = self.draw(processed_by_others(logits, sampling_metadata), sampling_metadata, mode)
        tokens = tokens_beside(drawn, logits)
        return SamplerOutput(
            sampled_token_ids=tokens.to(torch.int32).unsqueeze(-1),
            logprobs_tensors=tensors_of(drawn, sampling_metadata, logits),
        )

    def draw(
        self, logits: torch.Tensor, metadata: Any, mode: str, drafts: list[list[int]] | None = None
    ) -> RowResult:
        """One step, of requests with these drafts. Faulty rows are logged."""
        width, count = int(logits.shape[1]), len(logits) if drafts is None else len(drafts)
        mask, given = mask_of(metadata, count), metadata.logprob_token_ids
        if mask is not None and drafts is not None:
            mask = mask.repeat_interleave(torch.tensor([1 + len(draft) for draft in drafts]), 0)
        drawn = self._rows(width, metadata).step(
            logits,
            **arguments_of(metadata, count, width),
            mask=mask,
            draft_token_ids=drafts,
            logprobs=metadata.max_num_logprobs,
            logprobs_mode=mode,
            logprob_token_ids=[given.get(row) for row in range(count)] if given else None,
        )
        log_faults(drawn)
        return drawn

    def _rows(self, width: int, metadata: Any) -> RowSampler:
        following = following_in(metadata)
        return self._kept_rows.of(width, None if following is None else following.seed)


def tensors_of(drawn: RowResult, metadata: Any, logits: torch.Tensor) -> LogprobsTensors | None:
    """The logprobs that vLLM has asked for: those of given tokens come before the likeliest."""
    table = drawn.given_logprobs or drawn.logprobs
    if table is None:
        return None
    if table is drawn.logprobs and metadata.max_num_logprobs == -1:
        return LogprobsTensors(torch.empty(0), by_id(table).to(logits.device), torch.empty(0))
    return LogprobsTensors(*(part.to(logits.device) for part in parts_of(table)))
