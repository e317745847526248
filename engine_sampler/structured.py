"""Structured output: the parameters that ask for a grammar, and the constraint they stand for."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .contract import Param, ParameterError, Vocabulary
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from .grammar import CompiledGrammar, Grammar


def _json_text(value: Any) -> str:
    """A JSON document as text; text is taken as it is."""
    if isinstance(value, str):
        return value
    if not isinstance(value, (dict, bool)):
        raise ValueError("an object, or JSON text")
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        raise ValueError("an object of JSON values, or JSON text") from None


def _choices(value: Any) -> tuple[str, ...]:
    choices = tuple(value) if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) else ()
    if not choices or not all(isinstance(choice, str) for choice in choices):
        raise ValueError("a list of one or more texts")
    return choices


PARAMS = {
    param.name: param
    for param in (
        Param("json_schema", object, None, convert=_json_text, doc="the text is JSON under this schema"),
        Param("regex", str, None, doc="the text is what this pattern matches as a whole"),
        Param("choice", object, None, convert=_choices, doc="the text is one of these"),
        Param("grammar", str, None, doc="the text is of this grammar: Lark text, or the name of one"),
        Param("json_object", bool, False, doc="the text is a JSON object"),
        Param("structural_tag", object, None, convert=_json_text, doc="tool calls and the like in free text"),
    )
}


def asked(params: Mapping[str, Any]) -> list[str]:
    """The structured parameters that are given."""
    return [name for name, param in PARAMS.items() if params[name] != param.neutral]


def check(params: Mapping[str, Any]) -> None:
    """Raise `ParameterError` where more than one grammar is asked for, or a bias for none."""
    names = asked(params)
    if len(names) > 1:
        raise ParameterError(f"{', '.join(names)} are not allowed together: at most one of them")
    if params.get("grammar_bias") is not None and not names:
        given, allowed = params["grammar_bias"], ", ".join(PARAMS)
        raise ParameterError(f"grammar_bias={given} is not allowed alone: it needs one of {allowed}")


def constraint_of(params: Mapping[str, Any], vocabulary: Vocabulary) -> Any:
    """What the structured parameter in `params` stands for, ready for `matcher_of`; None without one.

    Raises `ParameterError` naming the parameter: without a tokenizer, for a grammar that cannot be
    read or exceeds a limit.
    """
    for name in asked(params):
        tokenizer = vocabulary.need_tokenizer(name)
        with _naming(name):
            return _compiled(_MAKERS[name](params[name]), fitting(tokenizer, vocabulary))
    return None


_METHODS = ("matcher", "compile", "__call__")
"""What a grammar has one of: a compiled one, a `Grammar`, a function of the tokenizer."""


def matcher_of(constraint: Any, vocabulary: Vocabulary) -> Any:
    """A new matcher for what a request gives as its grammar; None for None.

    constraint  a matcher itself (an object with `fill_bitmask`), anything with `matcher()` such as a
                compiled grammar, a `Grammar`, Lark text, or the name of a registered or packaged grammar.

    Raises `ParameterError` for anything else.
    """
    if constraint is None or hasattr(constraint, "fill_bitmask"):
        return constraint
    if not isinstance(constraint, str) and not any(hasattr(constraint, name) for name in _METHODS):
        allowed = "a compiled grammar, a matcher, Lark text or a name"
        raise ParameterError(f"grammar={constraint!r} is not allowed: {allowed}")
    with _naming("grammar"):
        if isinstance(constraint, str):
            constraint = _grammar_text(constraint)
        if not hasattr(constraint, "matcher"):
            constraint = _compiled(constraint, fitting(vocabulary.need_tokenizer("grammar"), vocabulary))
        tokens = len(getattr(constraint, "tokenizer", ()))
        if tokens > vocabulary.size:
            raise ParameterError(
                f"grammar={constraint!r} is not allowed: it is compiled for {tokens} tokens, "
                f"the vocabulary has {vocabulary.size}"
            )
        return constraint.matcher()


@contextlib.contextmanager
def _naming(parameter: str) -> Iterator[None]:
    """What a grammar raises, as an error of `parameter`."""
    try:
        yield
    except ParameterError:
        raise
    except ValueError as error:
        raise ParameterError(f"{parameter}: {error}") from error


def named(name: str) -> Any:
    """The grammar that is registered or packaged under `name`. Raises `ParameterError` without one."""
    from .grammar import library_grammar, library_names
    from .registry import default_registry

    registered = default_registry().catalogue.grammars
    if name in registered:
        return registered[name]
    if name in library_names():
        return library_grammar(name)
    known = ", ".join(sorted({*registered, *library_names()}))
    raise ParameterError(f"grammar={name!r} is not allowed: Lark text, or one of {known}")


@functools.lru_cache(maxsize=16)
def _fitted(tokenizer: Tokenizer, size: int, eos: tuple[int, ...]) -> Tokenizer:
    special = [i for i in tokenizer.special_token_ids if i < size]
    return Tokenizer(tokenizer.token_bytes[:size], eos, special)


def fitting(tokenizer: Tokenizer, vocabulary: Vocabulary) -> Tokenizer:
    """`tokenizer` with the tokens and the EOS ids of `vocabulary`."""
    eos = tuple(vocabulary.eos_token_ids)
    same = len(tokenizer) <= vocabulary.size and tokenizer.eos_token_ids == eos
    return tokenizer if same else _fitted(tokenizer, vocabulary.size, eos)


def _compiled(grammar: Any, tokenizer: Tokenizer) -> CompiledGrammar | Any:
    """A grammar for the tokenizer; plugins may give Lark text, or a function of the tokenizer."""
    from .grammar import Grammar

    if isinstance(grammar, str):
        grammar = Grammar.from_lark(grammar)
    if hasattr(grammar, "compile"):
        return grammar.compile(tokenizer)
    return grammar if hasattr(grammar, "matcher") else grammar(tokenizer)


def _grammar_text(text: str) -> Any:
    return named(text) if text.replace("_", "a").replace("-", "a").isalnum() else _grammar().from_lark(text)


def _grammar() -> type[Grammar]:
    from .grammar import Grammar

    return Grammar


_MAKERS: dict[str, Any] = {
    "json_schema": lambda value: _grammar().from_json_schema(value),
    "regex": lambda value: _grammar().from_regex(value),
    "choice": lambda value: _grammar().from_choices(value),
    "grammar": _grammar_text,
    "json_object": lambda value: _grammar().from_json_object(),
    "structural_tag": lambda value: _grammar().from_structural_tag(value),
}
