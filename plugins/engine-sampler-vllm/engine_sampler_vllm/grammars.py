"""`GrammarBackend`: vLLM's structured outputs by the grammars of engine-sampler."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from vllm.exceptions import VLLMValidationError
from vllm.v1.structured_output.backend_types import (
    StructuredOutputBackend,
    StructuredOutputGrammar,
    StructuredOutputOptions,
)
from vllm.v1.structured_output.request import get_structured_output_key

from engine_sampler import Grammar, SamplingParams, Tokenizer

logger = logging.getLogger("engine_sampler")


class GrammarBackend(StructuredOutputBackend):
    """Grammars for a model's tokenizer.

    Raises ValueError for a tokenizer whose tokens have no bytes of their own.
    """

    def __init__(self, vllm_config: Any, tokenizer: Any, vocab_size: int) -> None:
        super().__init__(vllm_config, tokenizer, vocab_size)
        settings = vllm_config.structured_outputs_config
        self._whitespace = 0 if settings.disable_any_whitespace else None
        self._closes_objects = settings.disable_additional_properties
        self._tokens = _tokens_of(tokenizer)

    @staticmethod
    def is_tokenizer_supported(tokenizer: Any) -> bool:
        """Whether its tokens have bytes."""
        try:
            _tokens_of(tokenizer)
        except (TypeError, ValueError):
            return False
        return True

    def compile_grammar(
        self,
        request_type: StructuredOutputOptions,
        grammar_spec: str,
        stop_token_ids: set[int] | None = None,
    ) -> TokenGrammar:
        """A grammar at the beginning of its text. Raises ValueError for one that cannot be read."""
        grammar = read_grammar(request_type, grammar_spec, self._whitespace, self._closes_objects)
        ends = self._tokens.eos_token_ids if stop_token_ids is None else stop_token_ids
        return TokenGrammar(grammar.compile(self._tokens).matcher, ends)

    def allocate_token_bitmask(self, max_num_seqs: int) -> torch.Tensor:
        """int32 [max_num_seqs, ceil(tokens / 32)], all 1."""
        width = max(self.vocab_size, len(self._tokens))
        return torch.full((max_num_seqs, (width + 31) // 32), -1, dtype=torch.int32)

    def destroy(self) -> None:
        """Nothing: grammars are freed with the requests that have them."""


class TokenGrammar(StructuredOutputGrammar):
    """The text of a request under a grammar.

    new_matcher  makes a matcher at the beginning of a text.
    ends         tokens that end the text where it may end, and are nothing else.

    A grammar that needs more work than it may constrains nothing more, and refuses the next token: vLLM then
    ends its request, and no others.
    """

    def __init__(self, new_matcher: Callable[[], Any], ends: Collection[int]) -> None:
        self._new_matcher = new_matcher
        self._ends = frozenset(ends)
        self.reset()

    def reset(self) -> None:
        """Go back to the beginning of the text."""
        self._matcher = self._new_matcher()
        self._has_ended = False
        self._fault: ValueError | None = None

    def is_terminated(self) -> bool:
        """Whether the text has ended."""
        return self._has_ended or self._matcher.is_terminated()

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Add tokens to the text, up to its end; False if one cannot follow."""
        try:
            for token_id in tokens:
                if self.is_terminated():
                    break
                if not self._accept(token_id):
                    logger.error("request %s: token %d cannot follow: %s", request_id, token_id, self._fault)
                    return False
        except ValueError as fault:
            self._fail(fault)
            return False
        return True

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """The first of the tokens, as many as could follow."""
        if self.is_terminated() or self._fault is not None:
            return []
        accepted = 0
        try:
            for token_id in tokens:
                if token_id < 0 or self.is_terminated() or not self._accept(token_id):
                    break
                accepted += 1
            self.rollback(accepted)
        except ValueError as fault:
            self._fail(fault)
            return []
        return tokens[:accepted]

    def rollback(self, num_tokens: int) -> None:
        """Take back the last tokens."""
        if self._has_ended and num_tokens:
            self._has_ended, num_tokens = False, num_tokens - 1
        if num_tokens:
            self._matcher.rollback(num_tokens)

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        """Write which tokens may follow to a row of int32 [rows, ceil(tokens / 32)]."""
        words = bitmask.numpy()
        row = words[batch_index]
        row.fill(0 if self._fault is None and not self._has_ended else -1)
        if self._fault is not None or self._has_ended:
            return
        try:
            self._matcher.fill_bitmask(words, batch_index)
            may_end = self._matcher.is_accepting()
        except ValueError as fault:
            self._fail(fault)
            row.fill(-1)
            return
        for token_id in self._ends:
            bit = np.int64(1 << token_id % 32).astype(np.int32)
            row[token_id // 32] = row[token_id // 32] | bit if may_end else row[token_id // 32] & ~bit

    def _accept(self, token_id: int) -> bool:
        if self._fault is not None:
            return False
        if token_id not in self._ends:
            return self._matcher.accept(token_id)
        self._has_ended = self._matcher.is_accepting()
        return self._has_ended

    def _fail(self, fault: ValueError) -> None:
        self._fault = fault
        logger.error("a grammar gives up: %s", fault)


def read_grammar(
    kind: StructuredOutputOptions,
    spec: str,
    whitespace: int | None = None,
    closes_objects: bool = False,
) -> Grammar:
    """The grammar of one of vLLM's constraints. Raises ValueError for one that cannot be read.

    whitespace      how many blanks may stand between the tokens of JSON; None: as people write it.
    closes_objects  whether objects of a schema have no properties but those that it names.
    """
    options = StructuredOutputOptions
    if kind == options.JSON:
        if closes_objects:
            asked = {"json": spec, "disable_additional_properties": True}
            spec = SamplingParams.from_dict({"structured_outputs": asked}).json_schema
        return Grammar.from_json_schema(spec, whitespace=whitespace)
    if kind == options.JSON_OBJECT:
        return Grammar.from_json_object(whitespace=whitespace)
    if kind == options.REGEX:
        return Grammar.from_regex(spec)
    if kind == options.CHOICE:
        return Grammar.from_choices(json.loads(spec))
    if kind == options.GRAMMAR:
        return Grammar.from_text(spec)
    return Grammar.from_structural_tag(spec, whitespace=whitespace)


def validate_grammar(sampling_params: Any, tokenizer: Any = None) -> None:
    """Raise vLLM's error for HTTP 400 for a constraint that cannot be read."""
    if sampling_params.structured_outputs is None:
        return
    try:
        read_grammar(*get_structured_output_key(sampling_params.structured_outputs))
    except (TypeError, ValueError) as error:
        raise VLLMValidationError(str(error)) from error


@lru_cache(maxsize=2)
def _tokens_of(tokenizer: Any) -> Tokenizer:
    return Tokenizer.from_transformers(tokenizer)
