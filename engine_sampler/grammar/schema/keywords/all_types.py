"""The keywords of JSON Schema that apply to all types, and the table of all keywords."""

from __future__ import annotations

from typing import Any

from ...work import spend_on_each
from ..alternatives.clauses import exclusive
from ..document import SchemaNode
from ..formula import (
    ALL,
    FALSE,
    HAS,
    INTEGER,
    ITEM,
    LISTED,
    NEVER,
    NOT,
    PROPERTIES,
    TRUE,
    WITHIN,
    Formula,
    conjunction,
    disjunction,
    negation,
    size,
)
from ..listed import MIN_LISTED, Listed
from ..nodes import Expander, Handler
from ..outlines import ALL_KINDS, ARRAY, NUMBER, OBJECT, STRING, json_kind, type_mask
from ..scalars.numbers import decimal
from .arrays import ARRAY_KEYWORDS
from .objects import OBJECT_KEYWORDS
from .scalars import SCALAR_KEYWORDS
from .unevaluated import UNEVALUATED_KEYWORDS


def _type(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    if not type_mask(value) & kind:
        return FALSE
    names = value if isinstance(value, list) else [value]
    if kind != NUMBER or "number" in names or "any" in names:
        return TRUE
    return (INTEGER, node.resource.draft <= 4)


def _enum(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return _any_constant(expander, [one for one in spend_on_each(value) if json_kind(one) == kind], kind)


def _const(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return _any_constant(expander, [value] if json_kind(value) == kind else [], kind)


def _any_constant(expander: Expander, values: list[Any], kind: int) -> Formula:
    """Equality to one of the values, all of which have the type `kind`."""
    if not values:
        return FALSE
    if kind == STRING:
        return (WITHIN, frozenset(values))
    if kind == NUMBER:
        return (WITHIN, frozenset(decimal(value, "const") for value in spend_on_each(values, 2)))
    if kind not in (ARRAY, OBJECT):
        return TRUE
    equal = _array if kind == ARRAY else _object
    listed = Listed(values, lambda: (equal(expander, value) for value in values))
    return listed.formula if len(values) < MIN_LISTED else (LISTED, listed)


def _array(expander: Expander, value: list[Any]) -> Formula:
    items = [(ITEM, index, expander.constant(item)) for index, item in enumerate(spend_on_each(value))]
    return conjunction([size(len(value), len(value)), *items])


def _object(expander: Expander, value: dict[str, Any]) -> Formula:
    members = tuple((name, expander.constant(member)) for name, member in spend_on_each(value.items()))
    names: Formula = (WITHIN, frozenset(value))
    parts: list[Formula] = [(HAS, name, True) for name in value]
    return conjunction([*parts, (PROPERTIES, members), (ALL, (NOT, names), NEVER)])


def _ref(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return expander.formula(expander.reference(node, value), kind)


def _dynamic_ref(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return expander.formula(expander.dynamic_reference(node, value), kind)


def _recursive_ref(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return expander.formula(expander.recursive_reference(node, value), kind)


def _parts(expander: Expander, node: SchemaNode, value: Any, kind: int) -> list[Formula]:
    return [expander.formula(expander.child(node, part), kind) for part in value]


def _all_of(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return conjunction(_parts(expander, node, value, kind))


def _any_of(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return disjunction(_parts(expander, node, value, kind))


def _exactly_one(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return disjunction(exclusive(expander, _parts(expander, node, value, kind), kind))


def _not(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    return negation(expander.formula(expander.child(node, value), kind))


def _if(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    if "then" not in node.value and "else" not in node.value:
        return TRUE
    condition = expander.formula(expander.child(node, value), kind)
    then, otherwise = (
        expander.formula(expander.child(node, node.value.get(branch, True)), kind)
        for branch in ("then", "else")
    )
    if then == TRUE:
        return disjunction([condition, otherwise])
    if otherwise == TRUE:
        return disjunction([negation(condition), then])
    return disjunction([conjunction([condition, then]), conjunction([negation(condition), otherwise])])


KEYWORDS: dict[str, tuple[int, Handler]] = {
    "type": (ALL_KINDS, _type),
    "enum": (ALL_KINDS, _enum),
    "const": (ALL_KINDS, _const),
    "$ref": (ALL_KINDS, _ref),
    "$dynamicRef": (ALL_KINDS, _dynamic_ref),
    "$recursiveRef": (ALL_KINDS, _recursive_ref),
    "allOf": (ALL_KINDS, _all_of),
    "anyOf": (ALL_KINDS, _any_of),
    "oneOf": (ALL_KINDS, _exactly_one),
    "not": (ALL_KINDS, _not),
    "if": (ALL_KINDS, _if),
    **SCALAR_KEYWORDS,
    **OBJECT_KEYWORDS,
    **ARRAY_KEYWORDS,
    **UNEVALUATED_KEYWORDS,
}
"""For each known keyword, the types to which it applies and its handler; all others are annotations."""
