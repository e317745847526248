"""Grammars compiled for a tokenizer, cached for the next request that needs the same one."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..base.arguments import instance_of
from ..base.errors import quoted
from ..base.forking import fork_safe
from ..contract import Compiled, allocate_bitmask
from ..tokenizer import Tokenizer
from .cache import Cache, CacheInfo
from .engines import native
from .engines.failures import largest_part, with_reason
from .engines.unique_items import UniqueItems
from .engines.unique_keys import UniqueKeysMatcher
from .errors import GrammarError, GrammarLimitError
from .limits import LIMITS, Limits
from .program.rules import Program
from .program.special_names import Binding

if TYPE_CHECKING:
    from .engines.captures import Captures

SpecialName: TypeAlias = "str | Binding"
"""The name of a token that a program refers to by number, or a `Binding` of one of its terminals."""

MAX_GRAMMARS = 256
"""Compiled grammars that are cached for one tokenizer."""

MAX_BYTES = 1 << 30
"""The bound on the bytes of all of them, their tables and the expressions that these have added included."""


class MatcherSettings:
    """The sampling parameters that the rules of a grammar set, for its matchers.

    settings  all of them
    """

    def __init__(self, program: Program) -> None:
        self.settings = program.settings
        self._settings_of = np.array(program.settings_of, np.int64)

    def present(self, matcher: Any) -> int:
        """The number, from 1, of the settings that hold for the next token of a matcher's text; 0 for none.
        If it may belong to several rules with settings, those of the first one in the grammar hold."""
        numbers = self._settings_of[matcher.open_terminals() != 0]
        return int(min(numbers[numbers > 0], default=0))


class CompiledGrammar(Compiled):
    """A grammar for a tokenizer; immutable, and shared by requests and threads.

    engine       "native" or "reference": the engine that it runs on; the results are equal
    compiled_at  when it was compiled, by `time.monotonic`
    settings     the sampling parameters that its rules set; None for none
    """

    def __init__(
        self,
        program: Program,
        tokenizer: Tokenizer,
        limits: Limits = LIMITS,
        special_names: Sequence[SpecialName] = (),
        engine: str | None = None,
    ) -> None:
        self.program = program
        self.tokenizer = tokenizer
        self.limits = limits
        self.special_names = tuple(special_names)
        bound = bound_program(program, tokenizer, special_names)
        try:
            self.engine, self._compiled = _compile(bound, tokenizer, limits, engine)
        except GrammarLimitError as error:
            if part := largest_part(program):
                error.text += f"; the grammar's largest part is {part}"
            raise
        self._unique_items = UniqueItems(program, tokenizer) if program.unique_items else None
        self.settings = MatcherSettings(program) if program.settings else None
        self.unenforced, self.has_captures = program.unenforced, bool(program.captures)
        self.compiled_at = time.monotonic()

    def matcher(self) -> Any:
        """A new `Matcher`, at the beginning of a text."""
        matcher = self._compiled.matcher()
        if self.program.unenforced or self.program.captures or self.program.settings:
            matcher.compiled = self
        if self._unique_items is not None:
            matcher = self._unique_items.matcher(matcher)
        if self.program.unique_keys:
            matcher = UniqueKeysMatcher(matcher, self.tokenizer)
        return matcher

    def captures(self, token_ids: Sequence[int], *, begin: int = 0, steps: int | None = None) -> Captures:
        """What the rules with the attribute `capture` match in the text of tokens up to EOS: as
        `Grammar.captures`, and by which of these tokens.

        begin  how many tokens come before those that the grammar is about, such as thoughts
        steps  as there

        It depends on the tokens alone: the captures of a matcher, of its forks, and of one that was rolled
        back are those of the tokens that each has accepted.
        """
        if not self.program.captures:
            return {}
        from .engines.captures import captures_of_tokens

        bound = bound_program(self.program, self.tokenizer, self.special_names)
        return captures_of_tokens(bound, token_ids, begin, self.tokenizer, steps)

    def statistics(self) -> dict[str, int]:
        """The engine's counts for this grammar, such as "memory" in bytes; {} from the reference engine."""
        return self._compiled.statistics() if self.engine == "native" else {}

    def weight(self) -> int:
        """The bytes of its tables now, and of the expressions that it has added to those of all grammars."""
        return int(self._compiled.weight())

    def __reduce__(self) -> Any:
        return compiled_grammar, (self.program, self.tokenizer, self.limits, self.special_names)

    def __repr__(self) -> str:
        return f"<CompiledGrammar {self.program.key[:8]} for {len(self.tokenizer)} tokens, {self.engine}>"


