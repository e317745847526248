"""`RowwiseSampler` and `RowRejectionSampler`: those of vLLM's V1 model runner, drawing with `RowSampler`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from vllm.v1.outputs import LogprobsTensors, SamplerOutput
from vllm.v1.sample.rejection_sampler import RejectionSampler
from vllm.v1.sample.sampler import Sampler

from engine_sampler import RowResult
from engine_sampler.for_bridges import BridgeSampler, EngineRequest, tokens_beside, tokens_of_drafts
from engine_sampler.stateless import LogprobsTable

from .batches import OURS, has_budgets, processed_by_others, requests_in


class RowwiseSampler(Sampler):
    """Draws each row as its request alone would, whatever else is in the batch.

    What concerns the bonus token of vLLM's own rejection sampler stays vLLM's.
    """

    def __init__(self, logprobs_mode: Any = "raw_logprobs", use_fp64_gumbel: bool = False) -> None:
        super().__init__(logprobs_mode, use_fp64_gumbel)
        self._bridge = BridgeSampler("vLLM")

    def forward(
        self,
        logits: torch.Tensor,
        sampling_metadata: Any,
        predict_bonus_token: bool = False,
        logprobs_mode_override: Any = None,
    ) -> SamplerOutput:
        requests = requests_in(sampling_metadata, len(logits))
        if predict_bonus_token or requests is None:
            return super().forward(logits, sampling_metadata, predict_bonus_token, logprobs_mode_override)
        mode = logprobs_mode_override or self.logprobs_mode
        rows = processed_by_others(logits, sampling_metadata)
        drawn = self.draw(rows, requests, sampling_metadata, logprobs_mode=mode)
        table = drawn.given_logprobs or drawn.logprobs  # those of given tokens come before the likeliest
        tensors = None if table is None else tensors_of(table, logits.device)
        if sampling_metadata.max_num_logprobs == -1 and not drawn.given_logprobs:
            by_id = torch.from_numpy(drawn.logprobs.by_id()).to(logits.device)
            tensors = LogprobsTensors(torch.empty(0), by_id, torch.empty(0))
        return SamplerOutput(tokens_beside(drawn, logits).to(torch.int32).unsqueeze(-1), tensors)

    def draw(
        self, logits: torch.Tensor, requests: list[EngineRequest], metadata: Any, **asked: Any
    ) -> RowResult:
        """One step, with the logprobs that vLLM's metadata wants."""
        given, count = metadata.logprob_token_ids, metadata.max_num_logprobs
        if given:
            asked["logprob_token_ids"] = [given.get(row) for row in range(len(requests))]
        return self._bridge.draw(logits, requests, logprobs=count, **asked)


class RowRejectionSampler(RejectionSampler):
    """Drafts without probabilities: the tokens are those of a run without drafts.

    Where the drafts come with the probabilities that they were drawn from, with the methods `synthetic` and
    `fly`, and where all logprobs, thinking budgets or other processors are wanted, vLLM's own takes over.
    """

    def forward(
        self, metadata: Any, draft_probs: torch.Tensor | None, logits: torch.Tensor, sampling_metadata: Any
    ) -> SamplerOutput:
        counts = () if draft_probs is not None else metadata.num_draft_tokens
        requests = requests_in(sampling_metadata, len(counts))
        if not counts or requests is None or not self._draws(sampling_metadata):
            return super().forward(metadata, draft_probs, logits, sampling_metadata)
        drafts = [part.tolist() for part in metadata.draft_token_ids.cpu().split(counts)]
        order = _row_order(metadata)
        rows = logits if torch.equal(order, torch.arange(len(order))) else logits[order.to(logits.device)]
        mode = self.sampler.logprobs_mode
        drawn = self.sampler.draw(rows, requests, sampling_metadata, drafts=drafts, logprobs_mode=mode)
        tokens, places = tokens_of_drafts(drawn, rows, drafts, metadata.max_spec_len + 1)
        table = drawn.logprobs
        return SamplerOutput(
            torch.from_numpy(tokens).to(logits.device, torch.int32),
            None if table is None else tensors_of(table, logits.device, places.ravel()),
        )

    def _draws(self, sampling_metadata: Any) -> bool:
        """Whether the step is one of ours."""
        wants_more = sampling_metadata.max_num_logprobs == -1 or sampling_metadata.logprob_token_ids
        is_special = self.synthetic_mode or self.use_fly or not isinstance(self.sampler, RowwiseSampler)
        others = any(not isinstance(p, OURS) for p in sampling_metadata.logitsprocs.all)
        return not (is_special or others or wants_more or has_budgets(sampling_metadata))


def tensors_of(table: LogprobsTable, device: Any, rows: np.ndarray | slice = slice(None)) -> LogprobsTensors:
    """These rows of a table as vLLM has it: ids int32, −inf where there is no entry."""
    ids = table.token_ids[rows]
    values = np.where(ids < 0, np.float32(-np.inf), table.logprobs[rows])
    parts = np.maximum(ids, 0).astype(np.int32), values, table.ranks[rows]
    return LogprobsTensors(*(torch.from_numpy(part).to(device) for part in parts))


def _row_order(metadata: Any) -> torch.Tensor:
    """The rows of the logits, each request's drafts before its bonus token."""
    targets = metadata.target_logits_indices.cpu().split(metadata.num_draft_tokens)
    bonus = metadata.bonus_logits_indices.cpu().split(1)
    return torch.cat([part.long() for pair in zip(targets, bonus, strict=True) for part in pair])
