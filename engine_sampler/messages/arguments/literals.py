"""Words, numbers and texts as the JSON that a schema asks for: one table for all families."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..schemas import TYPES, type_of
from ..writing import NUMBER, json_value, quoted_json

CONSTANTS = {"true": "true", "false": "false", "null": "null", "none": "null"}
"""The JSON of words, in small letters: those of JSON and of Python."""

NULLS = tuple(word for word, json in CONSTANTS.items() if json == "null")

_LOOSE = re.compile(r"([-+]?)([0-9][0-9_]*)?(?:\.([0-9_]*))?(?:[eE]([-+]?[0-9]+))?")
_BEGIN = re.compile(r"[ \t\r\n\[{]{1,512}")
_WORD = re.compile(r"[A-Za-z]{1,6}")
_SPACE = " \t\r\n"


def number_json(text: str) -> str | None:
    """The JSON of a number as JSON or Python write it, leading zeros allowed; None for anything else."""
    if NUMBER.fullmatch(text):
        return text
    found = _LOOSE.fullmatch(text)
    if found is None or not (found[2] or found[3]):
        return None
    sign, whole, fraction, exponent = found.groups()
    whole = (whole or "").replace("_", "").lstrip("0") or "0"
    point = "" if fraction is None else "." + (fraction.replace("_", "") or "0")
    return f"{sign.strip('+')}{whole}{point}{'' if exponent is None else f'e{exponent}'}"


def scalar_json(text: str) -> str | None:
    """The JSON of a number or a constant; None for anything else."""
    return CONSTANTS.get(text.lower()) if text[:1].isalpha() else number_json(text)


def kind_of(json: str) -> str:
    """The type of a value in JSON that is no string."""
    return _KINDS.get(json[0], "number")


_KINDS = {"t": "boolean", "f": "boolean", "n": "null", "{": "object", "[": "array"}


def word_json(text: str, types: frozenset[str], strings: frozenset[str] | None) -> str | None:
    """The JSON of a word in a language that has quotes, under a schema: what the word says, unless the schema
    allows only a string there. None if it says nothing."""
    json = scalar_json(text)
    if json is not None and kind_of(json) in types:
        return json
    return quoted_json(text) if types < TYPES and (strings is None or text in strings) else json


def typed_json(
    text: str,
    types: frozenset[str],
    strings: frozenset[str] | None,
    nested: Callable[[str], str | None],
) -> str:
    """The JSON of a value that is written as its text is, where its schema tells strings from others. What is
    neither one of its strings nor JSON is a string; where there are none, without white space at its ends.

    types, strings  as in `SchemaView`
    nested          the JSON of an object or a list, None for anything else
    """
    if strings is None:
        return quoted_json(text)
    trimmed = text.strip(_SPACE)
    inside = _unquoted(trimmed)
    for written in (text, trimmed, inside):
        if written is not None and written in strings:
            return quoted_json(written)
    for written in (trimmed, inside or ""):
        json = nested(written) if written[:1] in ("{", "[") else scalar_json(written)
        if json is not None and kind_of(json) in types:
            return json
    if strings:
        return quoted_json(text)
    return scalar_json(trimmed) or quoted_json(trimmed if inside is None else inside)


def _unquoted(text: str) -> str | None:
    """The text within quotes; None if there are none around it."""
    if len(text) < 2 or text[0] != text[-1] or text[0] not in "\"'":
        return None
    try:
        value = json_value(text)
    except ValueError:
        return text[1:-1]
    return value if type_of(value) == "string" else None


def begins_json(text: str, at: int) -> bool | None:
    """Whether a bracket is followed as in an object or a list; None: what follows it is not there yet."""
    found = _BEGIN.match(text, at)
    end = found.end() if found else at
    if end == len(text) and end - at < 512:
        return None
    bracket = text[at:end].rstrip(_SPACE)[-1:]
    first = text[end : end + 1]
    if bracket == "{" or first in ("]", "}", '"', "'"):
        return first in ('"', "'", {"{": "}", "[": "]"}.get(bracket))
    word = _WORD.match(text, end)
    if word is None:
        return first.isdigit() or first in ("-", "+", ".")
    if word.end() == len(text) and any(one.startswith(word[0].lower()) for one in CONSTANTS):
        return None
    return word[0].lower() in CONSTANTS
