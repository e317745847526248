"""The engines that are compared, each behind the same few methods, through its public Python interface."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


class Vocabulary:
    """The 131,072 tokens of mistral-common's tekken, a thousand of them special."""

    def __init__(self) -> None:
        import mistral_common
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer

        path = Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
        self._tekken = tekken = Tekkenizer.from_file(path)
        self.size, self.special, self.eos = tekken.n_words, tekken.num_special_tokens, tekken.eos_id
        self.tokens = [b""] * self.special
        self.tokens += [tekken.id_to_byte_piece(i) for i in range(self.special, self.size)]

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return self._tekken.encode(text, bos=False, eos=False)


class Engine:
    """How a benchmark calls an engine. A mask is int32 `[1, ceil(vocab / 32)]`."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        from engine_sampler import Tokenizer
        from engine_sampler.grammar import Grammar, Limits

        self.vocabulary = vocabulary
        special = range(vocabulary.special)
        self._tokenizer = Tokenizer(vocabulary.tokens, [vocabulary.eos], special)
        self._grammar, self._limits = Grammar, Limits()
        self.compile({}, {})  # reads the vocabulary, as the others do when their tokenizers are made

    def compile(self, schema: Any, options: Mapping[str, Any]) -> Any:
        """What `matcher` makes matchers of. Raises for a schema that is refused.

        options  of `Grammar.from_json_schema`; other engines have no such ones
        """
        grammar = self._grammar.from_json_schema(schema, **options)
        return grammar.compile(self._tokenizer, limits=self._limits)

    def matcher(self, compiled: Any) -> Any:
        """A matcher at the beginning of a text."""
        return compiled.matcher()

    def new_mask(self) -> Any:
        """A mask of one row."""
        return np.zeros((1, (self.vocabulary.size + 31) // 32), np.int32)

    def fill(self, matcher: Any, mask: Any) -> None:
        """Write the mask of the next token."""
        matcher.fill_bitmask(mask, 0)

    def accept(self, matcher: Any, token_id: int) -> bool:
        """Accept a token; False if it cannot follow."""
        return bool(matcher.accept(token_id))


class Llguidance(Engine):
    """llguidance: a matcher is copied, not made anew."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        import llguidance
        import llguidance.numpy

        self.vocabulary = vocabulary
        self._library, self._masks = llguidance, llguidance.numpy

        class Wrapped:
            eos_token_id = bos_token_id = vocabulary.eos
            tokens = [
                token if i >= vocabulary.special else f"<SPECIAL_{i}>".encode()
                for i, token in enumerate(vocabulary.tokens)
            ]
            special_token_ids = list(range(vocabulary.special))

            def __call__(self, text: str) -> list[int]:
                return vocabulary.encode(text)

        wrapper = llguidance.TokenizerWrapper(Wrapped())
        self._tokenizer = llguidance.LLTokenizer(wrapper, n_vocab=vocabulary.size)

    def compile(self, schema: Any, options: Mapping[str, Any]) -> Any:
        kind = self._library.LLMatcher
        matcher = kind(self._tokenizer, kind.grammar_from_json_schema(schema), log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def matcher(self, compiled: Any) -> Any:
        return compiled.deep_copy()

    def fill(self, matcher: Any, mask: Any) -> None:
        self._masks.fill_next_token_bitmask(matcher, mask, 0)

    def accept(self, matcher: Any, token_id: int) -> bool:
        return bool(matcher.consume_token(token_id))


class Xgrammar(Engine):
    """xgrammar, with the white space and the open objects of JSON Schema: by default it has neither."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        import torch
        import xgrammar

        torch.set_num_threads(1)
        self.vocabulary, self._library = vocabulary, xgrammar
        kind = xgrammar.VocabType.RAW
        info = xgrammar.TokenizerInfo(
            vocabulary.tokens, kind, vocab_size=vocabulary.size, stop_token_ids=[vocabulary.eos]
        )
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def compile(self, schema: Any, options: Mapping[str, Any]) -> Any:
        text = json.dumps(schema)
        return self._compiler.compile_json_schema(text, any_whitespace=True, strict_mode=False)

    def matcher(self, compiled: Any) -> Any:
        return self._library.GrammarMatcher(compiled)

    def new_mask(self) -> Any:
        return self._library.allocate_token_bitmask(1, self.vocabulary.size)

    def fill(self, matcher: Any, mask: Any) -> None:
        matcher.fill_next_token_bitmask(mask, 0)

    def accept(self, matcher: Any, token_id: int) -> bool:
        return bool(matcher.accept_token(token_id))


ENGINES: dict[str, type[Engine]] = {
    "engine-sampler": Engine,
    "llguidance": Llguidance,
    "xgrammar": Xgrammar,
}
"""The engines by the names of their distributions; ours comes first."""


NEEDED: dict[str, tuple[str, ...]] = {
    "engine-sampler": ("engine_sampler", "mistral_common"),
    "llguidance": ("llguidance", "mistral_common"),
    "xgrammar": ("xgrammar", "torch", "mistral_common"),
}
"""The modules that each of them imports."""


def missing(engine: str) -> list[str]:
    """The modules that an engine needs and that are not installed."""
    return [module for module in NEEDED[engine] if importlib.util.find_spec(module) is None]
