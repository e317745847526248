"""Subschemas by number, and the constraints that each puts on the values of one JSON type.

A **literal** is an int: 2 n + 1 asserts that a value satisfies subschema n, 2 n that it does not. Subschema 0
is `true`, so ALWAYS is 1 and NEVER is 0. The meaning of a literal for one type is a formula (see
`formula`); it is computed on first use, so only reachable subschemas are ever examined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from ...base.errors import quoted
from ..errors import GrammarError, GrammarLimitError, UnsupportedKeywordError
from ..work import spend
from .document import AnyOf, Constant, Document, Resource, SchemaNode, Scope
from .formula import ALWAYS, FALSE, NEVER, TRUE, Formula, conjunction, disjunction, negation, weight
from .keywords.keyword_values import VALIDATION, Items, find_fault, without_faults
from .keywords.without_effect import WithoutEffect, refuse_no_schema
from .limits import MAX_DEPTH, MAX_WEIGHT
from .node_outlines import COMBINED, Outlines
from .outlines import (
    ARRAY,
    OBJECT,
    STRING,
    json_kind,
    outline_intersection,
    possible_kinds,
)
from .scalars.strings import holds

Found = TypeVar("Found")

Handler: TypeAlias = "Callable[[Expander, SchemaNode, Any, int], Formula]"
"""Computes the formula of a keyword, given its value, for one type."""


_PLAIN = frozenset((str, int, float))
_LEAVES = frozenset(
    ("type", "format", "pattern", "minLength", "maxLength", "minimum", "maximum", "multipleOf")
)
"""Keywords that depend on nothing else: two schemas of these alone are the same if they are equal."""

_MANY = 64
"""The number of keywords, or of resources in scope, beyond which each is counted."""

_MAX_CHECKED_CONSTANTS = 16
"""Maximum number of constants that are each checked against other assertions."""

_SINCE = {
    **dict.fromkeys(("const", "contains", "propertyNames"), 6),
    "if": 7,
    **dict.fromkeys(("dependentRequired", "dependentSchemas", "$recursiveRef"), 2019),
    **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), 2019),
    **dict.fromkeys(("prefixItems", "$dynamicRef"), 2020),
}
"""The draft that introduced a keyword: a schema that declares an older one does not have it."""

_LATER = {
    draft: frozenset(name for name, since in _SINCE.items() if since > draft) for draft in (4, 6, 7, 2019)
}
"""For each draft but the latest, the keywords that a later one introduced."""

_MOST_TYPES = 7
"""The number of JSON's types."""

_UNEVALUATED = {"unevaluatedProperties": OBJECT, "unevaluatedItems": ARRAY}


