"""`SglangSampler`: SGLang's `Sampler`, drawing with `RowSampler`."""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.layers import sampler as samplers

from engine_sampler import RowResult, SamplingParams
from engine_sampler.for_bridges import BridgeSampler, tokens_beside

from .following import FollowedRow, rows_of

_COLUMNS = ("temperature", "top_p", "top_k", "min_p")
"""The parameters of which a batch has tensors."""


class SglangSampler(samplers.Sampler):
    """Draws each row as its request alone would. What comes before and after a draw is SGLang's: penalties,
    masks, biases and processors are in the logits, and logprobs are computed as by its own sampler."""

    def __init__(self) -> None:
        super().__init__()
        self._seed: int = getattr(samplers.get_server_args(), "random_seed", None) or 0
        self._bridges = BridgeSampler("SGLang"), BridgeSampler("SGLang")
        """For running requests and for prefills, so that one does not make the other forget."""

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
        """One token for each row."""
        is_prefill = rows is not None and all(row.is_new for row in rows)
        asked: dict[str, Any] = {"logprobs": -1, "logprobs_mode": "processed_logprobs"} if wants_kept else {}
        if rows is None:  # those of a warm-up, for example
            columns = {name: getattr(info, f"{name}s") for name in _COLUMNS}
            asked |= {"params": SamplingParams(order="sglang"), "columns": columns}
        for row in rows or ():
            row.catch_up(self._seed)
        return self._bridges[is_prefill].draw(logits, rows, **asked)

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
        weights = torch.from_numpy(drawn.logprobs.by_id()).exp().to(tokens.device)[which]
        capture = samplers._SamplingMaskCapture(weights, None, None, which)
        indices = info.sampling_support_logprobs_capture_indices
        return self._build_sampling_mask_output(tokens, capture, indices)
