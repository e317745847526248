"""One literal for all subschemas that say the same: branches of a `oneOf` often repeat what they share."""

from __future__ import annotations

from typing import Any, TypeAlias

from ...work import spend
from ..document import LISTS, MAPS, SINGLES, AnyOf, Constant, Resource
from ..formula import (
    ALL,
    ALWAYS,
    AND,
    COUNT,
    FROM,
    HAS,
    ITEM,
    LISTED,
    OR,
    PROPERTIES,
    SOME,
    WITHIN,
    Formula,
    conjunction,
    disjunction,
)
from ..listed import identity
from ..nodes import Expander

Meaning: TypeAlias = int
"""A number for what a schema says: schemas of the same number are equal."""


class EqualSchemas:
    """For each literal, the first of those whose subschemas are equal: the same keywords that constrain
    values, with the same values, within one resource. Annotations do not matter."""

    def __init__(self, expander: Expander) -> None:
        self._expander = expander
        self._first: dict[Any, int] = {}  # by what the subschema is, and its context
        self._literals: dict[int, int] = {}
        self._meanings: dict[Any, Meaning] = {}
        self._of_schemas: dict[tuple[int, int], Meaning] = {}

    def literal(self, literal: int) -> int:
        """The first literal that says the same."""
        if literal <= ALWAYS:
            return literal
        found = self._literals.get(literal | 1)
        if found is None:
            found = self._first.setdefault(self._key(literal), literal | 1)
            self._literals[literal | 1] = found
        return found if literal & 1 else found ^ 1

    def formula(self, formula: Formula) -> Formula:
        """The same formula with these literals, in which a value that some member must have is told apart
        from the member's presence."""
        kind = formula[0]
        if kind in (AND, OR):
            parts = [self.formula(part) for part in formula[1]]
            return conjunction(parts) if kind == AND else disjunction(parts)
        spend()
        if kind == LISTED:
            return self.formula(formula[1].formula)
        if kind == PROPERTIES:
            spend(len(formula[1]))
            return (PROPERTIES, tuple((name, self.literal(one)) for name, one in formula[1]))
        if kind == SOME and formula[1][0] == WITHIN:
            return self._some(sorted(formula[1][1]), self.literal(formula[2]))
        if kind in (ALL, SOME, ITEM, FROM, COUNT):
            return (kind, formula[1], self.literal(formula[2]), *formula[3:])
        return formula

    def _some(self, names: list[str], literal: int) -> Formula:
        spend(2 * len(names))
        if literal == ALWAYS:
            return disjunction((HAS, name, True) for name in names)
        return disjunction(
            conjunction([(HAS, name, True), (PROPERTIES, ((name, literal),))]) for name in names
        )

    def _key(self, literal: int) -> Any:
        node = self._expander.node(literal)
        if isinstance(node, Constant):
            return "constant", identity(node.value)
        if isinstance(node, AnyOf):
            return "any", frozenset(map(self.literal, node.literals))
        return id(node.resource), node.scope, self._meaning(node.value, node.resource)

    def _meaning(self, value: Any, resource: Resource) -> Meaning:
        if not isinstance(value, dict):
            return self._number(identity(value))
        key = id(value), id(resource)
        found = self._of_schemas.get(key)
        if found is None:
            found = self._of_schemas[key] = self._number(self._said(value, resource))
        return found

    def _said(self, value: dict[str, Any], resource: Resource) -> Any:
        """What a schema says; one with an identifier of its own is like no other."""
        if self._expander.document.enter(value, resource) is not resource:
            return "resource", id(value)
        items = self._expander.keywords_of(value, resource)
        spend(2 + 2 * len(items))
        parts = frozenset(
            (keyword, self._meaning_of_keyword(keyword, one, resource)) for keyword, one in items
        )
        return value.get("nullable") is True, parts

    def _meaning_of_keyword(self, keyword: str, value: Any, resource: Resource) -> Any:
        if isinstance(value, dict) and keyword in MAPS:
            spend(len(value))
            return tuple((name, self._meaning(one, resource)) for name, one in value.items())
        if isinstance(value, list) and keyword in LISTS:
            spend(len(value))
            return tuple(self._meaning(one, resource) for one in value)
        return self._meaning(value, resource) if keyword in SINGLES else self._number(identity(value))

    def _number(self, said: Any) -> Meaning:
        return self._meanings.setdefault(said, len(self._meanings))
