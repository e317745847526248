"""Keywords for objects."""

from __future__ import annotations

from typing import Any

from ...work import spend_on_each
from ..document import SchemaNode
from ..formula import (
    ALL,
    ALWAYS,
    CLAUSE,
    HAS,
    NEVER,
    NOT,
    PATTERN,
    PROPERTIES,
    TRUE,
    WITHIN,
    Formula,
    conjunction,
    disjunction,
    negation,
    size,
)
from ..nodes import Expander, Handler
from ..outlines import OBJECT, STRING
from .scalars import count_value


def required_keys(value: Any) -> list[str]:
    """The keys that `required` lists; in draft 3 it belongs to the property's own schema, and lists none."""
    return [] if isinstance(value, bool) else value


def _properties(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    members = spend_on_each(value.items())
    return (PROPERTIES, tuple((name, expander.child(node, member)) for name, member in members))


def _pattern_properties(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    parts: list[Formula] = [
        (ALL, (PATTERN, pattern), expander.child(node, member)) for pattern, member in value.items()
    ]
    return conjunction(part for part in parts if part[2] != ALWAYS)


def declared_keys(node: SchemaNode) -> Formula:
    """The keys that the `properties` and `patternProperties` of the same schema cover."""
    names = frozenset(node.value.get("properties", ()))
    patterns = node.value.get("patternProperties", ())
    return disjunction([(WITHIN, names), *((PATTERN, pattern) for pattern in patterns)])


def _additional(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    literal = expander.child(node, value)
    if literal == ALWAYS:
        return TRUE
    declared = declared_keys(node)
    if declared[0] == WITHIN:
        return (ALL, (NOT, declared), literal)
    return (ALL, conjunction((NOT, part) for part in declared[1]), literal)


def _required(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return conjunction((HAS, name, True) for name in required_keys(value))


def _property_names(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    allowed = expander.formula(expander.child(node, value), STRING)
    if allowed == TRUE:
        return TRUE
    return (ALL, negation(allowed), NEVER)


def _min_properties(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return size(count_value(value, "minProperties"), None)


def _max_properties(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return size(0, count_value(value, "maxProperties"))


def _implications(name: str, others: list[str]) -> Formula:
    """If `name` is present, so are the others."""
    return conjunction((CLAUSE, ((name, False), (other, True))) for other in others if other != name)


def _dependent_required(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return conjunction(_implications(name, others) for name, others in value.items())


def _dependent_schemas(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    parts = []
    for name, member in value.items():  # no generator: it would take three frames of the stack for each level
        parts.append(_if_present(expander, node, name, member, kind))
    return conjunction(parts)


def _if_present(expander: Expander, node: SchemaNode, name: str, value: Any, kind: int) -> Formula:
    return disjunction([(HAS, name, False), expander.formula(expander.child(node, value), kind)])


def _dependencies(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    parts = []
    for name, member in value.items():
        if isinstance(member, (list, str)):
            names = [member] if isinstance(member, str) else member
            parts.append(_implications(name, names))
        else:
            parts.append(_if_present(expander, node, name, member, kind))
    return conjunction(parts)


OBJECT_KEYWORDS: dict[str, tuple[int, Handler]] = {
    "properties": (OBJECT, _properties),
    "patternProperties": (OBJECT, _pattern_properties),
    "additionalProperties": (OBJECT, _additional),
    "required": (OBJECT, _required),
    "propertyNames": (OBJECT, _property_names),
    "minProperties": (OBJECT, _min_properties),
    "maxProperties": (OBJECT, _max_properties),
    "dependentRequired": (OBJECT, _dependent_required),
    "dependentSchemas": (OBJECT, _dependent_schemas),
    "dependencies": (OBJECT, _dependencies),
}
