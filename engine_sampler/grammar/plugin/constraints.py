"""Structured output: the grammar of a request, from its parameters or its argument `grammar`."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Hashable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple

from ...base.arguments import with_attributes
from ...base.errors import quoted
from ...contract import ParameterError, Vocabulary
from ...params import takes_grammar
from ...registry import CORE_PARAMS, GRAMMAR_OPTIONS, default_registry, structured_in
from ...tokenizer import Tokenizer
from ..compiled import CompiledGrammar, prepare
from ..library import library_names
from ..service import GrammarCompiler, GrammarSource
from ..service.source import Options
from .measures import measured, watched


def constraint_of(params: Mapping[str, Any], vocabulary: Vocabulary) -> Any:
    """The grammar of the structured parameter in `params`, ready for `matcher_of`; None without one.

    Raises `ParameterError`, which names the parameter, if there is no tokenizer, or if the grammar cannot be
    read or exceeds a limit.
    """
    for name in structured_in(params):
        tokenizer = vocabulary.need_tokenizer(name)
        with _errors_of(name):
            source = _source(name, params[name], _options(name, params, vocabulary))
            return _compiled(source, tokenizer, vocabulary)
    return None


def compiled_for(params: Mapping[str, Any], constraint: Any, vocabulary: Vocabulary) -> Any:
    """What `constraint_of` finds in `params`, or else `constraint`, which is as in `matcher_of`, compiled;
    None if there is neither."""
    if structured_in(params):
        return constraint_of(params, vocabulary)
    return _compiled_argument(constraint, vocabulary)


_METHODS = ("matcher", "compile", "__call__")
"""A grammar has one of these: a compiled grammar, a `Grammar`, and a function of the tokenizer."""


def matcher_of(constraint: Any, vocabulary: Vocabulary) -> Any:
    """A new matcher for the grammar of a request; None for None.

    constraint  a matcher itself (an object with `fill_bitmask`), an object with `matcher()` such as a
                compiled grammar, a `Grammar`, Lark text, or the name of a registered or packaged grammar

    Raises `ParameterError` for anything else.
    """
    constraint = _compiled_argument(constraint, vocabulary)
    if constraint is None or hasattr(constraint, "fill_bitmask"):
        return constraint
    with _errors_of("grammar"):
        return constraint.matcher()


def _compiled_argument(constraint: Any, vocabulary: Vocabulary) -> Any:
    """An object with `matcher()` for a constraint as in `matcher_of`; a matcher, and None, as they are."""
    if constraint is None or hasattr(constraint, "fill_bitmask"):
        return constraint
    with _errors_of("grammar"):
        constraint = _checked(constraint, vocabulary)
        if not hasattr(constraint, "matcher"):
            tokenizer = vocabulary.need_tokenizer("grammar")
            constraint = _compiled(constraint, tokenizer, vocabulary)
        with_attributes(("matcher",), "grammar", constraint, "what it gives must have `matcher()`")
        tokens = len(getattr(constraint, "tokenizer", ()))
        if tokens > vocabulary.size:
            raise ParameterError(
                f"grammar={quoted(constraint)} is not allowed: it is compiled for {tokens} tokens, "
                f"the vocabulary has {vocabulary.size}"
            )
        return constraint


class Compilation(NamedTuple):
    """A grammar that a `GrammarCompiler` compiles for a request.

    parameter  the parameter that gives it
    future     its result is the compiled grammar
    is_taken   whether a sampler of the request takes it: it then has no matcher
    """

    parameter: str
    future: Future[Any]
    is_taken: bool

    @property
    def has_succeeded(self) -> bool:
        """Whether there is a compiled grammar."""
        return self.future.done() and self.future.exception() is None

    def matcher(self, vocabulary: Vocabulary) -> Any:
        """A new matcher, once the future is done; None if a sampler takes the grammar. Raises
        `ParameterError` if it could not be compiled, or is not for this vocabulary."""
        with _errors_of(self.parameter):
            compiled = self.future.result()
            return None if self.is_taken else matcher_of(compiled, vocabulary)


def start_compiling(
    params: Mapping[str, Any],
    constraint: Any,
    vocabulary: Vocabulary,
    compiler: GrammarCompiler,
    client: Hashable,
) -> Compilation | None:
    """Start compiling the grammar of the structured parameter in `params`, or else `constraint`, which is as
    in `matcher_of`, in the turn of a client; None if there is none that needs compiling.

    Raises `ParameterError` for what is refused without reading it.
    """
    name = next(iter(structured_in(params)), "grammar")
    if params[name] is None and (constraint is None or hasattr(constraint, "fill_bitmask")):
        return None
    with _errors_of(name):
        grammar = (
            _checked(constraint, vocabulary)
            if params[name] is None
            else _source(name, params[name], _options(name, params, vocabulary))
        )
        if hasattr(grammar, "matcher"):
            return None
        tokenizer = _fitted_tokenizer(vocabulary.need_tokenizer(name), vocabulary)
        compiling = compiler.submit(grammar, tokenizer, client=client)
        return Compilation(name, watched(compiling, vocabulary.scheduler), takes_grammar(params))


def prepare_for(vocabulary: Vocabulary) -> None:
    """`prepare` the tokenizer of a vocabulary, if it has one, in the form in which grammars use it."""
    if vocabulary.tokenizer is not None:
        prepare(_fitted_tokenizer(vocabulary.tokenizer, vocabulary))


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
    found = _named(name)
    return found.read() if isinstance(found, GrammarSource) else found


def _named(name: str, options: Options = ()) -> Any:
    """What is registered under `name`, or the source of the packaged grammar; `options` are for text."""
    options = tuple(
        [option for option in options if option[0] in CORE_PARAMS]
    )  # limits are for requests' text
    registered = default_registry().catalogue.grammars
    if name in registered:
        grammar = registered[name]
        if isinstance(grammar, str):
            return GrammarSource("text", grammar, options)
        for option, value in options:
            if value != CORE_PARAMS[option].neutral:
                raise ParameterError(
                    f"{option}={quoted(value)} is not allowed: {name!r} is registered as an object, not text"
                )
        return grammar
    if name in library_names():
        return GrammarSource("library", name, options)
    known = ", ".join(sorted({*registered, *library_names()}))
    raise ParameterError(f"grammar={quoted(name)} is not allowed: Lark text, or one of {known}")


@functools.lru_cache(maxsize=16)
def _resized(tokenizer: Tokenizer, size: int, eos: tuple[int, ...]) -> Tokenizer:
    special = [i for i in tokenizer.special_token_ids if i < size]
    return Tokenizer(tokenizer.token_bytes[:size], eos, special)


def _fitted_tokenizer(tokenizer: Tokenizer, vocabulary: Vocabulary) -> Tokenizer:
    """`tokenizer` cut to the size of `vocabulary`, with its EOS ids."""
    eos = tuple(vocabulary.eos_token_ids)
    same = len(tokenizer) <= vocabulary.size and tokenizer.eos_token_ids == eos
    return tokenizer if same else _resized(tokenizer, vocabulary.size, eos)


def _compiled(grammar: Any, tokenizer: Tokenizer, vocabulary: Vocabulary) -> CompiledGrammar | Any:
    """A grammar for the tokenizer; plugins may register a function of the tokenizer."""
    fitted = _fitted_tokenizer(tokenizer, vocabulary)
    return measured(lambda: _compile(grammar, fitted), vocabulary.scheduler)


def _compile(grammar: Any, tokenizer: Tokenizer) -> CompiledGrammar | Any:
    if isinstance(grammar, GrammarSource):
        return grammar.read().compile(tokenizer, limits=grammar.limits)
    if hasattr(grammar, "compile"):
        return grammar.compile(tokenizer)
    return grammar if hasattr(grammar, "matcher") else grammar(tokenizer)


def _checked(constraint: Any, vocabulary: Vocabulary) -> Any:
    """A grammar that is given as an object, or the source of one given as text or by its name."""
    if isinstance(constraint, str):
        return _source("grammar", constraint, _limits_of(vocabulary))
    if not any(hasattr(constraint, name) for name in _METHODS):
        allowed = "a compiled grammar, a matcher, Lark text or a name"
        raise ParameterError(f"grammar={quoted(constraint)} is not allowed: {allowed}")
    return constraint


def _options(parameter: str, params: Mapping[str, Any], vocabulary: Vocabulary) -> Options:
    """The options of a structured parameter, as `GrammarSource` takes them."""
    options = tuple([(name, params[name]) for name, owners in GRAMMAR_OPTIONS.items() if parameter in owners])
    return options + _limits_of(vocabulary)


def _limits_of(vocabulary: Vocabulary) -> Options:
    """The limits on the grammars of requests as an option, where they are not the default ones."""
    limits = vocabulary.grammar_limits
    return () if limits is None else (("limits", limits),)


def _source(parameter: str, value: Any, options: Options = ()) -> Any:
    """The source of the grammar that a structured parameter gives, or what is registered under that name."""
    if parameter != "grammar":
        return GrammarSource(parameter, value, options)
    is_name = value.replace("_", "a").replace("-", "a").isalnum()
    return _named(value, options) if is_name else GrammarSource("text", value, options)
