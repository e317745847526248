"""The places of the sampler in vLLM's V2 model runner."""

from __future__ import annotations

from typing import Any

from vllm.v1.worker.gpu.sample.sampler import Sampler

from .places import PLACES
from .v1 import check_extra_args
from .v2_sampler import SlotRejectionSampler, SlotSampler

VALIDATION = "build_custom_logits_processors_params_validator"
"""What the server calls once, in V2's module of logits processors, for a function that it calls for each
request."""

_ROWS = "logits expanded_idx_mapping idx_mapping idx_mapping_np pos input_ids expanded_local_pos"

_STATES, _SAMPLER, _REJECTION, _PROCESSORS = (
    f"vllm.v1.worker.gpu.{name}"
    for name in (
        "model_states.interface",
        "sample.sampler",
        "spec_decode.rejection_sampler",
        "sample.logits_processor",
    )
)

SIGNATURES = {
    _STATES: {"ModelState.custom_sampler": "self sampler"},
    _SAMPLER: {
        "Sampler.add_request": "self req_idx sampling_params",
        "Sampler.sample": f"self {_ROWS} seq_lens_upper_bound_np return_logprobs",
        "Sampler.get_logprobs_dims": "self idx_mapping_np include_token_ids",
        "RequestState.__init__": "self max_num_reqs max_model_len max_num_batched_tokens "
        "num_speculative_steps vocab_size device num_prefill_lookahead use_dense_all_token_ids",
        "SamplingStates.__init__": "self max_num_reqs vocab_size",
    },
    _REJECTION: {
        "RejectionSampler.__init__": "self sampler spec_config device watermark_key",
        "RejectionSampler._verify": "self logits draft_logits draft_sampled pos cu_num_logits idx_mapping "
        "idx_mapping_np expanded_idx_mapping expanded_local_pos seq_lens_upper_bound_np verify_draft_sampled",
    },
    _PROCESSORS: {
        VALIDATION: "custom_logitsprocs",
        "LogitsContext.__init__": "self expanded_idx_mapping idx_mapping idx_mapping_np expanded_local_pos "
        "input_ids pos seq_lens_upper_bound_np",
    },
}
"""The parameters of what is replaced, called and read, by vLLM's modules."""


def put_in() -> None:
    """Let the states of models give the runner our samplers, but those that have samplers of their own."""
    modules = {name: PLACES.module(name) for name in SIGNATURES}
    if PLACES.is_replaced(processors := modules[_PROCESSORS], VALIDATION):
        return
    PLACES.check([(modules[name], expected) for name, expected in SIGNATURES.items()])
    build_validator = getattr(processors, VALIDATION)

    def build_validator_of_ours_too(custom_logitsprocs: Any) -> Any:
        validate = build_validator(custom_logitsprocs)

        def validate_ours_too(sampling_params: Any) -> None:
            check_extra_args(sampling_params)
            validate(sampling_params)

        return validate_ours_too

    PLACES.replace(modules[_STATES].ModelState, "custom_sampler", custom_sampler)
    PLACES.replace(processors, VALIDATION, build_validator_of_ours_too)


def custom_sampler(state: Any, sampler: Any) -> tuple[SlotSampler, SlotRejectionSampler | None] | None:
    """The samplers of a `ModelState`; None, which leaves vLLM's, where that watermarks."""
    if type(sampler) is not Sampler:
        return None
    mine, speculative = SlotSampler.in_place_of(sampler), state.vllm_config.speculative_config
    if speculative is None:
        return mine, None
    return mine, SlotRejectionSampler(mine, speculative, state.device)
