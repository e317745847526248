"""Where vLLM is told to use other classes, and what these places must look like."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from .following import FollowingProcessor
from .rejection import RowRejectionSampler
from .sampler import RowwiseSampler

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

_ORIGINALS: list[tuple[Any, str, Any]] = []
"""What has been replaced: the module, the name, and the object."""


class PeerError(RuntimeError):
    """vLLM is not as this package knows it; the message names what has changed."""


def check_peer(runner: Any) -> None:
    """Raise `PeerError`, which names every difference, unless the module of the model runner has these
    places."""
    wrong = [name for name, names in SIGNATURES.items() if _parameters(runner, name) != names.split()]
    if wrong:
        raise PeerError(f"vLLM has changed, and keeps its own sampler: {', '.join(wrong)}")


def put_in(runner: Any = None) -> None:
    """Replace vLLM's classes in the module of its model runner; they may be replaced already."""
    if _ORIGINALS:
        return
    runner = runner or import_module("vllm.v1.worker.gpu_model_runner")
    check_peer(runner)
    build = runner.build_logitsprocs

    def build_with_following(vllm_config: Any, *arguments: Any, **keywords: Any) -> Any:
        """vLLM's processors, and one more, which follows the requests of the batch and changes nothing."""
        built = build(vllm_config, *arguments, **keywords)
        built.non_argmax_invariant.append(FollowingProcessor(vllm_config))
        return built

    mine = {"Sampler": RowwiseSampler, "RejectionSampler": RowRejectionSampler}
    for name, value in {**mine, "build_logitsprocs": build_with_following}.items():
        _ORIGINALS.append((runner, name, getattr(runner, name)))
        setattr(runner, name, value)


def put_back() -> None:
    """Restore vLLM's classes."""
    while _ORIGINALS:
        setattr(*_ORIGINALS.pop())


def _parameters(runner: Any, name: str) -> list[str]:
    """The names of the parameters of what `runner` has under a name; [] if it has nothing there."""
    at: Any = runner
    for part in name.split("."):
        at = getattr(at, part, None)
    return [] if at is None else list(inspect.signature(at).parameters)
