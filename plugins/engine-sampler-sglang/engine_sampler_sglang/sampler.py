"""`SglangSampler`: SGLang's `Sampler`, drawing with `RowSampler`."""

from __future__ import annotations

import itertools
import logging
from typing import Any

import torch
from sglang.srt.layers import sampler as samplers

from engine_sampler import LogprobsTable, RequestLimits, RowResult, RowSampler, SamplingParams
from engine_sampler.adapters.for_bridges import tokens_beside

from .following import FollowedRow, rows_of

logger = logging.getLogger("engine_sampler")

_UNFOLLOWED = itertools.count()


class SglangSampler(samplers.Sampler):
    """Draws each row as its request alone would. What comes before and after a draw is SGLang's: penalties,
    masks, biases and processors are in the logits, and logprobs are computed as by its own sampler."""

    def __init__(self) -> None:
        super().__init__()
        self._seed: int = getattr(samplers.get_server_args(), "random_seed", None) or 0
        self._samplers: dict[bool, RowSampler] = {}
        """For prefills (True) and for running requests, so that one does not make the other forget."""

    def forward(
        self,
        logits_output: Any,
        sampling_info: Any,
        return_logprob: bool,
        top_logprobs_nums: list[int],
        token_ids_logprobs: list[list[int]],
        positions: torch.Tensor,
        *,
        logprob_logits: torch.Tensor | None = None,
    ) -> torch.Tensor:
        logits = logits_output.next_token_logits
        if sampling_info.has_custom_logit_processor:
            samplers.apply_custom_logit_processor(logits, sampling_info)
            if logprob_logits is not None:
                samplers.apply_custom_logit_processor(logprob_logits, sampling_info)
        wants_kept = sampling_info.sampling_mask_batch_indices is not None
        rows = rows_of(sampling_info, len(logits))
        drawn = self._draw(logits, sampling_info, rows, wants_kept)
        tokens = tokens_beside(drawn, logits)
        if return_logprob:
            values = self._logprobs(logits if logprob_logits is None else logprob_logits, sampling_info)
            self.output_logprob_processor.compute_logprobs(
                values, top_logprobs_nums, token_ids_logprobs, tokens
            ).write_output_to(logits_output)
        self._sync_token_ids_across_tp(tokens, sampling_info)
        for row, token_id in zip(rows or (), tokens.tolist(), strict=rows is not None):
            row.add(token_id)
        if wants_kept:
            logits_output.sampling_mask_output = self._kept(drawn, tokens, sampling_info)
        return tokens

    def _draw(
        self, logits: torch.Tensor, info: Any, rows: list[FollowedRow] | None, wants_kept: bool
    ) -> RowResult:
        """One token for each row. Faulty rows are logged."""
        width = int(logits.shape[1])
        is_prefill = rows is not None and all(row.is_new for row in rows)
        sampler = self._samplers.get(is_prefill)
        if sampler is None or sampler.vocab_size != width:
            sampler = self._samplers[is_prefill] = RowSampler(width, limits=RequestLimits.none())
        asked = _unfollowed(info, len(logits)) if rows is None else self._followed(rows, width)
        if wants_kept:
            asked |= {"logprobs": -1, "logprobs_mode": "processed_logprobs"}
        drawn = sampler.step(logits, **asked)
        for row, error in enumerate(drawn.errors):
            if error is not None:
                logger.error("row %d: %s", row, error)
        return drawn

    def _followed(self, rows: list[FollowedRow], width: int) -> dict[str, Any]:
        for row in rows:
            row.catch_up()
        return {
            "keys": [row.key for row in rows],
            "params": [row.params(self._seed) for row in rows],
            "prompts": [row.prompt(width) for row in rows],
            "outputs": [row.output for row in rows],
        }

    def _logprobs(self, logits: torch.Tensor, info: Any) -> torch.Tensor:
        """float32 [rows, vocab], as SGLang's sampler has them: before the filters."""
        samplers.sanitize_nan_logits(logits, "sampler: logprobs")
        if not info.is_all_greedy and not samplers.SGLANG_RETURN_ORIGINAL_LOGPROB:
            logits = logits if self.rl_on_policy_target is None else logits.bfloat16()
            logits = (logits / info.temperatures).to(logits.dtype)
        values = torch.log_softmax(logits, dim=-1)
        return values.clamp_(min=torch.finfo(values.dtype).min)

    def _kept(self, drawn: RowResult, tokens: torch.Tensor, info: Any) -> Any:
        """The tokens that the filters have left, for the rows that ask for them."""
        assert drawn.logprobs is not None
        which = info.sampling_mask_batch_indices
        weights = _weights_of(drawn.logprobs).to(tokens.device)[which]
        capture = samplers._SamplingMaskCapture(weights, None, None, which)
        indices = info.sampling_support_logprobs_capture_indices
        return self._build_sampling_mask_output(tokens, capture, indices)


def _unfollowed(info: Any, count: int) -> dict[str, Any]:
    """What a batch says of rows whose requests are not known, such as those of a warm-up."""
    tensors = {name: getattr(info, f"{name}s") for name in ("temperature", "top_p", "top_k", "min_p")}
    return {
        "keys": [(next(_UNFOLLOWED),) for _ in range(count)],
        "params": SamplingParams(order="sglang"),
        "columns": {name: tensor.flatten().cpu().numpy() for name, tensor in tensors.items()},
    }


def _weights_of(table: LogprobsTable) -> torch.Tensor:
    """float32 [rows, vocab]: the probabilities in a table of all tokens."""
    ids, values = torch.from_numpy(table.token_ids), torch.from_numpy(table.logprobs)
    weights = torch.zeros(len(ids), ids.shape[1] - 1)
    return weights.scatter_(1, ids[:, 1:].clamp(min=0), values[:, 1:].nan_to_num(nan=-torch.inf).exp())
