"""Where SGLang is told of this package, and what these places must look like."""

from __future__ import annotations

from sglang.srt.arg_groups import choices
from sglang.srt.constrained import base_grammar_backend as grammar_backends
from sglang.srt.layers import sampler as samplers
from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo
from sglang.srt.sampling.sampling_params import SamplingParams

from engine_sampler.for_bridges import overriding

from . import NAME, PLACES
from .following import FOLLOWING
from .grammars import MatcherGrammar, MatcherGrammarBackend, grammar_backend_for
from .sampler import SglangSampler
from .settings import check_if_chosen

SIGNATURES = {
    "layers.sampler": {
        **overriding(SglangSampler, "Sampler", "forward"),
        "Sampler._sync_token_ids_across_tp": "self batch_next_token_ids sampling_info",
        "Sampler._build_sampling_mask_output": "self batch_next_token_ids sampling_mask_capture "
        "support_capture_indices",
        "_SamplingMaskCapture": "weights token_ids selected_weight batch_rows",
        "apply_custom_logit_processor": "logits sampling_batch_info num_tokens_in_batch",
        "register_sampler_backend": "backend factory",
    },
    "sampling.sampling_batch_info": {
        "SamplingBatchInfo.adjusted_from_schedule_batch": "self batch vocab_size",
        "SamplingBatchInfo.adjusted_merge_batch": "self other",
        "SamplingBatchInfo.adjusted_filter_batch": "self keep_indices keep_indices_device",
        "SamplingBatchInfo.copy_for_forward": "self",
    },
    "sampling.sampling_params": {"SamplingParams.verify": "self vocab_size"},
    "constrained.base_grammar_backend": {
        "register_grammar_backend": "name init_func",
        **overriding(
            MatcherGrammar,
            "BaseGrammarObject",
            "accept_token allocate_vocab_mask fill_vocab_mask_batched apply_vocab_mask",
        ),
        "BaseGrammarObject.rollback": "self k",
        **overriding(MatcherGrammarBackend, "BaseGrammarBackend", "dispatch_json"),
    },
}
"""The parameters of what is replaced, extended or called, by the modules of `sglang.srt`."""


def put_in() -> None:
    """Register both backends, and let batches follow their requests; that may have been done already."""
    if PLACES.is_replaced(SamplingParams, "verify"):
        return
    PLACES.check((PLACES.module(f"sglang.srt.{name}"), expected) for name, expected in SIGNATURES.items())
    samplers.register_sampler_backend(NAME, SglangSampler)
    grammar_backends.register_grammar_backend(NAME, grammar_backend_for)
    if NAME not in choices.GRAMMAR_BACKEND_CHOICES:
        choices.add_grammar_backend_choices([NAME])
    for name, following in FOLLOWING.items():
        PLACES.follow(SamplingBatchInfo, name, following)
    PLACES.follow(SamplingParams, "verify", check_if_chosen)


def put_back() -> None:
    """Restore SGLang's methods and names."""
    PLACES.put_back()
    samplers._CUSTOM_SAMPLER_FACTORIES.pop(NAME, None)
    choices.SAMPLING_BACKEND_CHOICES.discard(NAME)
    grammar_backends.GRAMMAR_BACKEND_REGISTRY.pop(NAME, None)
    if NAME in choices.GRAMMAR_BACKEND_CHOICES:
        choices.GRAMMAR_BACKEND_CHOICES.remove(NAME)
