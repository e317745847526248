"""Grammars compiled for a tokenizer, kept for the next request that asks for the same."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Protocol

from ..tokenizer import Tokenizer
from . import native
from .bitmasks import allocate_bitmask
from .cache import Cache, CacheInfo
from .errors import GrammarError
from .grammar import LIMITS, Grammar
from .limits import Limits
from .reference import ReferenceGrammar, ReferenceVocabulary
from .rules import Program

MAX_GRAMMARS = 256
"""Compiled grammars that are kept for one tokenizer."""

MAX_BYTES = 1 << 30
"""Bytes of the tables of all of them, as far as they have grown when they are asked for."""


class Matcher(Protocol):
    """One text under a constraint: what a request needs of a grammar, or of anything in its place."""

    def fill_bitmask(self, bitmask: Any, row: int = 0) -> None:
        """Write the mask of the next token into a row of `bitmask`, int32 `[rows, ceil(vocab / 32)]`: bit
        t % 32 of word t // 32 is 1 where token t may follow."""

    def accept(self, token_id: int) -> bool:
        """Go on with a token; False, and nothing changes, where it cannot follow."""

    def accept_bytes(self, data: bytes) -> bool:
        """Go on with bytes that need not be those of a token."""

    def rollback(self, n: int) -> None:
        """Take back the last n accepts."""

    def fork(self) -> Matcher:
        """An independent copy."""

    def is_accepting(self) -> bool:
        """Whether the text may end here."""

    def is_terminated(self) -> bool:
        """Whether it has ended."""

    def forced_tokens(self) -> list[int]:
        """The tokens that must come next."""

    def validate(self, token_ids: Any) -> int:
        """How many of the tokens could be accepted one after the other."""


class CompiledGrammar:
    """A grammar for a tokenizer; immutable, and shared by requests and threads.

    engine  "native" or "reference": which of the two engines it runs on; results are equal
    """

    def __init__(self, grammar: Grammar, tokenizer: Tokenizer, limits: Limits = LIMITS) -> None:
        self.grammar = grammar
        self.tokenizer = tokenizer
        self.limits = limits
        program = grammar.program_for(tokenizer)
        self.engine, self._compiled = _made(program, tokenizer, limits)

    def matcher(self) -> Any:
        """A `Matcher` at the beginning of a text."""
        return self._compiled.matcher()

    def statistics(self) -> dict[str, int]:
        """What the engine holds for this grammar, such as "memory" in bytes; {} from the reference."""
        return self._compiled.statistics() if self.engine == "native" else {}

    def __reduce__(self) -> Any:
        return compiled, (self.grammar, self.tokenizer, self.limits)

    def __repr__(self) -> str:
        return f"<CompiledGrammar {self.grammar.kind} {self.grammar.key[:8]}, {self.engine}>"


def _made(program: Program, tokenizer: Tokenizer, limits: Limits) -> tuple[str, Any]:
    """The name of the engine that reads `program`, and what it makes of it."""
    prepared = _vocabulary(tokenizer, limits)
    if isinstance(prepared, native.NativeVocabulary):
        return "native", native.NativeGrammar(program, prepared, limits)
    return "reference", ReferenceGrammar(program, prepared)


class _Prepared:
    """What is kept for a tokenizer."""

    def __init__(self, vocabulary: Any) -> None:
        self.vocabulary = vocabulary
        self.grammars: Cache[CompiledGrammar] = Cache(
            MAX_GRAMMARS, MAX_BYTES, lambda one: one.statistics().get("memory", 1 << 20)
        )


_PREPARED: weakref.WeakKeyDictionary[Tokenizer, _Prepared] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def prepare(tokenizer: Tokenizer, limits: Limits = LIMITS) -> None:
    """Do now what the first grammar of a tokenizer would do: some tenths of a second for 131k tokens.

    That is the tree of all tokens, and the masks inside of JSON strings: no state of other grammars lets
    as many tokens pass.
    """
    _prepared(tokenizer, limits)


def compiled(grammar: Grammar, tokenizer: Tokenizer, limits: Limits = LIMITS) -> CompiledGrammar:
    """The grammar for a tokenizer, made or kept."""
    kept = _prepared(tokenizer, limits).grammars
    return kept.get((grammar.key, limits), lambda: CompiledGrammar(grammar, tokenizer, limits))


def cache_info(tokenizer: Tokenizer) -> CacheInfo:
    """What is kept of the grammars of a tokenizer."""
    return _prepared(tokenizer, LIMITS).grammars.info()


def clear_cache(tokenizer: Tokenizer) -> None:
    """Forget the grammars of a tokenizer that are not in use."""
    _prepared(tokenizer, LIMITS).grammars.clear()


def _prepared(tokenizer: Tokenizer, limits: Limits) -> _Prepared:
    with _LOCK:
        found = _PREPARED.get(tokenizer)
        if found is None:
            found = _PREPARED[tokenizer] = _Prepared(_make_vocabulary(tokenizer, limits))
            if isinstance(found.vocabulary, native.NativeVocabulary):
                _warm(found.vocabulary, limits)
        return found


_COMMON: tuple[tuple[dict[str, Any], bytes], ...] = (
    ({}, b'"'),
    ({"type": "object", "properties": {"a": {"type": "integer"}}}, b'{"b'),
    ({"type": "string", "minLength": 1, "maxLength": 12}, b'"aaaaaaaaaaaa'),
)
"""Schemas, and texts under them, whose masks many grammars have in common."""


def _warm(vocabulary: native.NativeVocabulary, limits: Limits) -> None:
    bitmask = allocate_bitmask(1, vocabulary.size)
    for schema, text in _COMMON:
        program = Grammar.from_json_schema(schema).program
        matcher = native.NativeGrammar(program, vocabulary, limits).matcher()
        for byte in text:
            matcher.accept_bytes(bytes((byte,)))
            matcher.fill_bitmask(bitmask)


def _vocabulary(tokenizer: Tokenizer, limits: Limits) -> Any:
    return _prepared(tokenizer, limits).vocabulary


def _make_vocabulary(tokenizer: Tokenizer, limits: Limits) -> Any:
    wanted = os.environ.get("ENGINE_SAMPLER_GRAMMAR_ENGINE", "auto")
    if wanted not in ("auto", "native", "reference"):
        allowed = "auto, native or reference"
        raise GrammarError(f"ENGINE_SAMPLER_GRAMMAR_ENGINE is {wanted!r}, allowed are {allowed}")
    if wanted == "native" and native.engine() is None:
        raise GrammarError("ENGINE_SAMPLER_GRAMMAR_ENGINE is native, and the library has no grammar engine")
    if wanted == "reference" or native.engine() is None:
        special = sorted(tokenizer.special_token_ids)
        return ReferenceVocabulary(tokenizer.token_bytes, tokenizer.eos_token_ids, special)
    return native.NativeVocabulary(tokenizer, limits)
