"""`RowRejectionSampler`: drafts are accepted as long as they are what would have been drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from vllm.v1.outputs import LogprobsTensors, SamplerOutput
from vllm.v1.sample.rejection_sampler import RejectionSampler

from engine_sampler.adapters.for_bridges import tokens_beside

from .drawing import parts_of
from .following import requests_in
from .sampler import RowwiseSampler


class RowRejectionSampler(RejectionSampler):
    """Drafts without probabilities: the tokens are those of a run without drafts.

    Where the drafts come with the probabilities that they were drawn from, with the methods `synthetic` and
    `fly`, and where all logprobs, thinking budgets or other processors are wanted, vLLM's own takes over.
    """

    def forward(
        self, metadata: Any, draft_probs: torch.Tensor | None, logits: torch.Tensor, sampling_metadata: Any
    ) -> SamplerOutput:
        if draft_probs is not None or not self._draws(sampling_metadata, len(metadata.num_draft_tokens)):
            return super().forward(metadata, draft_probs, logits, sampling_metadata)
        counts = metadata.num_draft_tokens
        given = [part.tolist() for part in metadata.draft_token_ids.cpu().split(counts)]
        drafts = [[max(token_id, 0) for token_id in draft] for draft in given]
        order = _row_order(metadata)
        rows = logits if torch.equal(order, torch.arange(len(order))) else logits[order.to(logits.device)]
        drawn = self.sampler.draw(rows, sampling_metadata, self.sampler.logprobs_mode, drafts)
        width = metadata.max_spec_len + 1
        places = drawn.first_rows[:, None] + np.arange(width)
        is_row = np.arange(width) <= np.array(counts)[:, None]
        places = np.where(is_row, places, 0)
        tokens = np.where(is_row, tokens_beside(drawn, rows).cpu().numpy()[places], -1)
        for row, draft in zip(tokens, given, strict=True):
            if -1 in draft:  # it stands for none: what is drawn in its place is the last token
                row[draft.index(-1) + 1 :] = -1
        found = None
        if drawn.logprobs is not None:
            parts = (part[torch.from_numpy(places.ravel())] for part in parts_of(drawn.logprobs))
            found = LogprobsTensors(*(part.to(logits.device) for part in parts))
        return SamplerOutput(torch.from_numpy(tokens).to(logits.device, torch.int32), found)

    def _draws(self, sampling_metadata: Any, count: int) -> bool:
        """Whether the step is one of ours."""
        if not isinstance(self.sampler, RowwiseSampler) or self.synthetic_mode or self.use_fly:
            return False
        holder = sampling_metadata.thinking_budget_state_holder
        has_budget = holder is not None and holder.has_tracked_requests()
        is_followed = requests_in(sampling_metadata, count) is not None
        others = not is_followed and any(True for _ in sampling_metadata.logitsprocs.all)
        wants_more = sampling_metadata.max_num_logprobs == -1 or sampling_metadata.logprob_token_ids
        return not (has_budget or others or wants_more)


def _row_order(metadata: Any) -> torch.Tensor:
    """The rows of the logits, each request's drafts before its bonus token."""
    targets = metadata.target_logits_indices.cpu().split(metadata.num_draft_tokens)
    bonus = metadata.bonus_logits_indices.cpu().split(1)
    return torch.cat([part.long() for pair in zip(targets, bonus, strict=True) for part in pair])
