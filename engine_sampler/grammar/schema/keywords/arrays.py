"""Keywords for arrays."""

from __future__ import annotations

from typing import Any

from ..document import SchemaNode
from ..formula import ALWAYS, FROM, ITEM, NEVER, TRUE, UNIQUE, Formula, conjunction, counted, size
from ..nodes import Expander, Handler
from ..outlines import ARRAY
from .scalars import count_value


def prefix_length(node: SchemaNode) -> int:
    """The number of leading items to which the schema assigns schemas one by one."""
    for keyword in ("prefixItems", "items"):
        if isinstance(node.value.get(keyword), list) and (keyword == "items" or node.resource.draft >= 2020):
            return len(node.value[keyword])
    return 0


def _each(expander: Expander, node: SchemaNode, value: list[Any]) -> Formula:
    literals = [expander.child(node, part) for part in value]
    return conjunction((ITEM, index, literal) for index, literal in enumerate(literals) if literal != ALWAYS)


def _from(expander: Expander, node: SchemaNode, value: Any, index: int) -> Formula:
    literal = expander.child(node, value)
    if literal == NEVER:
        return size(0, index)
    return TRUE if literal == ALWAYS else (FROM, index, literal)


def _prefix_items(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return _each(expander, node, value)


def _items(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    if isinstance(value, list):
        return _each(expander, node, value)
    return _from(expander, node, value, prefix_length(node))


def _additional_items(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    if not isinstance(node.value.get("items"), list):
        return TRUE
    return _from(expander, node, value, prefix_length(node))


def contains_range(node: SchemaNode) -> tuple[int, int | None]:
    """The number of items that must satisfy `contains`: at least, and at most."""
    if node.resource.draft < 2019 or not node.resource.validates:
        return 1, None
    low = count_value(node.value.get("minContains", 1), "minContains")
    high = node.value.get("maxContains")
    return low, None if high is None else count_value(high, "maxContains")


def _contains(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    low, high = contains_range(node)
    return counted(0, expander.child(node, value), low, high)


def _min_items(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return size(count_value(value, "minItems"), None)


def _max_items(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return size(0, count_value(value, "maxItems"))


def _unique_items(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return (UNIQUE, True) if value is True else TRUE


ARRAY_KEYWORDS: dict[str, tuple[int, Handler]] = {
    "prefixItems": (ARRAY, _prefix_items),
    "items": (ARRAY, _items),
    "additionalItems": (ARRAY, _additional_items),
    "contains": (ARRAY, _contains),
    "minItems": (ARRAY, _min_items),
    "maxItems": (ARRAY, _max_items),
    "uniqueItems": (ARRAY, _unique_items),
}
