"""Checks of what grammars are made from."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..base.errors import quoted
from .errors import GrammarError, GrammarLimitError
from .limits import Limits


def check_choice(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Raise GrammarError for a value that is not allowed."""
    if value not in allowed:
        raise GrammarError(f"{name}={quoted(value)} is not allowed: {' or '.join(allowed)}")


def check_name(name: str, value: Any) -> None:
    """Raise GrammarError for what cannot name a rule."""
    if not isinstance(value, str) or not value:
        raise GrammarError(f"{name}={quoted(value)} is not allowed: the name of a rule")


def checked_path(name: str, value: Any) -> str:
    """A path as text."""
    if not isinstance(value, str | os.PathLike) or not isinstance(path := os.fspath(value), str):
        raise GrammarError(f"{name}={quoted(value)} is not allowed: a path")
    return path


def checked_paths(value: Any) -> tuple[str, ...]:
    """The folders of `import_paths` as texts."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise GrammarError(f"import_paths={quoted(value)} is not allowed: a list of folders")
    return tuple(checked_path("import_paths", path) for path in value)


def check_declared(value: Any) -> None:
    """Raise GrammarError for what is no table of expressions by names."""
    if value is None:
        return
    if not isinstance(value, Mapping) or not all(map(is_text, (*value, *value.values()))):
        raise GrammarError(
            f"declared={quoted(value)} is not allowed: regular expressions by the names of terminals"
        )


def is_text(value: Any) -> bool:
    """Whether it is text that UTF-8 can encode."""
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)


def check_text(name: str, text: Any, limits: Limits) -> None:
    """Raise for what is no text, or longer than the limit."""
    if not isinstance(text, str):
        raise TypeError(f"{name} has type {type(text).__name__}; allowed is a string")
    if not isinstance(limits, Limits):
        raise GrammarError(f"limits={quoted(limits)} is not allowed: Limits")
    if len(text) > limits.text:
        raise GrammarLimitError(
            f"{name} has {len(text)} characters, the limit is {limits.text} (Limits.text)"
        )


_encode_json = json.JSONEncoder(ensure_ascii=False).encode


def json_of(value: Any) -> str:
    """A value as JSON text."""
    try:
        return _encode_json(value)
    except RecursionError:
        raise GrammarLimitError("the schema is nested too deep") from None
    except (TypeError, ValueError) as error:
        raise GrammarError(f"the schema is not JSON: {error}") from None


def texts_of(name: str, documents: Any, limits: Limits) -> tuple[tuple[str, str], ...]:
    """Documents by URI, each with its JSON text; None are none. Raises GrammarError for anything else, and
    GrammarLimitError if they are longer than the limit in all."""
    if documents is None:
        return ()
    if not isinstance(documents, Mapping) or not all(map(is_text, documents)):
        raise GrammarError(f"{name}={quoted(documents)} is not allowed: schemas by URI")
    texts = {uri: one if isinstance(one, str) else json_of(one) for uri, one in documents.items()}
    check_text(name, "".join((*texts, *texts.values())), limits)
    return tuple((uri.removesuffix("#"), text) for uri, text in sorted(texts.items()))
