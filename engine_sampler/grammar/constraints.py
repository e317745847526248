"""Structured output: the grammar of a request, from its parameters or its argument `grammar`."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from typing import Any

from ..contract import ParameterError, Vocabulary
from ..registry import GRAMMAR_OPTIONS, default_registry, structured_in
from ..tokenizer import Tokenizer
from .compiled import CompiledGrammar
from .grammar import Grammar
from .library import library_grammar, library_names


def constraint_of(params: Mapping[str, Any], vocabulary: Vocabulary) -> Any:
    """The grammar of the structured parameter in `params`, ready for `matcher_of`; None without one.

    Raises `ParameterError`, which names the parameter, if there is no tokenizer, or if the grammar cannot be
    read or exceeds a limit.
    """
    for name in structured_in(params):
        tokenizer = vocabulary.need_tokenizer(name)
        with _errors_of(name):
            options = {option: params[option] for option, owners in GRAMMAR_OPTIONS.items() if name in owners}
            grammar = _READERS[name](params[name], **options)
            return _compiled(grammar, _fitted_tokenizer(tokenizer, vocabulary))
    return None


_METHODS = ("matcher", "compile", "__call__")
"""A grammar has one of these: a compiled grammar, a `Grammar`, and a function of the tokenizer."""


def matcher_of(constraint: Any, vocabulary: Vocabulary) -> Any:
    """A new matcher for the grammar of a request; None for None.

    constraint  a matcher itself (an object with `fill_bitmask`), an object with `matcher()` such as a
                compiled grammar, a `Grammar`, Lark text, or the name of a registered or packaged grammar

    Raises `ParameterError` for anything else.
    """
    if constraint is None or hasattr(constraint, "fill_bitmask"):
        return constraint
    if not isinstance(constraint, str) and not any(hasattr(constraint, name) for name in _METHODS):
        allowed = "a compiled grammar, a matcher, Lark text or a name"
        raise ParameterError(f"grammar={constraint!r} is not allowed: {allowed}")
    with _errors_of("grammar"):
        if isinstance(constraint, str):
            constraint = _grammar_text(constraint)
        if not hasattr(constraint, "matcher"):
            tokenizer = vocabulary.need_tokenizer("grammar")
            constraint = _compiled(constraint, _fitted_tokenizer(tokenizer, vocabulary))
        tokens = len(getattr(constraint, "tokenizer", ()))
        if tokens > vocabulary.size:
            raise ParameterError(
                f"grammar={constraint!r} is not allowed: it is compiled for {tokens} tokens, "
                f"the vocabulary has {vocabulary.size}"
            )
        return constraint.matcher()


@contextlib.contextmanager
def _errors_of(parameter: str) -> Iterator[None]:
    """Raise the errors of a grammar as errors of `parameter`."""
    try:
        yield
    except ParameterError:
        raise
    except ValueError as error:
        raise ParameterError(f"{parameter}: {error}") from error


def grammar_named(name: str) -> Any:
    """The grammar registered or packaged under `name`. Raises `ParameterError` if there is none."""
    registered = default_registry().catalogue.grammars
    if name in registered:
        return registered[name]
    if name in library_names():
        return library_grammar(name)
    known = ", ".join(sorted({*registered, *library_names()}))
    raise ParameterError(f"grammar={name!r} is not allowed: Lark text, or one of {known}")


@functools.lru_cache(maxsize=16)
def _resized(tokenizer: Tokenizer, size: int, eos: tuple[int, ...]) -> Tokenizer:
    special = [i for i in tokenizer.special_token_ids if i < size]
    return Tokenizer(tokenizer.token_bytes[:size], eos, special)


def _fitted_tokenizer(tokenizer: Tokenizer, vocabulary: Vocabulary) -> Tokenizer:
    """`tokenizer` cut to the size of `vocabulary`, with its EOS ids."""
    eos = tuple(vocabulary.eos_token_ids)
    same = len(tokenizer) <= vocabulary.size and tokenizer.eos_token_ids == eos
    return tokenizer if same else _resized(tokenizer, vocabulary.size, eos)


def _compiled(grammar: Any, tokenizer: Tokenizer) -> CompiledGrammar | Any:
    """A grammar for the tokenizer; plugins may register Lark text, or a function of the tokenizer."""
    if isinstance(grammar, str):
        grammar = Grammar.from_lark(grammar)
    if hasattr(grammar, "compile"):
        return grammar.compile(tokenizer)
    return grammar if hasattr(grammar, "matcher") else grammar(tokenizer)


def _grammar_text(text: str, **options: Any) -> Any:
    is_name = text.replace("_", "a").replace("-", "a").isalnum()
    return grammar_named(text) if is_name else Grammar.from_text(text, **options)


_READERS: dict[str, Any] = {
    "json_schema": Grammar.from_json_schema,
    "regex": Grammar.from_regex,
    "choice": Grammar.from_choices,
    "grammar": _grammar_text,
    "json_object": lambda value, **options: Grammar.from_json_object(**options),
    "structural_tag": Grammar.from_structural_tag,
}
