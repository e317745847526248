"""The outlines of subschemas: supersets of their values that are cheap to compute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .document import AnyOf, Constant, SchemaNode
from .formula import ALWAYS
from .outlines import (
    ALL_KINDS,
    ValueOutline,
    outline_intersection,
    outline_of_values,
    outline_union,
    outline_without_values,
    possible_kinds,
    type_mask,
)

if TYPE_CHECKING:
    from .nodes import Expander

COMBINED = frozenset(("allOf", "anyOf", "oneOf"))
_OTHERS = COMBINED | {"$ref"}
_OUTLINED_BESIDE_TYPE = _OTHERS | {"const", "enum"}
_OUTLINED = _OUTLINED_BESIDE_TYPE | {"type"}
"""The keywords that `Outlines.of` takes into account."""


class Outlines:
    """The outlines of the literals of one document."""

    def __init__(self, expander: Expander) -> None:
        self._expander = expander
        self._known: dict[int, ValueOutline] = {}

    def of(self, literal: int) -> ValueOutline:
        """The outline of a literal: a superset of its values that is cheap to compute."""
        outline = self._known.get(literal)
        if outline is None:
            if literal <= ALWAYS:
                return ValueOutline() if literal else ValueOutline(0)
            if (value := self._type_without(_OUTLINED_BESIDE_TYPE, literal)) is not None:
                outline = self._known[literal] = ValueOutline(type_mask(value))
                return outline
            self._known[literal] = ValueOutline()  # until it has been computed
            self._expander.begin(key := (literal, 0))
            try:
                outline = self._known[literal] = self._outline(literal)
            finally:
                self._expander.in_progress.discard(key)
        return outline

    def _type_without(self, keywords: frozenset[str], literal: int) -> Any:
        """The `type` that a literal asserts, if it has none of some keywords; else None."""
        node = self._expander.node(literal)
        if not literal & 1 or type(node) is not SchemaNode or not keywords.isdisjoint(node.value):
            return None
        return node.value.get("type") if node.resource.validates else None

    def kinds(self, literals: list[int]) -> int:
        """The types of values that may satisfy all of the literals, as a mask."""
        outline = self.of
        if len(literals) != 1:
            return possible_kinds(outline_intersection(map(outline, literals)))
        value = self._type_without(_OTHERS, literals[0])
        return possible_kinds(outline(literals[0])) if value is None else type_mask(value)

    def _outline(self, literal: int) -> ValueOutline:
        node = self._expander.node(literal)
        if isinstance(node, Constant):
            return outline_of_values([node.value]) if literal & 1 else outline_without_values([node.value])
        if isinstance(node, AnyOf):
            return outline_union(map(self.of, node.literals)) if literal & 1 else ValueOutline()
        items = node.items
        if literal & 1:
            found = [self._of_keyword(node, *item) for item in items if item[0] in _OUTLINED]
            return found[0] if len(found) == 1 else outline_intersection(found)
        if len(items) != 1:
            return ValueOutline()
        keyword, value = items[0]
        if keyword == "const":
            return outline_without_values([value])
        if keyword == "enum":
            return outline_without_values(value)
        if keyword == "not":
            return self.of(self._expander.child(node, value))
        if keyword == "type" and "integer" not in value:
            return ValueOutline(ALL_KINDS & ~type_mask(value))
        return ValueOutline()

    def _of_keyword(self, node: SchemaNode, keyword: str, value: Any) -> ValueOutline:
        if keyword == "type":
            return ValueOutline(type_mask(value))
        if keyword == "const":
            return outline_of_values([value])
        if keyword == "enum":
            return outline_of_values(value)
        if keyword == "$ref":
            return self.of(self._expander.reference(node, value))
        if keyword == "allOf":
            return outline_intersection(self.of(self._expander.child(node, part)) for part in value)
        if keyword in ("anyOf", "oneOf"):
            return outline_union(self.of(self._expander.child(node, part)) for part in value)
        return ValueOutline()
