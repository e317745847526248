"""`RowwiseSampler`: vLLM's V1 `Sampler`, drawing with `RowSampler`."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch
from vllm.v1.outputs import LogprobsTensors, SamplerOutput
from vllm.v1.sample.sampler import Sampler

from engine_sampler import LogprobsTable, RequestLimits, RowResult, RowSampler

from .batches import arguments_of, mask_of, processed_by_others
from .following import following_in

logger = logging.getLogger("engine_sampler")


class RowwiseSampler(Sampler):
    """Draws each row as its request alone would, whatever else is in the batch.

    What concerns the bonus token of vLLM's own rejection sampler stays vLLM's.
    """

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
        tokens = self.tokens(drawn, logits)
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
        for row, error in enumerate(drawn.errors):
            if error is not None:
                logger.error("row %d: %s", row, error)
        return drawn

    def tokens(self, drawn: RowResult, logits: torch.Tensor) -> torch.Tensor:
        """int64 [rows] on the device of the logits. A row that gave no token has the likeliest one that is a
        number: vLLM has no way to end a request from here."""
        if drawn.token_ids_on_device is not None:
            return drawn.token_ids_on_device
        tokens = torch.from_numpy(drawn.token_ids).to(logits.device)
        for row in np.flatnonzero(drawn.token_ids < 0).tolist():
            tokens[row] = torch.nan_to_num(logits[row].float(), nan=-torch.inf).argmax()
        return tokens

    def _rows(self, width: int, metadata: Any) -> RowSampler:
        """The `RowSampler` for logits of this width."""
        kept: RowSampler | None = self.__dict__.get("_row_sampler")
        if kept is None or kept.vocab_size != width:
            following = following_in(metadata)
            seed = None if following is None else following.seed
            kept = RowSampler(width, seed=seed, limits=RequestLimits.none())
            self.__dict__["_row_sampler"] = kept
        return kept


def tensors_of(drawn: RowResult, metadata: Any, logits: torch.Tensor) -> LogprobsTensors | None:
    """The logprobs that vLLM has asked for: those of given tokens come before the likeliest."""
    table = drawn.given_logprobs or drawn.logprobs
    if table is None:
        return None
    if table is drawn.logprobs and metadata.max_num_logprobs == -1:
        return LogprobsTensors(torch.empty(0), _by_id(table).to(logits.device), torch.empty(0))
    return LogprobsTensors(*(part.to(logits.device) for part in parts_of(table)))


def parts_of(table: LogprobsTable) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A table as vLLM has it: ids int32, −inf where there is no entry."""
    ids = np.maximum(table.token_ids, 0).astype(np.int32)
    values = np.where(table.token_ids < 0, np.float32(-np.inf), table.logprobs)
    return torch.from_numpy(ids), torch.from_numpy(values), torch.from_numpy(table.ranks)


def _by_id(table: LogprobsTable) -> torch.Tensor:
    """float32 [rows, vocab] from a table of all tokens."""
    ids, values, _ = parts_of(table)
    out = torch.full((len(ids), ids.shape[1] - 1), -torch.inf)
    return out.scatter_(1, ids[:, 1:].long(), values[:, 1:])
