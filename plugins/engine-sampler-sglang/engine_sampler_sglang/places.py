"""Where SGLang is told of this package, and what these places must look like."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

from sglang.srt.arg_groups import choices
from sglang.srt.constrained import base_grammar_backend as grammar_backends
from sglang.srt.layers import sampler as samplers
from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo
from sglang.srt.sampling.sampling_params import SamplingParams

from . import NAME
from .following import FOLLOWING
from .grammars import grammar_backend_for
from .sampler import SglangSampler
from .settings import check_if_chosen

_INFO = "sampling.sampling_batch_info:SamplingBatchInfo"
_GRAMMARS = "constrained.base_grammar_backend"

SIGNATURES = {
    "layers.sampler:Sampler.forward": "self logits_output sampling_info return_logprob top_logprobs_nums "
    "token_ids_logprobs positions logprob_logits",
    "layers.sampler:Sampler._sync_token_ids_across_tp": "self batch_next_token_ids sampling_info",
    "layers.sampler:Sampler._build_sampling_mask_output": "self batch_next_token_ids sampling_mask_capture "
    "support_capture_indices",
    "layers.sampler:_SamplingMaskCapture": "weights token_ids selected_weight batch_rows",
    "layers.sampler:apply_custom_logit_processor": "logits sampling_batch_info num_tokens_in_batch",
    "layers.sampler:register_sampler_backend": "backend factory",
    f"{_INFO}.adjusted_from_schedule_batch": "self batch vocab_size",
    f"{_INFO}.adjusted_merge_batch": "self other",
    f"{_INFO}.adjusted_filter_batch": "self keep_indices keep_indices_device",
    f"{_INFO}.copy_for_forward": "self",
    "sampling.sampling_params:SamplingParams.verify": "self vocab_size",
    f"{_GRAMMARS}:register_grammar_backend": "name init_func",
    f"{_GRAMMARS}:BaseGrammarObject.accept_token": "self token",
    f"{_GRAMMARS}:BaseGrammarObject.rollback": "self k",
    f"{_GRAMMARS}:BaseGrammarObject.allocate_vocab_mask": "self vocab_size batch_size device",
    f"{_GRAMMARS}:BaseGrammarObject.fill_vocab_mask_batched": "entries vocab_mask",
    f"{_GRAMMARS}:BaseGrammarObject.apply_vocab_mask": "logits vocab_mask",
    f"{_GRAMMARS}:BaseGrammarBackend.dispatch_json": "self key_string",
}
"""What is replaced, extended or called, by its place in `sglang.srt`, and its parameters."""

_ORIGINALS: list[tuple[Any, str, Any]] = []
"""What has been replaced: the class, the name, and the method."""


class SglangChangedError(RuntimeError):
    """SGLang is not as this package knows it; the message names what has changed."""


def check_signatures() -> None:
    """Raise `SglangChangedError`, which names every difference, unless SGLang has these signatures."""
    wrong = [name for name, names in SIGNATURES.items() if _parameters(name) != names.split()]
    if wrong:
        raise SglangChangedError(f"SGLang has changed, and keeps its own sampler: {', '.join(wrong)}")


def put_in() -> None:
    """Register both backends, and let batches follow their requests; that may have been done already."""
    if _ORIGINALS:
        return
    check_signatures()
    samplers.register_sampler_backend(NAME, SglangSampler)
    grammar_backends.register_grammar_backend(NAME, grammar_backend_for)
    if NAME not in choices.GRAMMAR_BACKEND_CHOICES:
        choices.add_grammar_backend_choices([NAME])
    for name, following in FOLLOWING.items():
        _replace(SamplingBatchInfo, name, following)
    _replace(SamplingParams, "verify", check_if_chosen)


def put_back() -> None:
    """Restore SGLang's methods and names."""
    while _ORIGINALS:
        setattr(*_ORIGINALS.pop())
    samplers._CUSTOM_SAMPLER_FACTORIES.pop(NAME, None)
    choices.SAMPLING_BACKEND_CHOICES.discard(NAME)
    grammar_backends.GRAMMAR_BACKEND_REGISTRY.pop(NAME, None)
    if NAME in choices.GRAMMAR_BACKEND_CHOICES:
        choices.GRAMMAR_BACKEND_CHOICES.remove(NAME)


def _parameters(place: str) -> list[str]:
    """The names of the parameters of what is there; [] if nothing is."""
    try:
        return list(inspect.signature(pkgutil.resolve_name(f"sglang.srt.{place}")).parameters)
    except (ImportError, AttributeError):
        return []


def _replace(owner: Any, name: str, addition: Callable[..., Any]) -> None:
    """Let a method of a class call `addition` with what it has returned, and with its arguments."""
    original = getattr(owner, name)

    def replaced(self: Any, *arguments: Any, **keywords: Any) -> Any:
        result = original(self, *arguments, **keywords)
        addition(result, self, *arguments, **keywords)
        return result

    _ORIGINALS.append((owner, name, original))
    setattr(owner, name, replaced)