def bound_program(program: Program, tokenizer: Tokenizer, special_names: Sequence[SpecialName]) -> Program:
    """The program with the ids in `tokenizer` of the tokens that it names."""
    if not special_names:
        return program
    special = {tokenizer.token_bytes[i].decode(errors="replace"): i for i in tokenizer.special_token_ids}
    names = [name for name in special_names if isinstance(name, str)]
    for name in names:
        if name not in special and not tokenizer.ids_of(name.encode()):
            raise GrammarError(
                f"the grammar names the special token {quoted(name)}, which the tokenizer lacks"
            )
    ids = [special[name] if name in special else tokenizer.ids_of(name.encode())[0] for name in names]
    program = program.with_special_tokens(ids)
    bound_ids: dict[int, Sequence[int]] = {}
    for entry in special_names:
        if not isinstance(entry, str):
            bound = _bound(entry, program.special_ids_of(entry.symbol), tokenizer, special)
            if bound is not None:
                bound_ids[entry.symbol] = bound
    return program.with_special_terminals(bound_ids)


def _bound(
    binding: Binding, named: Collection[int], tokenizer: Tokenizer, special: Mapping[str, int]
) -> Sequence[int] | None:
    """The tokens that a terminal is in a vocabulary; None if it keeps its expression.

    named    the tokens that it names
    special  the special tokens by name
    """
    specials, ends = tokenizer.special_token_ids, tokenizer.eos_token_ids
    if binding.kind == "marker":
        found = (
            (special[binding.name],) if binding.name in special else tokenizer.markers.get(binding.name, ())
        )
        return None if not found or not set(ends).isdisjoint(found) else found
    if binding.kind == "text":
        return None if specials.issuperset(named) else ()
    if binding.kind == "ordinary_except":
        if specials.issuperset(named):
            return ()
        named = specials.union(named)
    excluded = {*named, *ends}
    return [
        i for i, text in enumerate(tokenizer.token_bytes) if i not in excluded and (text or i in specials)
    ]


def _compile(program: Program, tokenizer: Tokenizer, limits: Limits, engine: str | None) -> tuple[str, Any]:
    """The name of the engine, for None the one in use for `tokenizer`, and the grammar that it compiles
    `program` to."""
    vocabulary = _prepared(tokenizer, limits).vocabulary
    if engine is not None and isinstance(vocabulary, native.NativeVocabulary) != (engine == "native"):
        with _LOCK:
            vocabulary = tokenizer.kept(
                f"vocabulary, {engine}", lambda: _vocabulary_of(engine, tokenizer, limits)
            )
    try:
        if isinstance(vocabulary, native.NativeVocabulary):
            return "native", native.NativeGrammar(program, vocabulary, limits)
        from .engines.reference import ReferenceGrammar

        return "reference", ReferenceGrammar(program, vocabulary)
    except GrammarError as error:
        raise with_reason(error, program) from None


class _Prepared:
    """What is cached for a tokenizer."""

    def __init__(self, vocabulary: Any) -> None:
        self.vocabulary = vocabulary
        self.grammars: Cache[CompiledGrammar] = Cache(
            MAX_GRAMMARS, MAX_BYTES, CompiledGrammar.weight, grow=True
        )


_LOCK = fork_safe(threading.RLock())


def prepare(tokenizer: Tokenizer, limits: Limits = LIMITS) -> None:
    """Do the work now that the first grammar of a tokenizer would do: a few tenths of a second for 131k
    tokens.

    It builds the trie of all tokens, and the masks within JSON strings: no common state allows more tokens.
    """
    _prepared(tokenizer, limits)


def compiled_grammar(
    program: Program, tokenizer: Tokenizer, limits: Limits = LIMITS, special_names: Sequence[SpecialName] = ()
) -> CompiledGrammar:
    """The grammar for a tokenizer, from the cache or newly compiled.

    special_names  the tokens that `program` refers to by number, in order, and what the tokenizer makes of
                   some terminals

    Raises GrammarError for a name that is not a token of the tokenizer.
    """
    names = tuple(special_names)
    cache = _prepared(tokenizer, limits).grammars
    return cache.get((program.key, names, limits), lambda: CompiledGrammar(program, tokenizer, limits, names))


