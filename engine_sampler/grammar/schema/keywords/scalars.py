"""Keywords for numbers and strings."""

from __future__ import annotations

from typing import Any

from ...errors import GrammarLimitError
from ..document import SchemaNode
from ..formula import FORMAT, LENGTH, LESS, MULTIPLE, PATTERN, TRUE, Formula, negation
from ..nodes import Expander, Handler
from ..outlines import NUMBER, STRING
from ..scalars.formats import FORMATS
from ..scalars.numbers import decimal

MAX_COUNT = (1 << 31) - 2
"""Maximum count of characters, items or members: no text has more of them."""


def count_value(value: Any, keyword: str) -> int:
    """The count that is a keyword's value.

    A greater maximum is `MAX_COUNT`. Raises GrammarLimitError for a minimum above it.
    """
    if value > MAX_COUNT and keyword.startswith("min"):
        raise GrammarLimitError(f"{keyword} is more than {MAX_COUNT}")
    return min(int(value), MAX_COUNT)


def _minimum(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    exclusive = node.value.get("exclusiveMinimum") is True
    return negation((LESS, decimal(value, "minimum"), exclusive))


def _maximum(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    exclusive = node.value.get("exclusiveMaximum") is True
    return (LESS, decimal(value, "maximum"), not exclusive)


def _exclusive_minimum(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return TRUE if isinstance(value, bool) else negation((LESS, decimal(value, "exclusiveMinimum"), True))


def _exclusive_maximum(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return TRUE if isinstance(value, bool) else (LESS, decimal(value, "exclusiveMaximum"), False)


def _multiple_of(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return (MULTIPLE, decimal(value, "multipleOf"))


def _min_length(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    low = count_value(value, "minLength")
    return (LENGTH, low, None) if low else TRUE


def _max_length(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return (LENGTH, 0, count_value(value, "maxLength"))


def _pattern(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return (PATTERN, value)


def _format(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    if not expander.asserts_formats or not isinstance(value, str):
        return TRUE
    if value in FORMATS:
        return (FORMAT, value)
    expander.without_effect.add_format(value)
    return TRUE


SCALAR_KEYWORDS: dict[str, tuple[int, Handler]] = {
    "minimum": (NUMBER, _minimum),
    "maximum": (NUMBER, _maximum),
    "exclusiveMinimum": (NUMBER, _exclusive_minimum),
    "exclusiveMaximum": (NUMBER, _exclusive_maximum),
    "multipleOf": (NUMBER, _multiple_of),
    "minLength": (STRING, _min_length),
    "maxLength": (STRING, _max_length),
    "pattern": (STRING, _pattern),
    "format": (STRING, _format),
}
