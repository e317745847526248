"""The arguments of `Grammar`'s methods: what is allowed, and its plain form."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..base.errors import quoted
from ..base.json_text import json_text
from .errors import GrammarError, GrammarLimitError
from .limits import Limits
from .program.json_text import loaded_json


def check_choice(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Raise GrammarError unless `value` is one of those allowed."""
    if value not in allowed:
        raise GrammarError(f"{name}={quoted(value)} is not allowed: {' or '.join(allowed)}")


def check_name(name: str, value: Any) -> None:
    """Raise GrammarError unless `value` may name a rule."""
    if not isinstance(value, str) or not value:
        raise GrammarError(f"{name}={quoted(value)} is not allowed: the name of a rule")


def checked_path(name: str, value: Any) -> str:
    """A path as text. Raises GrammarError."""
    if not isinstance(value, str | os.PathLike) or not isinstance(path := os.fspath(value), str):
        raise GrammarError(f"{name}={quoted(value)} is not allowed: a path")
    return path


def checked_paths(value: Any) -> tuple[str, ...]:
    """`import_paths` as texts. Raises GrammarError."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise GrammarError(f"import_paths={quoted(value)} is not allowed: a list of folders")
    return tuple(checked_path("import_paths", path) for path in value)


def check_declared(value: Any) -> None:
    """Raise GrammarError unless `declared` maps names to patterns."""
    if value is None:
        return
    if not isinstance(value, Mapping) or not all(map(is_text, (*value, *value.values()))):
        raise GrammarError(
            f"declared={quoted(value)} is not allowed: regular expressions by the names of terminals"
        )


def is_text(value: Any) -> bool:
    """Whether `value` is a string of whole characters."""
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)


def check_text(name: str, text: Any, limits: Limits) -> None:
    """Raise TypeError, or GrammarError, unless `text` is a string within the limits."""
    if not isinstance(text, str):
        raise TypeError(f"{name} has type {type(text).__name__}; allowed is a string")
    if not isinstance(limits, Limits):
        raise GrammarError(f"limits={quoted(limits)} is not allowed: Limits")
    if len(text) > limits.text:
        raise GrammarLimitError(
            f"{name} has {len(text)} characters, the limit is {limits.text} (Limits.text)"
        )


def written_json(value: Any) -> str:
    """A schema or a tag as JSON text. Raises GrammarError."""
    try:
        return json_text(value)
    except RecursionError:
        raise GrammarLimitError("the schema is nested too deep") from None
    except (TypeError, ValueError) as error:
        raise GrammarError(f"the schema is not JSON: {error}") from None


def text_of_pattern(pattern: Any) -> Any:
    """The text of a compiled pattern, its flags in front; anything else as it is. Raises GrammarError."""
    if not isinstance(pattern, re.Pattern):
        return pattern
    from ..base.python_types import pattern_text  # few patterns are compiled

    try:
        return pattern_text(pattern)
    except TypeError as error:
        raise GrammarError(f"pattern={quoted(pattern)} is not allowed: {error}") from None


def chosen_texts(choices: Any) -> tuple[str, ...]:
    """The texts that `choices` lists. Raises GrammarError if there are none, TypeError for a single one."""
    if isinstance(choices, str):
        raise TypeError("choices is a string; allowed is a list of strings")
    if not isinstance(choices, list | tuple):
        from ..base.python_types import choice_texts  # few choices are an enumeration

        try:
            choices = choice_texts(choices)
        except ValueError as error:
            raise GrammarError(f"choices={quoted(choices)} is not allowed: {error}") from None
    given = list(choices) if isinstance(choices, Iterable) else choices
    if not isinstance(given, list) or not given or not all(map(is_text, given)):
        raise GrammarError(f"choices={quoted(given)} is not allowed: one or more strings of whole characters")
    return tuple(given)


def texts_of(name: str, documents: Any, limits: Limits) -> tuple[tuple[str, str], ...]:
    """Documents by URI, also as the text of a JSON object, each with its JSON text; None are none. Raises
    GrammarError for anything else, and GrammarLimitError if they are longer than the limit in all."""
    if documents is None:
        return ()
    if isinstance(documents, str):
        check_text(name, documents, limits)
        documents = loaded_json(name, documents)
    if not isinstance(documents, Mapping) or not all(map(is_text, documents)):
        raise GrammarError(f"{name}={quoted(documents)} is not allowed: schemas by URI")
    texts = {uri: one if isinstance(one, str) else written_json(one) for uri, one in documents.items()}
    check_text(name, "".join((*texts, *texts.values())), limits)
    return tuple((uri.removesuffix("#"), text) for uri, text in sorted(texts.items()))


_GRAMMAR_NAME = re.compile(r"[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*")
MAX_NAMED = 256
"""The most grammars that are handed in by name."""


def named_texts(grammars: Any, limits: Limits) -> tuple[tuple[str, str, str], ...]:
    """Grammars by name: each name, "lark" or "json", and the text; None are none. Raises GrammarError for
    anything else, and GrammarLimitError if they are longer than the limit in all."""
    if grammars is None:
        return ()
    if not isinstance(grammars, Mapping) or len(grammars) > MAX_NAMED:
        allowed = f"up to {MAX_NAMED} texts in Lark's language, or schemas, by name"
        raise GrammarError(f"grammars={quoted(grammars)} is not allowed: {allowed}")
    texts = []
    for name, one in grammars.items():
        if not isinstance(name, str) or not _GRAMMAR_NAME.fullmatch(name):
            allowed = "a name of letters, digits, underscores and hyphens between these"
            raise GrammarError(f"grammars: {quoted(name)} is not allowed: {allowed}")
        try:
            texts.append((name, "lark", one) if isinstance(one, str) else (name, "json", written_json(one)))
        except GrammarError as error:
            raise type(error)(f"@{name}: {error.text}") from None
    check_text("grammars", "".join(text for *_, text in texts), limits)
    return tuple(sorted(texts))