class Expander:
    """All subschemas of one document.

    keywords     for each known keyword, the types to which it applies and its handler
    unsupported  "error", "warn" or "ignore": the treatment of keywords that cannot be enforced
    formats      "assert" or "annotate"
    digits       the bound on the digits of numbers, whose integers are plain then; None without one
    """

    def __init__(
        self,
        document: Document,
        keywords: Mapping[str, tuple[int, Handler]],
        unsupported: str,
        formats: str,
        digits: int | None,
    ) -> None:
        self.document = document
        self.digits = digits
        self.asserts_formats = formats == "assert"
        self._keywords = keywords
        self._known: dict[int, Collection[str]] = {2020: keywords}  # of each vocabulary
        self._unsupported = unsupported
        self.unenforced: dict[str, None] = {}
        """The keywords that have been ignored, in words."""
        self.without_effect = WithoutEffect()
        self._nullable: dict[int, tuple[Any, Any]] = {}  # by identity: each schema, and what it means
        self._nodes: list[SchemaNode | Constant | AnyOf] = [SchemaNode(True, document.root, ())]
        self._literals: dict[Any, int] = {}
        self._formulas: dict[tuple[int, int], Formula] = {}
        self.outlines = Outlines(self)
        self._impossible: dict[frozenset[int], bool] = {}
        self.in_progress: set[tuple[int, int]] = set()
        self._constants: list[Any] = []  # kept alive so that no other object reuses their ids

    def root(self) -> int:
        """The literal of the whole schema. Raises GrammarError for what is none."""
        refuse_no_schema(self.document.schema, self._keywords)
        return self.literal(self.document.schema, self.document.root, ())

    def literal(self, value: Any, resource: Resource, scope: Scope) -> int:
        """The literal of a subschema in `resource`; one that is only a `$ref`, or an `allOf` or the like of a
        single part, has that of its target, or of the part."""
        passed: dict[Any, None] = {}
        while True:
            if value is True or value is False or value == {}:
                number = NEVER if value is False else ALWAYS
                break
            if not isinstance(value, dict):
                raise GrammarError(f"a JSON Schema must be an object or a boolean, not {quoted(value)}")
            if value.get("nullable") is True and "type" in value:
                value = self._with_null(value)
            if "$id" in value or "id" in value:
                resource = self.document.enter(value, resource)
            key = id(value), id(resource), scope
            known = self._literals.get(key)
            if known is not None:
                number = known
                break
            items = self.keywords_of(value, resource)
            if len(items) != 1 or not _is_another(*items[0]) or key in passed:
                number = self._literals[key] = self._of_schema(value, resource, scope, items)
                break
            passed[key] = None
            spend(10)
            scope = self.entered(SchemaNode(value, resource, scope, items))
            keyword, other = items[0]
            if keyword == "$ref":
                try:
                    value, resource = self.document.resolve(other, resource)
                except GrammarError as error:
                    error.place = value, keyword
                    raise
            else:
                value = other[0]
        for key in passed:
            self._literals[key] = number
        return number

    def _of_schema(self, value: Any, resource: Resource, scope: Scope, items: Items) -> int:
        """A new literal, or that of another schema that is obviously equivalent."""
        if len(value) > len(items):
            self.without_effect.look(value, self._keywords, asserts_formats=self.asserts_formats)
        if value.get("required") is True:
            self.without_effect.add(
                "required: true has no effect: the schema of an object lists the keys it needs"
            )
        if not items:
            return ALWAYS
        for keyword, one in items:
            if keyword not in _LEAVES or type(one) not in _PLAIN:
                return self._new(value, resource, scope, items)
        key = resource.draft <= 4, items
        found = self._literals.get(key)
        if found is None:
            found = self._literals[key] = self._new(value, resource, scope, items)
        return found

    def _new(self, value: dict[str, Any], resource: Resource, scope: Scope, items: Items) -> int:
        """The literal of a schema that is read for the first time."""
        if len(scope) > _MANY:
            spend(len(scope) // 8)
        try:
            if find_fault(value, items, resource.draft) is not None:
                items = without_faults(value, items, resource.draft, self._keywords)
                if not items:
                    return ALWAYS
        except GrammarError as error:
            error.place = error.place or (value, "")
            raise
        return self._add(SchemaNode(value, resource, scope, items))

    def keywords_of(self, value: dict[str, Any], resource: Resource) -> Items:
        """The keywords of a schema that constrain values; up to draft 7, `$ref` hides all others."""
        draft = resource.draft
        if draft < 2019 and "$ref" in value:
            return (("$ref", value["$ref"]),)
        known = self._known.get(resource.vocabulary)
        if known is None:
            hidden = _LATER.get(draft, frozenset()) | (frozenset() if resource.validates else VALIDATION)
            known = self._known[resource.vocabulary] = self._keywords.keys() - hidden
        if len(value) > _MANY:
            spend(len(value) // 16)
        return tuple([item for item in value.items() if item[0] in known])

    def child(self, node: SchemaNode, value: Any) -> int:
        """The literal of a subschema of `node`."""
        return self.literal(value, node.resource, self.entered(node))

    def entered(self, node: SchemaNode) -> Scope:
        """The scope inside `node`."""
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
        """The literal of a constant that is not an array or object; equal constants share one literal."""
        key = ("scalar", json_kind(value), value)
        found = self._literals.get(key)
        if found is None:
            found = self._literals[key] = self._add(Constant(value))
        return found

    def any_of(self, literals: Iterable[int]) -> int:
        """The literal that holds where at least one of `literals` does."""
        parts = tuple(sorted(set(literals) - {NEVER}))
        spend(1 + len(parts) // 4)
        if ALWAYS in parts:
            return ALWAYS
        if len(parts) < 2:
            return parts[0] if parts else NEVER
        found = self._literals.get(parts)
        if found is None:
            found = self._literals[parts] = self._add(AnyOf(parts))
        return found

    def _add(self, node: SchemaNode | Constant | AnyOf) -> int:
        spend(20)
        self._nodes.append(node)
        return 2 * len(self._nodes) - 1

    def node(self, literal: int) -> SchemaNode | Constant | AnyOf:
        """The subschema that a literal asserts or negates."""
        return self._nodes[literal >> 1]

    def only_types(self, literal: int) -> tuple[str, ...]:
        """The types of a subschema that constrains nothing else; () for any other literal. Up to draft 4, an
        integer is written without a fraction."""
        node = self._nodes[literal >> 1]
        if not literal & 1 or type(node) is not SchemaNode or len(node.items) != 1:
            return ()
        keyword, value = node.items[0]
        if keyword != "type":
            return ()
        types = (value,) if type(value) is str else _few_names(value)
        return () if "integer" in types and node.resource.draft <= 4 else types

    def unsupported(self, keyword: str, reason: str) -> Formula:
        """TRUE, with a warning if `unsupported` is "warn"; UnsupportedKeywordError if it is "error"."""
        if self._unsupported == "error":
            raise UnsupportedKeywordError(f"{keyword} is not supported here: {reason}")
        self.leave_out(keyword, reason)
        return TRUE

    def leave_out(self, keyword: str, reason: str) -> None:
        """Note that a keyword is not enforced."""
        text = f"{keyword} is not supported here: {reason}"
        if self._unsupported != "ignore":
            self.without_effect.add(text)
        self.unenforced[text] = None

    def _with_null(self, value: dict[str, Any]) -> dict[str, Any]:
        """What a schema with OpenAPI's `nullable` means: null is one of its types."""
        found = self._nullable.get(id(value))
        if found is None:
            types = value["type"] if isinstance(value["type"], list) else [value["type"]]
            rest = {k: v for k, v in value.items() if k != "nullable"}
            found = self._nullable[id(value)] = value, {**rest, "type": [*types, "null"]}
        return found[1]

    def formula(self, literal: int, kind: int) -> Formula:
        """The formula of a literal for the values of one type."""
        if literal <= ALWAYS:
            return TRUE if literal else FALSE
        key = literal, kind
        formula = self._formulas.get(key)
        if formula is None:
            if literal & 1:
                self.begin(key)
                try:
                    formula = self._positive(self._nodes[literal >> 1], kind)
                finally:
                    self.in_progress.discard(key)
            else:
                formula = negation(self.formula(literal | 1, kind))
            self.weigh(formula)
            self._formulas[key] = formula
        return formula

    def weigh(self, formula: Formula) -> int:
        """The number of assertions in a formula. Raises GrammarLimitError if there are too many."""
        found = weight(formula)
        spend(10)
        if found > MAX_WEIGHT:
            raise GrammarLimitError(f"a subschema leads to more than {MAX_WEIGHT} assertions about one value")
        return found

    def guarded(self, key: Any, find: Callable[[], Found]) -> Found:
        """The result of `find`.

        Raises GrammarError if computing it requires itself, GrammarLimitError if calls are nested too deeply.
        """
        self.begin(key)
        try:
            return find()
        finally:
            self.in_progress.discard(key)

    def begin(self, key: Any) -> None:
        """Record that `key` is being computed, or raise what `guarded` does."""
        if key in self.in_progress:
            raise GrammarError("a $ref leads back to itself without a property or an item in between")
        if len(self.in_progress) >= MAX_DEPTH:
            raise GrammarLimitError(f"subschemas of one value are nested more than {MAX_DEPTH} deep")
        self.in_progress.add(key)

    def _positive(self, node: SchemaNode | Constant | AnyOf, kind: int) -> Formula:
        if isinstance(node, AnyOf):
            return disjunction(self.formula(literal, kind) for literal in node.literals)
        if isinstance(node, Constant):
            return self._keywords["const"][1](self, SchemaNode({}, self.document.root, ()), node.value, kind)
        if kind & (OBJECT | ARRAY):
            for keyword, value in node.items:
                if _UNEVALUATED.get(keyword) == kind:
                    return self.assertion(node, keyword, value, kind)  # includes all the other keywords
        parts = [self.assertion(node, keyword, value, kind) for keyword, value in node.items]
        return parts[0] if len(parts) == 1 else conjunction(parts)

    def assertion(self, node: SchemaNode, keyword: str, value: Any, kind: int) -> Formula:
        """The formula of one keyword of a subschema."""
        kinds, handler = self._keywords[keyword]
        if not kinds & kind:
            return TRUE
        try:
            return handler(self, node, value, kind)
        except GrammarError as error:
            error.place = error.place or (node.value, keyword)
            raise

    def place(self, error: GrammarError, literals: Iterable[int]) -> None:
        """Say of an error that it is about one of the subschemas of some literals, if nothing else is known:
        the first with the keyword that the error begins with, or the first of all."""
        if error.place is not None:
            return
        values = [node.value for node in self.schemas(literals)]
        keyword = error.text.partition(" ")[0]
        named = next((value for value in values if keyword in value), None)
        if named is not None:
            error.place = named, keyword
        elif values:
            error.place = values[0], ""

    def schemas(self, literals: Iterable[int]) -> list[SchemaNode]:
        """The subschemas that some literals are about."""
        nodes = [self._nodes[literal >> 1] for literal in sorted(literals)]
        nodes += [self._nodes[one >> 1] for node in nodes if type(node) is AnyOf for one in node.literals]
        return [node for node in nodes if type(node) is SchemaNode and type(node.value) is dict]

    def reference(self, node: SchemaNode, value: Any) -> int:
        """The literal of the target of `$ref`."""
        target, resource = self.document.resolve(value, node.resource)
        return self.literal(target, resource, self.entered(node))

    def dynamic_reference(self, node: SchemaNode, value: Any) -> int:
        """The literal of the target of `$dynamicRef`: the outermost anchor of that name in scope."""
        target, resource = self.document.resolve(value, node.resource, "$dynamicRef")
        name = value.partition("#")[2]
        if self.document.anchors(resource).get(name) is target:
            return self._outermost(name, node, resource)
        return self.literal(target, resource, self.entered(node))

    def recursive_reference(self, node: SchemaNode, value: Any) -> int:
        """The literal of the target of `$recursiveRef`."""
        target, resource = self.document.resolve(value, node.resource, "$recursiveRef")
        if self.document.anchors(resource).get("") is target:
            return self._outermost("", node, resource)
        return self.literal(target, resource, self.entered(node))

    def _outermost(self, name: str, node: SchemaNode, resource: Resource) -> int:
        """The literal of the outermost anchor of that name in scope, or of that in `resource`."""
        scope = self.entered(node)
        spend(2 * len(scope))
        resource = next((one for one in scope if name in self.document.anchors(one)), resource)
        return self.literal(self.document.anchors(resource)[name], resource, scope)

    def impossible(self, literals: Iterable[int]) -> bool:
        """Whether obviously no value satisfies all of the literals."""
        key = frozenset(literals)
        found = self._impossible.get(key)
        if found is None:
            spend(10 + 4 * len(key))
            found = self._impossible[key] = self._is_impossible(key)
        return found

    def _is_impossible(self, literals: frozenset[int]) -> bool:
        outline = outline_intersection(map(self.outlines.of, literals))
        kinds = possible_kinds(outline)
        if kinds != STRING or outline.allowed is None or len(literals) < 2:
            return kinds == 0
        rest = [text for text in outline.allowed - outline.excluded if isinstance(text, str)]
        if len(rest) > _MAX_CHECKED_CONSTANTS:
            return False
        formula = conjunction(self.formula(literal, STRING) for literal in literals)
        return not any(holds(formula, text) for text in rest)


def _is_another(keyword: str, value: Any) -> bool:
    """Whether a subschema that has this keyword alone means the same as another one."""
    return keyword == "$ref" or (keyword in COMBINED and type(value) is list and len(value) == 1)


def _few_names(value: Any) -> tuple[str, ...]:
    """The names in a list of no more than there are types; () for anything else."""
    return tuple(value) if len(value) <= _MOST_TYPES else ()
