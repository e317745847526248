"""The places of grammars in vLLM, whose list of backends is closed: ours has the name "guidance"."""

from __future__ import annotations

from typing import Any

from .grammars import GrammarBackend, validate_grammar
from .places import PLACES

_MANAGER = "vllm.v1.structured_output"
_BACKEND = "vllm.v1.structured_output.backend_guidance"
_TYPES = "vllm.v1.structured_output.backend_types"

SIGNATURES = {
    _MANAGER: {"GuidanceBackend.__init__": "self vllm_config tokenizer vocab_size"},
    _BACKEND: {
        "GuidanceBackend.is_tokenizer_supported": "tokenizer",
        "validate_guidance_grammar": "sampling_params tokenizer",
        "has_guidance_unsupported_json_features": "schema",
    },
    _TYPES: {
        "StructuredOutputBackend.compile_grammar": "self request_type grammar_spec stop_token_ids",
        "StructuredOutputBackend.allocate_token_bitmask": "self max_num_seqs",
        "StructuredOutputBackend.destroy": "self",
        "StructuredOutputGrammar.accept_tokens": "self request_id tokens",
        "StructuredOutputGrammar.validate_tokens": "self tokens",
        "StructuredOutputGrammar.rollback": "self num_tokens",
        "StructuredOutputGrammar.fill_bitmask": "self bitmask batch_index",
        "StructuredOutputGrammar.is_terminated": "self",
        "StructuredOutputGrammar.reset": "self",
    },
}
"""The parameters of what is replaced and implemented, by vLLM's modules."""


def put_in() -> None:
    """Let requests whose backend is "guidance" have our grammars."""
    modules = {name: PLACES.module(name) for name in SIGNATURES}
    manager, backend = modules[_MANAGER], modules[_BACKEND]
    if PLACES.is_replaced(manager, "GuidanceBackend"):
        return
    PLACES.check([(modules[name], expected) for name, expected in SIGNATURES.items()])
    PLACES.replace(manager, "GuidanceBackend", GrammarBackend)
    PLACES.replace(backend, "GuidanceBackend", GrammarBackend)
    PLACES.replace(backend, "validate_guidance_grammar", validate_grammar)
    PLACES.replace(backend, "has_guidance_unsupported_json_features", _is_unsupported)


def _is_unsupported(schema: Any) -> bool:
    """No schema goes to another backend unread: `validate_grammar` refuses what cannot be enforced."""
    return False
