"""vLLM's structured outputs by the grammars of engine-sampler. Its list of backends is closed: ours has the
name "guidance"."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import lru_cache
from typing import Any

import torch
from vllm.exceptions import VLLMValidationError
from vllm.v1.structured_output.backend_types import StructuredOutputBackend, StructuredOutputGrammar
from vllm.v1.structured_output.request import get_structured_output_key

from engine_sampler import Tokenizer
from engine_sampler.contract import bitmask_words
from engine_sampler.for_bridges import GrammarText, overriding, refused_with, structured_grammar

from .places import PLACES

_MANAGER = "vllm.v1.structured_output"
_BACKEND = f"{_MANAGER}.backend_guidance"

logger = logging.getLogger("engine_sampler")


class GrammarBackend(StructuredOutputBackend):
    """Grammars for a model's tokenizer.

    Raises ValueError for a tokenizer whose tokens have no bytes of their own.
    """

    def __init__(self, vllm_config: Any, tokenizer: Any, vocab_size: int) -> None:
        super().__init__(vllm_config, tokenizer, vocab_size)
        settings = vllm_config.structured_outputs_config
        self._options = {
            "whitespace": 0 if settings.disable_any_whitespace else None,
            "closes_objects": settings.disable_additional_properties,
        }
        self._tokens = _tokens_of(tokenizer)

    @staticmethod
    def is_tokenizer_supported(tokenizer: Any) -> bool:
        """Whether its tokens have bytes."""
        with suppress(TypeError, ValueError):
            return len(_tokens_of(tokenizer)) > 0
        return False

    def compile_grammar(
        self, request_type: Any, grammar_spec: str, stop_token_ids: set[int] | None = None
    ) -> TokenGrammar:
        """A grammar at the beginning of its text. Raises ValueError for one that cannot be read."""
        grammar = structured_grammar(request_type.name.lower(), grammar_spec, **self._options)
        return TokenGrammar(grammar.compile(self._tokens), stop_token_ids)

    def allocate_token_bitmask(self, max_num_seqs: int) -> torch.Tensor:
        """int32 [max_num_seqs, ceil(tokens / 32)], all 1."""
        words = bitmask_words(max(self.vocab_size, len(self._tokens)))
        return torch.full((max_num_seqs, words), -1, dtype=torch.int32)

    def destroy(self) -> None:
        """Nothing: grammars are freed with the requests that have them."""


class TokenGrammar(GrammarText, StructuredOutputGrammar):
    """The text of a request under a grammar."""

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Add tokens to the text, up to its end; False if one cannot follow."""
        if self.accept(tokens):
            return True
        logger.error("request %s: one of %s cannot follow: %s", request_id, tokens, self.fault)
        return False

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """The first of the tokens, as many as could follow."""
        return tokens[: self.count_valid(tokens)]

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        """Write which tokens may follow to a row of int32 [rows, ceil(tokens / 32)]."""
        self.fill(bitmask.numpy(), batch_index)


@refused_with(VLLMValidationError)
def validate_grammar(sampling_params: Any, tokenizer: Any = None) -> None:
    """Raise vLLM's error for HTTP 400 for a constraint that cannot be read."""
    if sampling_params.structured_outputs is not None:
        kind, spec = get_structured_output_key(sampling_params.structured_outputs)
        structured_grammar(kind.name.lower(), spec)


@lru_cache(maxsize=2)
def _tokens_of(tokenizer: Any) -> Tokenizer:
    return Tokenizer.from_transformers(tokenizer)


SIGNATURES = {
    _MANAGER: overriding(GrammarBackend, "GuidanceBackend", "__init__"),
    _BACKEND: {
        **overriding(GrammarBackend, "GuidanceBackend", "is_tokenizer_supported"),
        "validate_guidance_grammar": "sampling_params tokenizer",
        "has_guidance_unsupported_json_features": "schema",
    },
    f"{_MANAGER}.backend_types": {
        **overriding(GrammarBackend, "StructuredOutputBackend"),
        **overriding(TokenGrammar, "StructuredOutputGrammar"),
    },
}
"""The parameters of what is replaced and implemented, by vLLM's modules."""


def put_in() -> None:
    """Let requests whose backend is "guidance" have our grammars."""
    PLACES.check(SIGNATURES.items())
    manager, backend = PLACES.module(_MANAGER), PLACES.module(_BACKEND)
    PLACES.replace(manager, "GuidanceBackend", GrammarBackend)
    PLACES.replace(backend, "GuidanceBackend", GrammarBackend)
    PLACES.replace(backend, "validate_guidance_grammar", validate_grammar)
    # No schema goes to another backend unread: `validate_grammar` refuses what cannot be enforced.
    PLACES.replace(backend, "has_guidance_unsupported_json_features", lambda schema: False)
