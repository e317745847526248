"""Grammars that a grammar in Lark's language names: `@fields` is a text of the one that is called `fields`.

    {"grammars": [{"lark_grammar": "start: \\"<\\" @fields \\">\\""},
                  {"name": "fields", "json_schema": {"type": "object"}}]}

is how llguidance writes the whole: the first grammar is that of the text. Each grammar has names, and text
that it ignores, of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...base.errors import quoted
from ..errors import GrammarError
from ..program.json_text import loaded_json
from ..program.rules import Rules


class NamedGrammar(NamedTuple):
    """One of them.

    kind   "lark" or "json"
    text   itself, or the schema as JSON text
    """

    kind: str
    text: str


@dataclass
class NamedGrammars:
    """The grammars that a text may name, and the rules of those in Lark's language that have been read."""

    by_name: Mapping[str, NamedGrammar] = field(default_factory=dict)
    read: dict[str, Rules] = field(default_factory=dict)

    def find(self, name: str) -> NamedGrammar:
        """The grammar of that name. Raises GrammarError without a place."""
        if name not in self.by_name:
            allowed = ", ".join(f"@{one}" for one in list(self.by_name)[:8]) or "none is handed in"
            raise GrammarError(f"there is no grammar @{name}: {allowed}")
        return self.by_name[name]


class GrammarList(NamedTuple):
    """What llguidance's list of grammars says.

    first  the text in Lark's language, or the schema, of the whole text
    named  those that it and they may name, by name
    """

    first: Any
    named: dict[str, Any]


def is_grammar_list(text: str) -> bool:
    """Whether a text is JSON, as no grammar in another notation is."""
    return text.lstrip(" \t\r\n").startswith("{")


def read_grammar_list(text: str) -> GrammarList:
    """Read `{"grammars": [...]}`. Raises GrammarError."""
    listed = loaded_json("the list of grammars", text)
    _check_keys("the list of grammars", listed, ("grammars",))
    entries = listed.get("grammars")
    if not isinstance(entries, list) or not entries:
        raise GrammarError(f"grammars={quoted(entries)} is not allowed: a list of one or more grammars")
    grammars: list[Any] = []
    named: dict[str, Any] = {}
    for number, entry in enumerate(entries):
        what = f"grammars[{number}]"
        _check_keys(what, entry, ("name", "lark_grammar", "json_schema"))
        grammars.append(_grammar_of(what, entry))
        name = entry.get("name")
        if number and name is None:
            raise GrammarError(f"{what} must have a name, by which others refer to it")
        if name is not None and (not isinstance(name, str) or name in named):
            raise GrammarError(f"{what}: name={quoted(name)} is not allowed: a text that no other one has")
        if name is not None:
            named[name] = grammars[-1]
    return GrammarList(grammars[0], named)


def _grammar_of(what: str, entry: Mapping[str, Any]) -> Any:
    """The text, or the schema, of an entry of the list."""
    text, schema = entry.get("lark_grammar"), entry.get("json_schema")
    if (text is None) == (schema is None):
        raise GrammarError(f"{what} must have lark_grammar or json_schema, and not both")
    if text is not None and not isinstance(text, str):
        raise GrammarError(f"{what}: lark_grammar={quoted(text)} is not allowed: a text")
    if schema is not None and not isinstance(schema, dict | bool):
        raise GrammarError(f"{what}: json_schema={quoted(schema)} is not allowed: an object, true or false")
    return schema if text is None else text


def _check_keys(what: str, value: Any, allowed: Sequence[str]) -> None:
    """Refuse anything but an object, and unknown members that are not null."""
    if not isinstance(value, dict):
        raise GrammarError(f"{what}: {quoted(value)} is not allowed: an object")
    for key, member in value.items():
        if key not in allowed and member is not None:
            raise GrammarError(f"{what}: {quoted(key)} is not allowed: {', '.join(allowed)}")
