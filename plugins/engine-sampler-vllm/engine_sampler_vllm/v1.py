"""The places of the sampler in vLLM's V1 model runner."""

from __future__ import annotations

from typing import Any

from engine_sampler.for_bridges import overriding

from . import settings
from .batches import FollowingProcessor
from .places import PLACES
from .sampler import RowRejectionSampler, RowwiseSampler

SIGNATURES = {
    **overriding(RowwiseSampler, "Sampler", "__init__ forward"),
    **overriding(RowRejectionSampler, "RejectionSampler", "__init__ forward"),
    "build_logitsprocs": "vllm_config device is_pin_memory is_pooling_model custom_logitsprocs",
    "SamplingMetadata.__init__": "self temperature all_greedy all_random top_p top_k generators "
    "max_num_logprobs no_penalties prompt_token_ids frequency_penalties presence_penalties "
    "repetition_penalties output_token_ids allowed_token_ids_mask bad_words_token_ids logitsprocs "
    "logprob_token_ids spec_token_ids thinking_budget_state_holder",
}
"""The parameters of what is replaced and read in vLLM's module of the model runner."""


def put_in(runner: Any = None) -> None:
    """Replace vLLM's classes in the module of its model runner."""
    runner = runner or PLACES.module("vllm.v1.worker.gpu_model_runner")
    PLACES.check([(runner, SIGNATURES)])
    PLACES.replace(runner, "Sampler", RowwiseSampler)
    PLACES.replace(runner, "RejectionSampler", RowRejectionSampler)
    PLACES.follow(runner, "build_logitsprocs", _follow_requests)
    settings.put_in()


def _follow_requests(built: Any, vllm_config: Any, *arguments: Any, **keywords: Any) -> None:
    """Add to vLLM's processors the one that follows the requests of the batch."""
    built.non_argmax_invariant.append(FollowingProcessor(vllm_config))
