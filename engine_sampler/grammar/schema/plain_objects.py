"""Objects of which a schema says no more than their keys, and what the values of these are.

Most objects are such. Their plan is read off the schema: it is the one that their formula would lead to.
"""

from __future__ import annotations

from typing import NamedTuple

from ..work import spend, spend_on_each
from .document import SchemaNode
from .formula import ALWAYS, NEVER
from .keywords.objects import required_keys
from .nodes import Expander
from .objects import Literals, ObjectShape, Plan, Region
from .outlines import possible_kinds
from .scalars.strings import other_keys
from .scalars.texts import is_encodable

_MANY = 64
"""The number of keys beyond which each is counted before it is known whether they are plain."""

_KEYWORDS = frozenset(("type", "properties", "required", "additionalProperties"))


class PlainObject(NamedTuple):
    """The literal of the value of each key in `properties`, the keys in `required`, and the literal of the
    values of all other keys. Equal ones are the same objects."""

    properties: tuple[tuple[str, int], ...]
    required: tuple[str, ...]
    others: int

    def shape(self) -> ObjectShape:
        """The objects."""
        unnamed = self.others
        members = dict(self.properties)
        for name in self.required:
            members.setdefault(name, unnamed)
        spend(10 + 12 * len(members))
        names = {name: _literals(one) for name, one in members.items() if one != NEVER and is_encodable(name)}
        regions: tuple[Region, ...] = ()
        if unnamed != NEVER:
            allowed, keys = other_keys(members)
            regions = (Region(keys, _literals(unnamed), frozenset(), allowed),)
        return ObjectShape(Plan(names, frozenset(self.required), regions, (), {}))


def plain_object(literal: int, expander: Expander) -> PlainObject | None:
    """What a literal says about objects, if it allows no other values, and says no more; else None.

    None, too, if it is obvious that a required key can have no value.
    """
    node = expander.node(literal)
    if type(node) is not SchemaNode or not literal & 1:
        return None
    properties: tuple[tuple[str, int], ...] = ()
    required: tuple[str, ...] = ()
    additional, is_object = ALWAYS, False
    for keyword, value in node.items:
        if keyword not in _KEYWORDS:
            return None
        is_object |= keyword == "type" and value == "object"
    if not is_object:
        return None
    for keyword, value in node.items:
        if keyword == "properties":
            members = value.items() if len(value) <= _MANY else spend_on_each(value.items())
            properties = tuple([(name, expander.child(node, member)) for name, member in members])
        elif keyword == "required":
            required = tuple(dict.fromkeys(required_keys(value)))
        elif keyword == "additionalProperties":
            additional = expander.child(node, value)
    literals = dict(properties)
    if required:
        spend(3 * len(required))
    for name in required:
        if not possible_kinds(expander.outlines.of(literals.get(name, additional))):
            return None
    return PlainObject(properties, required, additional)


def _literals(literal: int) -> Literals:
    return frozenset(() if literal == ALWAYS else (literal,))
