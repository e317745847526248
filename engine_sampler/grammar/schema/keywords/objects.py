"""Keywords for objects."""

from __future__ import annotations

from typing import Any

from ...errors import GrammarError
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
from ..nodes import Expander, Handler, SchemaNode
from ..outlines import OBJECT, STRING
from .scalars import count_value


def object_value(value: Any, keyword: str) -> dict[str, Any]:
    """The object that is a keyword's value. Raises GrammarError for anything else."""
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise GrammarError(f"{keyword} must be an object whose keys are strings")
    return value


def _names(value: Any, keyword: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise GrammarError(f"{keyword} must be an array of strings")
    return value


def required_keys(value: Any) -> list[str]:
    """The keys that `required` lists; in draft 3 it belongs to the property's own schema, and lists none."""
    return [] if isinstance(value, bool) else _names(value, "required")


def _properties(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    members = object_value(value, "properties").items()
    return (PROPERTIES, tuple((name, expander.child(node, member)) for name, member in members))


def _pattern_properties(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    members = object_value(value, "patternProperties").items()
    parts: list[Formula] = [
        (ALL, (PATTERN, pattern), expander.child(node, member)) for pattern, member in members
    ]
    return conjunction(part for part in parts if part[2] != ALWAYS)


def declared_keys(node: SchemaNode) -> Formula:
    """The keys that the `properties` and `patternProperties` of the same schema cover."""
    names = frozenset(object_value(node.value.get("properties", {}), "properties"))
    patterns = object_value(node.value.get("patternProperties", {}), "patternProperties")
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
    members = object_value(value, "dependentRequired").items()
    return conjunction(_implications(name, _names(others, "dependentRequired")) for name, others in members)


def _dependent_schemas(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    members = object_value(value, "dependentSchemas").items()
    parts = []
    for name, member in members:  # no generator: it would take three frames of the stack for each level
        parts.append(_if_present(expander, node, name, member, kind))
    return conjunction(parts)


def _if_present(expander: Expander, node: SchemaNode, name: str, value: Any, kind: int) -> Formula:
    return disjunction([(HAS, name, False), expander.formula(expander.child(node, value), kind)])


def _dependencies(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    parts = []
    for name, member in object_value(value, "dependencies").items():
        if isinstance(member, (list, str)):
            names = [member] if isinstance(member, str) else _names(member, "dependencies")
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
