"""What a JSON Schema says without an effect, and what is not a schema at all.

Unknown keywords and formats are annotations, as the standard requires. Most of them are mistakes, so they are
warned of.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from ....base.errors import quoted
from ...errors import GrammarError
from ...work import kept_while_reading, spend, spend_on_each
from ..scalars.formats import FORMATS, HINTS

_MANY = 64
"""The number of keys beyond which none is looked at."""

_MOST = 5
"""The most that are told of one schema; the others are counted."""

_MOST_LINES = 20
"""The most warnings of one grammar, which may hold many schemas."""

_SAID_OF_ANYTHING = frozenset("title description default example examples id".split())
"""Annotations that objects which are no schemas have as well."""

_ANNOTATIONS = _SAID_OF_ANYTHING | frozenset(
    "deprecated readOnly writeOnly contentEncoding contentMediaType contentSchema definitions then else "
    "minContains maxContains nullable discriminator xml externalDocs".split()
)
"""Keywords of JSON Schema and of OpenAPI that say nothing about values by themselves."""

_CONTENT = ("contentEncoding", "contentMediaType")

_WRAPPED = ("schema", "json_schema", "parameters", "input_schema", "inputSchema")
"""Keys of objects, such as tools, that hold a schema."""

_LONGEST = 25
"""The longest name that is taken for a misspelled one."""

_LIKE_A_KEYWORD, _LIKE_A_FORMAT = 0.85, 0.75
_OTHER_NAMES = {"url": "uri", "guid": "uuid"}
"""Names by which formats are asked for, but which are like none of theirs."""


class Told:
    """The number of warnings of the grammar that is being read, and the schema in it that they are of, "" if
    there is no other."""

    def __init__(self) -> None:
        self.count, self.schema = 0, ""

    def named(self, texts: Iterable[str]) -> list[str]:
        """Texts about the schema, behind its name."""
        return [f"{self.schema}: {text}" if self.schema else text for text in texts]


class WithoutEffect:
    """What one schema says without an effect, in words."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}
        self._more = 0

    def add(self, text: str) -> None:
        """Note something."""
        if len(self._texts) < _MOST:
            self._texts[text] = None
        elif text not in self._texts:
            self._more += 1

    def lines(self) -> list[str]:
        """The first few, and how many more there are."""
        more = [f"{self._more} more parts of the JSON Schema have no effect"] if self._more else []
        return kept_while_reading(Told).named([*self._texts, *more])

    def warn(self) -> None:
        """Warn of each line. Python keeps none of the texts, which clients choose."""
        told = kept_while_reading(Told)
        for text in self.lines():
            told.count += 1
            if told.count <= _MOST_LINES:
                warnings.warn_explicit(text, UserWarning, "<JSON Schema>", 1, __name__)

    def look(self, schema: Mapping[str, Any], keywords: Collection[str], *, asserts_formats: bool) -> None:
        """Note the keys of a schema that look like misspelled keywords, and what is not enforced."""
        for name in schema if len(schema) <= _MANY else ():
            if name in _CONTENT and asserts_formats and _may_be_text(schema.get("type", "string")):
                self.add(f"{name} {quoted(schema[name])} is not enforced")
            elif name not in keywords and name not in _ANNOTATIONS:
                near = _nearest_keyword(name, keywords)
                if near is not None:
                    self.add(
                        f"{quoted(name)} is not a keyword of JSON Schema and is ignored: is {near} meant?"
                    )

    def add_format(self, name: Any) -> None:
        """Note a format that is not in `FORMATS`."""
        if name in HINTS:
            return
        near = _OTHER_NAMES.get(name) or _nearest(name, tuple(FORMATS), _LIKE_A_FORMAT)
        meant = f": is {near} meant?" if near and name != "idn-hostname" else ""
        self.add(f"format {quoted(name)} is not enforced{meant}")


def refuse_no_schema(schema: Any, keywords: Collection[str]) -> None:
    """Raise GrammarError for an object of which nothing would be left: none of its keys is one of a schema.

    That is what wraps a schema, or an example of what is wanted. `{}`, and annotations alone, are any JSON.
    """
    if not isinstance(schema, dict):
        return
    unknown = []
    for name in spend_on_each(schema):
        if name in _SAID_OF_ANYTHING or name.startswith("x-"):
            continue
        if name in keywords or name in _ANNOTATIONS or name.startswith("$"):
            return
        unknown.append(name)
    if not unknown:
        return
    wrapped = next((name for name in _WRAPPED if isinstance(schema.get(name), dict)), None)
    near = _nearest_keyword(unknown[0], keywords)
    if wrapped is not None:
        meant = f"is what {wrapped!r} holds meant?"
    else:
        meant = f"is {near} meant?" if near else "an example of a value is no schema"
    names = ", ".join(map(quoted, unknown[:_MOST]))
    raise GrammarError(f"the JSON Schema has no keyword, only {names}: {meant}")


def _may_be_text(types: Any) -> bool:
    """Whether a `type`, which has not been checked yet, allows strings."""
    return "string" in (types if isinstance(types, list) else (types,))


def _nearest_keyword(name: str, keywords: Collection[str]) -> str | None:
    """The keyword that a name, also one with underscores, is nearly; None for extensions."""
    is_word = name.replace("_", "").isalpha()
    if not is_word or name.startswith(("_", "x_")):
        return None
    folded = _folded(tuple(keywords))
    near = _nearest(name.replace("_", "").lower(), tuple(folded), _LIKE_A_KEYWORD)
    return None if near is None else folded[near]


@lru_cache(maxsize=4)
def _folded(keywords: tuple[str, ...]) -> dict[str, str]:
    return {keyword.lower(): keyword for keyword in keywords}


def _nearest(name: str, names: tuple[str, ...], likeness: float) -> str | None:
    """The one of some names that is like `name`."""
    return _like(name, names, likeness) if len(name) <= _LONGEST else None


@lru_cache(maxsize=512)
def _like(name: str, names: tuple[str, ...], likeness: float) -> str | None:
    spend(200)
    return next(iter(get_close_matches(name, names, 1, likeness)), None)
