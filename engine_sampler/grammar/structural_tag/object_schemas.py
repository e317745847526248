"""Schemas of objects whose members are written one after the other, as these members."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

from ..errors import GrammarError, GrammarLimitError
from ..program.expression import Expression, both, complement
from ..regex.pattern import pattern_expression
from ..schema.matching import ValueMatcher, is_empty
from .readings import SHARED, Readings, checked, reject_unknown_keywords
from .text import utf8

OBJECT = {"type", "properties", "patternProperties", "required", "additionalProperties"}
"""The keywords of objects whose members can be written one after the other."""

MAX_PATTERNS = 4
"""The most patterns in `patternProperties`; a name may match any of them."""


def object_schema(schema: Any) -> Mapping[str, Any]:
    """The schema of a call's arguments. Raises GrammarError if it does not describe an object by members."""
    if isinstance(schema, bool):
        schema = {} if schema else {"type": "nothing"}
    if isinstance(schema, Mapping):
        schema = {
            **{name: schema[name] for name in SHARED if name in schema},
            **Readings(schema).plain(schema),
        }
    if not isinstance(schema, Mapping) or schema.get("type", "object") not in ("object", ["object"]):
        raise GrammarError("the schema of a call's parameters must describe an object")
    reject_unknown_keywords(schema, OBJECT | SHARED)
    return schema


class ObjectMembers(NamedTuple):
    """The members of an object.

    named     the schema of each member that has a name
    required  the names of those that must come
    others    for all other members: a pattern of names and the schema of their values
    """

    named: dict[str, Any]
    required: set[str]
    others: list[tuple[Expression, Any]]


def members_of(schema: Mapping[str, Any], names: Expression) -> ObjectMembers:
    """The members of an object that is valid under a schema.

    names  the names that members may have which the schema does not name
    """
    others = schema.get("additionalProperties", True)
    given = checked(schema, "properties", dict) if "properties" in schema else {}
    required = checked(schema, "required", list) if "required" in schema else []
    if not all(isinstance(name, str) for name in required):
        raise GrammarError("required must be a list of strings")
    patterns = checked(schema, "patternProperties", dict) if "patternProperties" in schema else {}
    if len(patterns) > MAX_PATTERNS:
        raise GrammarLimitError(f"patternProperties has more than {MAX_PATTERNS} patterns")
    found = {pattern: pattern_expression(pattern, dialect="ecma", search=True) for pattern in patterns}
    matchers = {pattern: ValueMatcher(expression) for pattern, expression in found.items()}
    named = {}
    for name in dict.fromkeys([*given, *required]):
        about = [patterns[one] for one, matcher in matchers.items() if matcher.matches(utf8(name))]
        about += [given[name]] if name in given else [] if about else [others]
        named[name] = about[0] if len(about) == 1 else {"allOf": about}
    rest = []
    for chosen in product((False, True), repeat=len(patterns)):
        inside = [pattern for pattern, is_in in zip(patterns, chosen, strict=True) if is_in]
        about = [patterns[one] for one in inside] or [others]
        left = both(names, *(found[one] if one in inside else complement(found[one]) for one in patterns))
        if not any(one is False for one in about) and not is_empty(left):
            rest.append((left, about[0] if len(about) == 1 else {"allOf": about}))
    return ObjectMembers(named, set(required), rest)