def cached_grammar(
    program: Program, tokenizer: Tokenizer, limits: Limits = LIMITS, special_names: Sequence[SpecialName] = ()
) -> CompiledGrammar | None:
    """What `compiled_grammar` returns if it is in the cache, else None."""
    return _prepared(tokenizer, limits).grammars.find((program.key, tuple(special_names), limits))


def cache_info(tokenizer: Tokenizer) -> CacheInfo:
    """The state of the cache of a tokenizer's grammars. `shared` are the bytes of the tables that they share,
    at most `Limits.shared_memory` of the first one; they stay when grammars leave the cache."""
    prepared = _prepared(tokenizer, LIMITS)
    info, vocabulary = prepared.grammars.info(), prepared.vocabulary
    if isinstance(vocabulary, native.NativeVocabulary):
        return info._replace(shared=vocabulary.memory(), max_shared=vocabulary.max_shared)
    return info


def clear_cache(tokenizer: Tokenizer) -> None:
    """Drop the cached grammars of a tokenizer, and the tables that they share but for what `prepare` makes.
    Those in use stay valid; their next masks take longer, since they rebuild their tables."""
    prepared = _prepared(tokenizer, LIMITS)
    prepared.grammars.clear()
    if isinstance(prepared.vocabulary, native.NativeVocabulary):
        prepared.vocabulary.clear()
        _warm_up(prepared.vocabulary)


def _prepared(tokenizer: Tokenizer, limits: Limits) -> _Prepared:
    instance_of(Tokenizer, "tokenizer", tokenizer, "a Tokenizer, which Tokenizer.from_… makes of others'")

    def new() -> _Prepared:
        vocabulary = _new_vocabulary(tokenizer, limits)
        if isinstance(vocabulary, native.NativeVocabulary):
            _warm_up(vocabulary)
        return _Prepared(vocabulary)

    with _LOCK:
        return tokenizer.kept("grammars", new)


_WARM_UP: tuple[tuple[dict[str, Any], bytes], ...] = (
    ({}, b'"'),
    ({"type": "object", "properties": {"a": {"type": "integer"}}}, b'{"b'),
    ({"type": "string", "minLength": 1, "maxLength": 12}, b'"aaaaaaaaaaaa'),
)
"""Schemas, each with a text under it whose masks many grammars share."""


def _warm_up(vocabulary: native.NativeVocabulary) -> None:
    from .schema.compiling import (  # no earlier: they take long to load
        frequent_expressions,
        rules_from_schema,
    )

    vocabulary.begin_with(frequent_expressions())
    bitmask = allocate_bitmask(1, vocabulary.size)
    for schema, text in _WARM_UP:
        program = rules_from_schema(schema).program()
        matcher = native.NativeGrammar(program, vocabulary, LIMITS).matcher()
        for byte in text:
            matcher.accept_bytes(bytes((byte,)))
            matcher.fill_bitmask(bitmask)


def _new_vocabulary(tokenizer: Tokenizer, limits: Limits) -> Any:
    requested = os.environ.get("ENGINE_SAMPLER_MASK_ENGINE", "auto")
    if requested not in ("auto", "native", "reference"):
        allowed = "auto, native or reference"
        raise GrammarError(f"ENGINE_SAMPLER_MASK_ENGINE={requested!r} is not allowed: {allowed}")
    if requested == "auto":
        requested = "reference" if native.load_library() is None else "native"
    try:
        return _vocabulary_of(requested, tokenizer, limits)
    except GrammarLimitError:
        raise
    except GrammarError as error:
        raise GrammarError(f"ENGINE_SAMPLER_MASK_ENGINE={requested!r} is not allowed: {error}") from None


def _vocabulary_of(engine: str, tokenizer: Tokenizer, limits: Limits) -> Any:
    """The vocabulary of one engine. Raises GrammarError if there is none in C."""
    if engine == "native":
        if native.load_library() is None:
            raise GrammarError("there is no native grammar engine")
        return native.NativeVocabulary(tokenizer, limits)
    from .engines.reference import ReferenceVocabulary  # no earlier: it takes long to load

    special = sorted(tokenizer.special_token_ids)
    split = tokenizer.certain_ids if tokenizer.has_encoding else None
    return ReferenceVocabulary(tokenizer.token_bytes, tokenizer.eos_token_ids, special, split)
