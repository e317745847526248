"""Grammars compiled for a tokenizer, kept for the next request that asks for the same."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from ..contract import allocate_bitmask
from ..tokenizer import Tokenizer
from .cache import Cache, CacheInfo
from .engines import native
from .engines.reference import ReferenceGrammar, ReferenceVocabulary
from .errors import GrammarError
from .limits import LIMITS, Limits
from .program.rules import Program

MAX_GRAMMARS = 256
"""Compiled grammars that are kept for one tokenizer."""

MAX_BYTES = 1 << 30
"""Bytes of the tables of all of them, as far as they have grown when they are asked for."""


class CompiledGrammar:
    """A grammar for a tokenizer; immutable, and shared by requests and threads.

    engine  "native" or "reference": which of the two engines it runs on; results are equal
    """

    def __init__(
        self,
        program: Program,
        tokenizer: Tokenizer,
        limits: Limits = LIMITS,
        special_names: Sequence[str] = (),
    ) -> None:
        self.program = program
        self.tokenizer = tokenizer
        self.limits = limits
        self.special_names = tuple(special_names)
        bound = _bound(program, tokenizer, special_names) if special_names else program
        self.engine, self._compiled = _made(bound, tokenizer, limits)

    def matcher(self) -> Any:
        """A `Matcher` at the beginning of a text."""
        return self._compiled.matcher()

    def statistics(self) -> dict[str, int]:
        """What the engine holds for this grammar, such as "memory" in bytes; {} from the reference."""
        return self._compiled.statistics() if self.engine == "native" else {}

    def __reduce__(self) -> Any:
        return compiled, (self.program, self.tokenizer, self.limits, self.special_names)

    def __repr__(self) -> str:
        return f"<CompiledGrammar {self.program.key[:8]}, {self.engine}>"


def _bound(program: Program, tokenizer: Tokenizer, special_names: Sequence[str]) -> Program:
    """The program with the ids that the special tokens it names have in `tokenizer`."""
    ids = {tokenizer.token_bytes[i].decode(errors="replace"): i for i in tokenizer.special_token_ids}
    for name in special_names:
        if name not in ids:
            raise GrammarError(f"the grammar names the special token {name!r}, which the tokenizer lacks")
    return program.with_special_tokens([ids[name] for name in special_names])


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


def compiled(
    program: Program, tokenizer: Tokenizer, limits: Limits = LIMITS, special_names: Sequence[str] = ()
) -> CompiledGrammar:
    """The grammar for a tokenizer, made or kept.

    special_names  the special tokens that `program` names by number, in order

    Raises GrammarError for a name that is not a special token of the tokenizer.
    """
    names = tuple(special_names)
    kept = _prepared(tokenizer, limits).grammars
    return kept.get((program.key, names, limits), lambda: CompiledGrammar(program, tokenizer, limits, names))


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
    from .schema import rules_from_schema

    for schema, text in _COMMON:
        program = rules_from_schema(schema).program()
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
    if wanted == "native" and native.load_library() is None:
        raise GrammarError("ENGINE_SAMPLER_GRAMMAR_ENGINE is native, and the library has no grammar engine")
    if wanted == "reference" or native.load_library() is None:
        special = sorted(tokenizer.special_token_ids)
        return ReferenceVocabulary(tokenizer.token_bytes, tokenizer.eos_token_ids, special)
    return native.NativeVocabulary(tokenizer, limits)
