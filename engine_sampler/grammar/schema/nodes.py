"""Subschemas by number, and what each says about the values of one JSON type.

A **literal** is an int: 2 n + 1 says that a value satisfies subschema n, 2 n that it does not. Subschema 0
is `true`, so ALWAYS is 1 and NEVER is 0. What a literal says about one type is a formula (see
`formula`); it is found out when first asked for. So only what can be reached is ever looked at.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ..errors import GrammarError, GrammarLimitError, UnsupportedKeywordError
from .document import Document, Resource
from .formula import ALWAYS, FALSE, NEVER, TRUE, Formula, conjunction, disjunction, negation, weight
from .limits import MAX_DEPTH, MAX_WEIGHT, Budget
from .outlines import (
    ALL_KINDS,
    ARRAY,
    OBJECT,
    STRING,
    Outline,
    either,
    kind_of,
    of_values,
    possible_kinds,
    together,
    type_mask,
    without_values,
)
from .strings import holds

Scope: TypeAlias = tuple[Resource, ...]


class Node(NamedTuple):
    """A subschema where it is evaluated.

    value     the schema
    resource  what it is a part of
    scope     the resources through which evaluation came here, if dynamic references matter
    items     the keywords that say something, and their values
    """

    value: Any
    resource: Resource
    scope: Scope
    items: tuple[tuple[str, Any], ...] = ()


class Constant(NamedTuple):
    """`const`: the value must equal this one."""

    value: Any


class AnyOf(NamedTuple):
    """A value must satisfy one of the literals."""

    literals: tuple[int, ...]


Found = TypeVar("Found")

Handler: TypeAlias = "Callable[[Expander, Node, Any, int], Formula]"
"""What a keyword with a value says about one type."""


_PLAIN = frozenset((str, int, float))
_LEAVES = frozenset(
    ("type", "format", "pattern", "minLength", "maxLength", "minimum", "maximum", "multipleOf")
)
"""Keywords whose meaning depends on nothing else: schemas of them alone are the same if they look so."""

_FEW = 16
"""Of so many constants or fewer it is found out whether other assertions rule them out."""

_WHOLE = {"unevaluatedProperties": OBJECT, "unevaluatedItems": ARRAY}


class Expander:
    """All subschemas of one document.

    keywords     of each known keyword the types that it speaks of, and its handler
    unsupported  "error" or "warn": what to do about keywords that cannot be enforced
    formats      "assert" or "annotate"
    """

    def __init__(
        self, document: Document, keywords: Mapping[str, tuple[int, Handler]], unsupported: str, formats: str
    ) -> None:
        self.document = document
        self.asserts_formats = formats == "assert"
        self.budget = Budget()
        self._keywords = keywords
        self._warns = unsupported == "warn"
        self._nodes: list[Node | Constant | AnyOf] = [Node(True, document.root, ())]
        self._literals: dict[Any, int] = {}
        self._formulas: dict[tuple[int, int], Formula] = {}
        self._outlines: dict[int, Outline] = {}
        self._references: list[Node] = []
        self._impossible: dict[frozenset[int], bool] = {}
        self._open: set[tuple[int, int]] = set()
        self._constants: list[Any] = []  # kept alive, so that no other object gets their ids

    def root(self) -> int:
        """The literal of the whole schema."""
        return self.literal(self.document.schema, self.document.root, ())

    def literal(self, value: Any, resource: Resource, scope: Scope) -> int:
        """The literal of a subschema that stands in `resource`."""
        if value is True or value is False:
            return ALWAYS if value else NEVER
        if not isinstance(value, dict):
            raise GrammarError(f"a JSON Schema must be an object or a boolean, not {str(value)[:40]!r}")
        if not value:
            return ALWAYS
        resource = self.document.enter(value, resource)
        key = id(value), id(resource), scope
        found = self._literals.get(key)
        if found is None:
            found = self._literals[key] = self._of_schema(value, resource, scope)
        return found

    def _of_schema(self, value: dict[str, Any], resource: Resource, scope: Scope) -> int:
        """A new literal, or that of another schema which plainly says the same."""
        items = tuple(self._items(value, resource))
        if not items:
            return ALWAYS
        node = Node(value, resource, scope, items)
        if items[0][0] == "$ref" and len(items) == 1 and node not in self._references:
            self._references.append(node)
            try:
                return self.reference(node, items[0][1])
            finally:
                self._references.pop()
        if not all(type(one) in _PLAIN and keyword in _LEAVES for keyword, one in items):
            return self._add(node)
        key = resource.draft <= 4, items
        found = self._literals.get(key)
        if found is None:
            found = self._literals[key] = self._add(node)
        return found

    def _items(self, value: dict[str, Any], resource: Resource) -> Iterable[tuple[str, Any]]:
        """The keywords of a schema that say something; up to draft 7 `$ref` hides all others."""
        if resource.draft >= 2019:
            return (item for item in value.items() if item[0] in self._keywords)
        if "$ref" in value:
            return (("$ref", value["$ref"]),)
        return (item for item in value.items() if item[0] in self._keywords and item[0] not in _WHOLE)

    def child(self, node: Node, value: Any) -> int:
        """The literal of a subschema of `node`."""
        return self.literal(value, node.resource, self.entered(node))

    def entered(self, node: Node) -> Scope:
        """The scope inside of `node`."""
        scope = node.scope
        if not scope or (node.resource not in scope and self.document.is_dynamic):
            return (*scope, node.resource)
        return scope

    def constant(self, value: Any) -> int:
        """The literal of `{"const": value}`."""
        key = ("const", id(value))
        found = self._literals.get(key)
        if found is None:
            self._constants.append(value)
            found = self._literals[key] = self._add(Constant(value))
        return found

    def scalar(self, value: Any) -> int:
        """The literal of a constant that is no array or object; equal ones have the same."""
        key = ("scalar", kind_of(value), value)
        found = self._literals.get(key)
        if found is None:
            found = self._literals[key] = self._add(Constant(value))
        return found

    def any_of(self, literals: Iterable[int]) -> int:
        """The literal that holds where one of `literals` does."""
        parts = tuple(sorted(set(literals) - {NEVER}))
        if ALWAYS in parts:
            return ALWAYS
        if len(parts) < 2:
            return parts[0] if parts else NEVER
        found = self._literals.get(parts)
        if found is None:
            found = self._literals[parts] = self._add(AnyOf(parts))
        return found

    def _add(self, node: Node | Constant | AnyOf) -> int:
        self.budget.spend(2)
        self._nodes.append(node)
        return 2 * len(self._nodes) - 1

    def node(self, literal: int) -> Node | Constant | AnyOf:
        """What a literal, or its negation, is about."""
        return self._nodes[literal >> 1]

    def unsupported(self, keyword: str, why: str) -> Formula:
        """TRUE, with a warning, where that is wanted; otherwise raises UnsupportedKeywordError."""
        text = f"{keyword} is not supported here: {why}"
        if not self._warns:
            raise UnsupportedKeywordError(text)
        warnings.warn(text, stacklevel=2)
        return TRUE

    def formula(self, literal: int, kind: int) -> Formula:
        """What a literal says about the values of one type."""
        if literal <= ALWAYS:
            return TRUE if literal else FALSE
        key = literal, kind
        found = self._formulas.get(key)
        if found is None:
            if literal & 1:
                found = self.guarded(key, lambda: self._positive(self._nodes[literal >> 1], kind))
            else:
                found = negation(self.formula(literal | 1, kind))
            self.weigh(found)
            self._formulas[key] = found
        return found

    def weigh(self, formula: Formula) -> int:
        """The number of assertions in a formula. Raises GrammarLimitError if they are too many."""
        found = weight(formula, MAX_WEIGHT)
        self.budget.spend(1 + found // 8)
        if found > MAX_WEIGHT:
            raise GrammarLimitError(f"a subschema leads to more than {MAX_WEIGHT} assertions about one value")
        return found

    def guarded(self, key: Any, find: Callable[[], Found]) -> Found:
        """What `find` returns. Raises GrammarError where it needs itself, GrammarLimitError deep down."""
        if key in self._open:
            raise GrammarError("a $ref leads back to itself without a property or an item between")
        if len(self._open) >= MAX_DEPTH:
            raise GrammarLimitError(f"subschemas of one value are nested more than {MAX_DEPTH} deep")
        self._open.add(key)
        try:
            return find()
        finally:
            self._open.discard(key)

    def _positive(self, node: Node | Constant | AnyOf, kind: int) -> Formula:
        if isinstance(node, AnyOf):
            return disjunction(self.formula(literal, kind) for literal in node.literals)
        if isinstance(node, Constant):
            return self._keywords["const"][1](self, Node({}, self.document.root, ()), node.value, kind)
        for keyword, value in node.items:
            if _WHOLE.get(keyword) == kind:
                return self.assertion(node, keyword, value, kind)  # it speaks of all the others too
        return conjunction([self.assertion(node, keyword, value, kind) for keyword, value in node.items])

    def assertion(self, node: Node, keyword: str, value: Any, kind: int) -> Formula:
        """What one keyword of a subschema says."""
        kinds, handler = self._keywords[keyword]
        return handler(self, node, value, kind) if kinds & kind else TRUE

    def outline(self, literal: int) -> Outline:
        """What is plain to see of a literal."""
        found = self._outlines.get(literal)
        if found is None:
            if literal <= ALWAYS:
                return Outline() if literal else Outline(0)
            self._outlines[literal] = Outline()  # while it is being found out
            found = self.guarded((literal, 0), lambda: self._outline(literal))
            self._outlines[literal] = found
        return found

    def _outline(self, literal: int) -> Outline:
        node = self._nodes[literal >> 1]
        if isinstance(node, Constant):
            return of_values([node.value]) if literal & 1 else without_values([node.value])
        if isinstance(node, AnyOf):
            return either(map(self.outline, node.literals)) if literal & 1 else Outline()
        items = node.items
        if literal & 1:
            return together(self._of_keyword(node, keyword, value) for keyword, value in items)
        if len(items) != 1:
            return Outline()
        keyword, value = items[0]
        if keyword == "const":
            return without_values([value])
        if keyword == "enum" and isinstance(value, list):
            return without_values(value)
        if keyword == "not":
            return self.outline(self.child(node, value))
        if keyword == "type" and "integer" not in value:
            return Outline(ALL_KINDS & ~type_mask(value))
        return Outline()

    def _of_keyword(self, node: Node, keyword: str, value: Any) -> Outline:
        if keyword == "type":
            return Outline(type_mask(value))
        if keyword == "const":
            return of_values([value])
        if keyword == "enum" and isinstance(value, list):
            return of_values(value)
        if keyword == "$ref":
            return self.outline(self.reference(node, value))
        if keyword == "allOf" and isinstance(value, list):
            return together(self.outline(self.child(node, part)) for part in value)
        if keyword in ("anyOf", "oneOf") and isinstance(value, list):
            return either(self.outline(self.child(node, part)) for part in value)
        return Outline()

    def reference(self, node: Node, value: Any) -> int:
        """The literal that `$ref` leads to."""
        target, resource = self.document.resolve(value, node.resource)
        return self.literal(target, resource, self.entered(node))

    def dynamic_reference(self, node: Node, value: Any) -> int:
        """The literal that `$dynamicRef` leads to: the outermost anchor of that name in scope."""
        target, resource = self.document.resolve(value, node.resource, "$dynamicRef")
        name = value.partition("#")[2]
        if self.document.anchors(resource).get(name) is target:
            return self._outermost(name, node)
        return self.literal(target, resource, self.entered(node))

    def recursive_reference(self, node: Node, value: Any) -> int:
        """The literal that `$recursiveRef` leads to."""
        target, resource = self.document.resolve(value, node.resource, "$recursiveRef")
        if self.document.anchors(resource).get("") is target:
            return self._outermost("", node)
        return self.literal(target, resource, self.entered(node))

    def _outermost(self, name: str, node: Node) -> int:
        scope = self.entered(node)
        resource = next(one for one in scope if name in self.document.anchors(one))
        return self.literal(self.document.anchors(resource)[name], resource, scope)

    def impossible(self, literals: Iterable[int]) -> bool:
        """Whether it is plain to see that no value satisfies all of the literals."""
        key = frozenset(literals)
        found = self._impossible.get(key)
        if found is None:
            self.budget.spend(len(key))
            found = self._impossible[key] = self._is_impossible(key)
        return found

    def _is_impossible(self, literals: frozenset[int]) -> bool:
        outline = together(map(self.outline, literals))
        kinds = possible_kinds(outline)
        if kinds != STRING or outline.allowed is None or len(literals) < 2:
            return kinds == 0
        rest = [text for text in outline.allowed - outline.excluded if isinstance(text, str)]
        if len(rest) > _FEW:
            return False
        formula = conjunction(self.formula(literal, STRING) for literal in literals)
        return not any(holds(formula, text, self.budget) for text in rest)
