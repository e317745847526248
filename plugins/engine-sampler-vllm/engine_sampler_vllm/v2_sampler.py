"""`SlotSampler` and `SlotRejectionSampler`: those of vLLM's V2 model runner, drawing with `RowSampler`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsContext
from vllm.v1.worker.gpu.sample.sampler import PROCESSED_LOGPROBS_MODES, Sampler
from vllm.v1.worker.gpu.spec_decode.rejection_sampler import RejectionSampler

from engine_sampler import RowResult
from engine_sampler.for_bridges import (
    BridgeSampler,
    EngineRequest,
    follow_slots,
    params_or_plain,
    processed_by,
    tokens_beside,
    tokens_of_drafts,
)

from .settings import params_of

CONTEXT = (
    "expanded_idx_mapping idx_mapping idx_mapping_np pos input_ids expanded_local_pos seq_lens_upper_bound_np"
)
SAMPLE = f"logits {CONTEXT} return_logprobs"
VERIFY = (
    "logits draft_logits draft_sampled pos cu_num_logits idx_mapping idx_mapping_np expanded_idx_mapping "
    "expanded_local_pos seq_lens_upper_bound_np verify_draft_sampled"
)
"""The parameters of `LogitsContext`, `Sampler.sample` and `RejectionSampler._verify`."""

_NATIVE = 3
"""The first of vLLM's processors, which do what our parameters say: biases, penalties, bad words."""


class SlotSampler(Sampler):
    """Draws each row as its request alone would. Logprobs, replayed traces and counts of NaN stay vLLM's."""

    @classmethod
    def in_place_of(cls, sampler: Sampler) -> SlotSampler:
        """A sampler with the state of vLLM's."""
        mine = cls.__new__(cls)
        vars(mine).update(vars(sampler), by_slot={}, bridge=BridgeSampler("vLLM"))
        return mine

    def add_request(self, req_idx: int, sampling_params: Any) -> None:
        """A request takes a slot; the one before it has left. vLLM has chosen a seed for one without."""
        super().add_request(req_idx, sampling_params)
        params = params_or_plain(params_of, sampling_params, "extra_args")
        seed = int(self.sampling_states.seeds.np[req_idx]) % 2**64
        self.by_slot[req_idx] = EngineRequest(params.replace(seed=seed))

    def sample(self, *arguments: Any, **keywords: Any) -> tuple[torch.Tensor, torch.Tensor]:
        named = dict(zip(SAMPLE.split(), arguments, strict=False)) | keywords
        logits, context = named["logits"], _context(named)
        if len(logits) == len(context.idx_mapping_np) and (drawn := self.draw(logits, context)) is not None:
            return tokens_beside(drawn[0], logits), drawn[1]
        return super().sample(*arguments, **keywords)

    def draw(
        self, logits: torch.Tensor, context: LogitsContext, drafts: list[list[int]] | None = None
    ) -> tuple[RowResult, torch.Tensor] | None:
        """What is drawn, and the logits after the chain where somebody reads them. None for requests that
        were never added, as in the runs that warm the device up."""
        slots = context.idx_mapping_np
        requests = [self.by_slot[slot] for slot in slots.tolist() if slot in self.by_slot]
        if len(requests) < len(slots):
            return None
        states = self.req_states
        totals, prompts = states.total_len.gpu[slots].tolist(), states.prompt_len.np[slots].tolist()
        follow_slots(requests, slots, states.all_token_ids.gpu, totals, prompts, states.vocab_size)
        rows = self._processed_by_others(logits, context)
        shows_processed = self.return_sampling_mask or (
            self.logprobs_mode in PROCESSED_LOGPROBS_MODES and self.get_logprobs_dims(slots) is not None
        )
        drawn = self.bridge.draw(
            rows,
            requests,
            drafts=drafts,
            logprobs=-1 if shows_processed else None,
            logprobs_mode="processed_logits",
        )
        if drawn.logprobs is not None:
            rows = torch.from_numpy(drawn.logprobs.by_id()).to(logits.device)
        return drawn, rows

    def _processed_by_others(self, logits: torch.Tensor, context: LogitsContext) -> torch.Tensor:
        """The logits after processors of others and vLLM's budget of thoughts."""
        steps = [processor.apply for processor in self.logits_processors[_NATIVE:]]
        budgeted = self.thinking_budget_state
        if budgeted.enabled and np.any(budgeted.use_thinking_budget[context.idx_mapping_np]):
            steps.append(budgeted.apply)
        return processed_by(steps, logits, context)


class SlotRejectionSampler(RejectionSampler):
    """Drafts without probabilities: the tokens are those of a run without drafts. Everything else, such as
    block verification and adaptive verification, is vLLM's."""

    def _verify(self, *arguments: Any, **keywords: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        named = dict(zip(VERIFY.split(), arguments, strict=False)) | keywords
        logits, drawn = named["logits"], None
        if named["draft_logits"] is None and self._accepts_what_is_drawn():
            counts = named["cu_num_logits"].diff().tolist()
            drafts = [part.tolist()[1:] for part in named["verify_draft_sampled"].cpu().split(counts)]
            drawn = self.sampler.draw(logits, _context(named | {"input_ids": named["draft_sampled"]}), drafts)
        if drawn is None:
            return super()._verify(*arguments, **keywords)
        tokens, _ = tokens_of_drafts(drawn[0], logits, drafts, self.num_speculative_steps + 1)
        lengths = (tokens >= 0).sum(1).astype(np.int32)
        parts = (torch.from_numpy(part).to(logits.device) for part in (np.maximum(tokens, 0), lengths))
        return drawn[1], *parts

    def _accepts_what_is_drawn(self) -> bool:
        """Whether a draft counts if it is what would have been drawn."""
        is_special = self.use_block_verification or self.fly_window_size or self.watermark_key is not None
        changes = self.synthetic_conditional_rates is not None or self.enable_adaptive_verification
        return isinstance(self.sampler, SlotSampler) and not is_special and not changes


def _context(named: dict[str, Any]) -> LogitsContext:
    return LogitsContext(**{name: named[name] for name in CONTEXT.split()})
