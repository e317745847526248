"""`SlotSampler` and `SlotRejectionSampler`: those of vLLM's V2 model runner, drawing with `RowSampler`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsContext
from vllm.v1.worker.gpu.sample.sampler import PROCESSED_LOGPROBS_MODES, Sampler
from vllm.v1.worker.gpu.spec_decode.rejection_sampler import RejectionSampler

from engine_sampler.adapters.for_bridges import tokens_beside

from .drawing import KeptRows, by_id, log_faults
from .v2_requests import SlotRequests

_NATIVE = 3
"""The first of vLLM's processors, which do what our parameters say: biases, penalties, bad words."""


class SlotSampler(Sampler):
    """Draws each row as its request alone would. Logprobs, replayed traces and counts of NaN stay vLLM's."""

    @classmethod
    def in_place_of(cls, sampler: Sampler) -> SlotSampler:
        """A sampler with the state of vLLM's."""
        mine = cls.__new__(cls)
        mine.__dict__.update(sampler.__dict__)
        mine.requests = SlotRequests(sampler.req_states, sampler.sampling_states)
        mine.kept_rows = KeptRows()
        return mine

    def add_request(self, req_idx: int, sampling_params: Any) -> None:
        super().add_request(req_idx, sampling_params)
        self.requests.add(req_idx, sampling_params)

    def sample(
        self,
        logits: torch.Tensor,
        expanded_idx_mapping: torch.Tensor,
        idx_mapping: torch.Tensor,
        idx_mapping_np: np.ndarray,
        pos: torch.Tensor,
        input_ids: torch.Tensor,
        expanded_local_pos: torch.Tensor,
        seq_lens_upper_bound_np: np.ndarray,
        return_logprobs: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        context = LogitsContext(
            expanded_idx_mapping,
            idx_mapping,
            idx_mapping_np,
            expanded_local_pos,
            input_ids,
            pos,
            seq_lens_upper_bound_np,
        )
        drawn = self.draw(logits, context, None) if len(logits) == len(idx_mapping_np) else None
        if drawn is not None:
            return drawn
        return super().sample(
            logits,
            expanded_idx_mapping,
            idx_mapping,
            idx_mapping_np,
            pos,
            input_ids,
            expanded_local_pos,
            seq_lens_upper_bound_np,
            return_logprobs,
        )

    def draw(
        self, logits: torch.Tensor, context: LogitsContext, drafts: list[list[int]] | None
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        """int64 [rows], −1 behind a draft that is refused, and the logits after the chain where somebody
        reads them. None for requests that were never added."""
        requests = self.requests.in_slots(context.idx_mapping_np)
        if requests is None:
            return None
        rows = self._processed_by_others(logits, context)
        shows_processed = self.return_sampling_mask or (
            self.logprobs_mode in PROCESSED_LOGPROBS_MODES
            and self.get_logprobs_dims(context.idx_mapping_np) is not None
        )
        drawn = self.kept_rows.of(int(logits.shape[1]), None).step(
            rows,
            keys=[request.key for request in requests],
            params=[request.params for request in requests],
            prompts=[request.prompt for request in requests],
            outputs=[request.output for request in requests],
            draft_token_ids=drafts,
            logprobs=-1 if shows_processed else None,
            logprobs_mode="processed_logits",
        )
        log_faults(drawn)
        tokens = tokens_beside(drawn, logits)
        shown = rows if drawn.logprobs is None else by_id(drawn.logprobs).to(logits.device)
        return tokens, shown

    def _processed_by_others(self, logits: torch.Tensor, context: LogitsContext) -> torch.Tensor:
        """The logits after processors of others and vLLM's budget of thoughts. A copy if there are any."""
        others = self.logits_processors[_NATIVE:]
        budgeted = self.thinking_budget_state
        has_budget = budgeted.enabled and bool(np.any(budgeted.use_thinking_budget[context.idx_mapping_np]))
        if not others and not has_budget:
            return logits
        logits = logits.to(torch.float32, copy=True)
        for processor in others:
            logits = processor.apply(logits, context)
        if has_budget:
            budgeted.apply(logits, context)
        return logits


class SlotRejectionSampler(RejectionSampler):
    """Drafts without probabilities: the tokens are those of a run without drafts. Everything else, such as
    block verification and adaptive verification, is vLLM's."""

    def _verify(
        self,
        logits: torch.Tensor,
        draft_logits: torch.Tensor | None,
        draft_sampled: torch.Tensor,
        pos: torch.Tensor,
        cu_num_logits: torch.Tensor,
        idx_mapping: torch.Tensor,
        idx_mapping_np: np.ndarray,
        expanded_idx_mapping: torch.Tensor,
        expanded_local_pos: torch.Tensor,
        seq_lens_upper_bound_np: np.ndarray,
        verify_draft_sampled: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        context = LogitsContext(
            expanded_idx_mapping,
            idx_mapping,
            idx_mapping_np,
            expanded_local_pos,
            draft_sampled,
            pos,
            seq_lens_upper_bound_np,
        )
        counts = cu_num_logits.diff().tolist()
        parts = [part.tolist() for part in verify_draft_sampled.cpu().split(counts)]
        drawn = None
        if draft_logits is None and self._accepts_what_is_drawn():
            drafts = [[max(token_id, 0) for token_id in part[1:]] for part in parts]
            drawn = self.sampler.draw(logits, context, drafts)
        if drawn is None:
            return super()._verify(
                logits,
                draft_logits,
                draft_sampled,
                pos,
                cu_num_logits,
                idx_mapping,
                idx_mapping_np,
                expanded_idx_mapping,
                expanded_local_pos,
                seq_lens_upper_bound_np,
                verify_draft_sampled,
            )
        tokens = np.zeros((len(parts), self.num_speculative_steps + 1), np.int64)
        lengths = np.zeros(len(parts), np.int32)
        for i, (part, row) in enumerate(zip(parts, drawn[0].cpu().split(counts), strict=True)):
            # A draft that is −1 stands for none: what is drawn in its place is the last token.
            last = next((j for j, token_id in enumerate(part[1:]) if token_id < 0), len(part) - 1)
            new = [token_id for token_id in row.tolist()[: last + 1] if token_id >= 0]
            tokens[i, : len(new)], lengths[i] = new, len(new)
        to = logits.device
        return drawn[1], torch.from_numpy(tokens).to(to), torch.from_numpy(lengths).to(to)

    def _accepts_what_is_drawn(self) -> bool:
        """Whether a draft counts if it is what would have been drawn."""
        is_special = self.use_block_verification or self.fly_window_size or self.watermark_key is not None
        return (
            isinstance(self.sampler, SlotSampler)
            and not is_special
            and self.synthetic_conditional_rates is None
            and not self.enable_adaptive_verification
        )
