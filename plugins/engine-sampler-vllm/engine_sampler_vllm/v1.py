"""The places of the sampler in vLLM's V1 model runner."""

from __future__ import annotations

from typing import Any

from vllm.exceptions import VLLMValidationError

from .following import FollowingProcessor
from .places import PLACES
from .rejection import RowRejectionSampler
from .sampler import RowwiseSampler
from .settings import params_of

VALIDATION = "validate_logits_processors_parameters"
"""What the server calls for each request, in vLLM's module of logits processors."""

SIGNATURES = {
    "Sampler.__init__": "self logprobs_mode use_fp64_gumbel",
    "Sampler.forward": "self logits sampling_metadata predict_bonus_token logprobs_mode_override",
    "RejectionSampler.__init__": "self sampler spec_config device",
    "RejectionSampler.forward": "self metadata draft_probs logits sampling_metadata",
    "build_logitsprocs": "vllm_config device is_pin_memory is_pooling_model custom_logitsprocs",
    "SamplingMetadata.__init__": "self temperature all_greedy all_random top_p top_k generators "
    "max_num_logprobs no_penalties prompt_token_ids frequency_penalties presence_penalties "
    "repetition_penalties output_token_ids allowed_token_ids_mask bad_words_token_ids logitsprocs "
    "logprob_token_ids spec_token_ids thinking_budget_state_holder",
}
"""The parameters of what is replaced and read in vLLM's module of the model runner."""


def put_in(runner: Any = None) -> None:
    """Replace vLLM's classes in the module of its model runner; they may be replaced already."""
    runner = runner or PLACES.module("vllm.v1.worker.gpu_model_runner")
    if PLACES.is_replaced(runner, "Sampler"):
        return
    processors = PLACES.module("vllm.v1.sample.logits_processor")
    PLACES.check([(runner, SIGNATURES), (processors, {VALIDATION: "logits_processors sampling_params"})])
    build, validate = runner.build_logitsprocs, getattr(processors, VALIDATION)

    def build_with_following(vllm_config: Any, *arguments: Any, **keywords: Any) -> Any:
        """vLLM's processors, and one more, which follows the requests of the batch and changes nothing."""
        built = build(vllm_config, *arguments, **keywords)
        built.non_argmax_invariant.append(FollowingProcessor(vllm_config))
        return built

    def validate_ours_too(logits_processors: Any, sampling_params: Any) -> None:
        check_extra_args(sampling_params)
        validate(logits_processors, sampling_params)

    PLACES.replace(runner, "Sampler", RowwiseSampler)
    PLACES.replace(runner, "RejectionSampler", RowRejectionSampler)
    PLACES.replace(runner, "build_logitsprocs", build_with_following)
    PLACES.replace(processors, VALIDATION, validate_ours_too)


def check_extra_args(sampling_params: Any) -> None:
    """HTTP 400 for wrong `extra_args`."""
    try:
        params_of(sampling_params)
    except ValueError as error:
        raise VLLMValidationError(str(error)) from error
