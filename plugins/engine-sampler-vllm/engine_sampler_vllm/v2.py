"""The places of the sampler in vLLM's V2 model runner."""

from __future__ import annotations

from typing import Any

from vllm.v1.worker.gpu.sample.sampler import Sampler

from engine_sampler.for_bridges import overriding

from . import settings
from .places import PLACES
from .v2_sampler import SAMPLE, VERIFY, SlotRejectionSampler, SlotSampler

_GPU = "vllm.v1.worker.gpu"
_STATES = f"{_GPU}.model_states.interface"

SIGNATURES = {
    _STATES: {"ModelState.custom_sampler": "self sampler"},
    f"{_GPU}.sample.sampler": {
        **overriding(SlotSampler, "Sampler", "add_request"),
        "Sampler.sample": f"self {SAMPLE}",
        "Sampler.get_logprobs_dims": "self idx_mapping_np include_token_ids",
    },
    f"{_GPU}.spec_decode.rejection_sampler": {
        "RejectionSampler.__init__": "self sampler spec_config device watermark_key",
        "RejectionSampler._verify": f"self {VERIFY}",
    },
    f"{_GPU}.sample.logits_processor.interface": {
        "LogitsContext.__init__": "self expanded_idx_mapping idx_mapping idx_mapping_np expanded_local_pos "
        "input_ids pos seq_lens_upper_bound_np",
        "LogitsProcRequestState.__init__": "self device max_num_reqs vocab_size all_token_ids prompt_len "
        "prefill_len total_len",
    },
}
"""The parameters of what is replaced, called and read, by vLLM's modules."""


def put_in() -> None:
    """Let the states of models give the runner our samplers, but those that have samplers of their own."""
    PLACES.check(SIGNATURES.items())
    PLACES.replace(PLACES.module(_STATES).ModelState, "custom_sampler", custom_sampler)
    settings.put_in()


def custom_sampler(self: Any, sampler: Any) -> tuple[SlotSampler, SlotRejectionSampler | None] | None:
    """The samplers of a `ModelState`, `self`; None, which leaves vLLM's, where that watermarks."""
    if type(sampler) is not Sampler:
        return None
    mine, speculative = SlotSampler.in_place_of(sampler), self.vllm_config.speculative_config
    if speculative is None:
        return mine, None
    return mine, SlotRejectionSampler(mine, speculative, self.device)
