"""Where vLLM is told to use other classes, and what these places must look like."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from vllm.exceptions import VLLMValidationError

from .following import FollowingProcessor
from .rejection import RowRejectionSampler
from .sampler import RowwiseSampler
from .settings import params_of

VALIDATION = "validate_logits_processors_parameters"
"""What the server calls for each request, in vLLM's module of logits processors."""

SIGNATURES = {
    VALIDATION: "logits_processors sampling_params",
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
"""The parameters of what is replaced and read, most of it in vLLM's module of the model runner."""

_ORIGINALS: list[tuple[Any, str, Any]] = []
"""What has been replaced: the module, the name, and the object."""


class PeerError(RuntimeError):
    """vLLM is not as this package knows it; the message names what has changed."""


def check_peer(runner: Any, processors: Any) -> None:
    """Raise `PeerError`, which names every difference, unless the modules of the model runner and of logits
    processors have these places."""
    at = {name: processors if name == VALIDATION else runner for name in SIGNATURES}
    wrong = [name for name, names in SIGNATURES.items() if _parameters(at[name], name) != names.split()]
    if wrong:
        raise PeerError(f"vLLM has changed, and keeps its own sampler: {', '.join(wrong)}")


def put_in(runner: Any = None) -> None:
    """Replace vLLM's classes in the module of its model runner; they may be replaced already."""
    if _ORIGINALS:
        return
    runner = runner or import_module("vllm.v1.worker.gpu_model_runner")
    processors: Any = import_module("vllm.v1.sample.logits_processor")
    check_peer(runner, processors)
    build, validate = runner.build_logitsprocs, getattr(processors, VALIDATION)

    def build_with_following(vllm_config: Any, *arguments: Any, **keywords: Any) -> Any:
        """vLLM's processors, and one more, which follows the requests of the batch and changes nothing."""
        built = build(vllm_config, *arguments, **keywords)
        built.non_argmax_invariant.append(FollowingProcessor(vllm_config))
        return built

    def validate_ours_too(logits_processors: Any, sampling_params: Any) -> None:
        """HTTP 400 for wrong `extra_args`."""
        try:
            params_of(sampling_params)
        except ValueError as error:
            raise VLLMValidationError(str(error)) from error
        validate(logits_processors, sampling_params)

    for module, name, mine in (
        (runner, "Sampler", RowwiseSampler),
        (runner, "RejectionSampler", RowRejectionSampler),
        (runner, "build_logitsprocs", build_with_following),
        (processors, VALIDATION, validate_ours_too),
    ):
        _ORIGINALS.append((module, name, getattr(module, name)))
        setattr(module, name, mine)


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
