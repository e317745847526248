"""A vocabulary as llguidance has it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from engine_sampler import Tokenizer
from engine_sampler.contract import ConstraintError, Vocabulary, bitmask_words

SPECIAL_MARKER = b"\xff"
"""Begins what llguidance takes for the name of a special token; no UTF-8 text has this byte."""

LIMITS = LLParserLimits(verbose_errors=False)
"""llguidance's own limits. An error does not repeat the grammar."""

NO_FORCING = '\n%llguidance {"no_forcing": true}\n'
"""Lets any tokens spell what is certain to come, not only those of the model's own encoding."""


class GuidedVocabulary:
    """The tokens of a vocabulary, and behind them one for each byte, since llguidance accepts only tokens.

    Those have words of their own in the mask, which are left out; so has an end of text for a vocabulary
    without one.

    words    the width of a mask.
    guided   the width of llguidance's mask.
    ended    the mask after the end of a text, int32 [words]: the EOS tokens.
    """

    def __init__(self, tokenizer: Tokenizer, size: int, eos_token_ids: tuple[int, ...]) -> None:
        self.tokenizer, self.size, self.eos_token_ids = tokenizer, size, eos_token_ids
        self.words = bitmask_words(size)
        pieces = [b"" if p.startswith(SPECIAL_MARKER) else p for p in tokenizer.token_bytes[:size]]
        pieces += [b""] * (self.words * 32 - len(pieces))
        pieces += [bytes((byte,)) for byte in range(255)]
        self.tokens = [*pieces, b"<end of text>"]
        self.guided = bitmask_words(len(self.tokens))
        ends = list(eos_token_ids) or [len(pieces)]
        self.eos_token_id, self.bos_token_id = ends[0], None
        self.special_token_ids = [*ends, *(i for i in tokenizer.special_token_ids if i < size)]
        self.guidance = LLTokenizer(TokenizerWrapper(self), n_vocab=len(self.tokens), eos_token=ends)
        allowed = np.zeros(self.words * 32, bool)
        allowed[list(eos_token_ids)] = True
        self.ended = np.packbits(allowed, bitorder="little").view("<i4").astype(np.int32)
        self.parsed = functools.lru_cache(maxsize=64)(self._parsed)

    def __call__(self, data: bytes) -> list[int]:
        """The encoding of what is certain to come; [] if there is none: an error is a panic in llguidance."""
        try:
            return self.tokenizer.encode_bytes(data)
        except Exception:
            return []

    @classmethod
    def of(cls, vocabulary: Vocabulary, parameter: str) -> GuidedVocabulary:
        """Made once for a tokenizer, and kept with it. Raises `ParameterError` without one."""
        tokenizer, key = vocabulary.need_tokenizer(parameter), (vocabulary.size, vocabulary.eos_token_ids)
        return tokenizer.kept(f"llguidance {key}", lambda: cls(tokenizer, *key))

    def byte_ids(self, data: bytes) -> list[int]:
        """The tokens behind the vocabulary that spell `data`."""
        return [self.words * 32 + byte for byte in data]

    def _parsed(self, lark: str, limits: LLParserLimits | None) -> LLMatcher:
        """A matcher at the beginning of a text of a grammar, to be copied; the latest are kept. Raises
        `ConstraintError` with llguidance's reason."""
        matcher = LLMatcher(self.guidance, lark + NO_FORCING, log_level=0, limits=limits or LIMITS)
        check(matcher)
        return matcher


def check(matcher: LLMatcher) -> None:
    """Raise `ConstraintError` if llguidance has given up, and why."""
    if not matcher.is_error():
        return
    lines = [line for line in matcher.get_error().splitlines() if line[:1] not in (" ", "<", "")]
    reason = " ".join(lines)
    raise ConstraintError(reason if len(reason) < 400 else f"{reason[:200]} … {reason[-200:]}")


def fill(matcher: LLMatcher, width: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """The mask of the next token with the tokens behind the vocabulary, int32 [width]."""
    words = np.zeros(width, np.int32)
    matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
    return words
