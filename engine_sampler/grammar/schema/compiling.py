"""Compile a JSON Schema to rules."""

from __future__ import annotations

from typing import Any, Literal

from ..errors import GrammarError
from ..program.rules import Rules
from ..work import counted_work
from .document import Document
from .emitting import SPACES, Emitter, punctuation
from .formula import ALWAYS
from .keywords import KEYWORDS
from .nodes import Expander
from .values import Values

Unsupported = Literal["error", "warn"]
Formats = Literal["assert", "annotate"]


def rules_from_schema(
    schema: Any, *, unsupported: Unsupported = "error", formats: Formats = "assert"
) -> Rules:
    """The JSON texts whose value is valid under a schema, as rules.

    schema       an object as `json.loads` returns it (dict or bool), or JSON text
    unsupported  "error" raises UnsupportedKeywordError for a keyword that cannot be enforced token by
                 token; "warn" issues a warning and ignores the keyword
    formats      "assert" enforces the formats in `formats.FORMATS`; "annotate" ignores all formats

    The texts are those of RFC 8259 in valid UTF-8, with white space between tokens. Three rules are
    stricter: printable ASCII characters in keys, and in strings with constraints beyond their length,
    are written plainly, without `\\uXXXX` (see `texts`); numbers with constraints beyond their type
    have no needless exponent (see `numbers`); and a key that the schema names occurs at most once.
    Unknown keywords are annotations, as the standard requires.

    Raises GrammarError if `schema` is not a JSON Schema or has no valid value, GrammarLimitError if a
    limit is reached, UnsupportedKeywordError as above.
    """
    rules = Rules()
    rules.ignore = [rules.terminal("WHITESPACE", SPACES)]
    rules.start = _add(schema, rules, unsupported, formats, nested=False)
    return rules


def add_schema(
    schema: Any, rules: Rules, *, unsupported: Unsupported = "error", formats: Formats = "assert"
) -> int:
    """Add the values of a schema to rules, and return their symbol.

    This does not rely on `rules.ignore`: white space is read wherever JSON allows it inside the value, but
    not before or after it. Arguments and errors are those of `rules_from_schema`.
    """
    return _add(schema, rules, unsupported, formats, nested=True)


def _add(schema: Any, rules: Rules, unsupported: str, formats: str, nested: bool) -> int:
    for name, value, known in (
        ("unsupported", unsupported, ("error", "warn")),
        ("formats", formats, ("assert", "annotate")),
    ):
        if value not in known:
            raise ValueError(f"{name} must be one of {known}, not {value!r}")
    with counted_work():
        return _added(schema, rules, unsupported, formats, nested)


def _added(schema: Any, rules: Rules, unsupported: str, formats: str, nested: bool) -> int:
    values = Values(Expander(Document(schema), KEYWORDS, unsupported, formats))
    root = frozenset((values.expander.root(),)) - {ALWAYS}
    values.get(root)
    values.settle()
    if not values.is_productive(root):
        raise GrammarError("no value is valid under the JSON Schema")
    return Emitter(values, rules, punctuation(rules, with_spaces=nested)).emit(root, "json")
