"""`unevaluatedProperties` and `unevaluatedItems`: members that no other subschema evaluates.

A schema may hold in several ways, for example by different branches of its `anyOf`. Each case (an entry of
`Cases`) is a formula, and what is evaluated if the formula is true. A case that counts fewer branches than
are true evaluates less and so allows less. Hence all cases together allow exactly what the standard allows,
and no case has to assert that other branches are false (except for `oneOf` and `if`, which do so anyway).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ...errors import GrammarLimitError
from ...work import spend
from ..alternatives.clauses import exclusive
from ..document import SchemaNode
from ..formula import (
    ALL,
    ALWAYS,
    FALSE,
    FROM,
    HAS,
    NEVER,
    NOT,
    PATTERN,
    TRUE,
    WITHIN,
    Formula,
    conjunction,
    disjunction,
    negation,
    size,
)
from ..nodes import Expander, Handler
from ..outlines import ARRAY, OBJECT
from .arrays import prefix_length

MAX_CASES = 64
"""Maximum number of cases in which one schema with unevaluatedProperties or unevaluatedItems may hold."""


class Evaluated(NamedTuple):
    """The evaluated members: names and patterns of keys; leading items, and items that satisfy a literal."""

    names: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    items: int = 0
    contained: frozenset[int] = frozenset()
    everything: bool = False

    def joined(self, other: Evaluated) -> Evaluated:
        """The members that either evaluates."""
        spend(10 + (len(self.names) + len(other.names)) // 8 + len(self.contained) + len(other.contained))
        return Evaluated(
            self.names | other.names,
            self.patterns | other.patterns,
            max(self.items, other.items),
            self.contained | other.contained,
            self.everything or other.everything,
        )


Cases = dict[Evaluated, Formula]

_NOTHING = Evaluated()
_EVERYTHING = Evaluated(everything=True)


def _unevaluated_properties(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    literal = expander.child(node, value)
    return disjunction(
        conjunction([formula, _other_keys(evaluated, literal)])
        for evaluated, formula in _own_cases(expander, node, kind).items()
    )


def _other_keys(evaluated: Evaluated, literal: int) -> Formula:
    if evaluated.everything or literal == ALWAYS:
        return TRUE
    keys: list[Formula] = [(NOT, (PATTERN, pattern)) for pattern in sorted(evaluated.patterns)]
    return (ALL, conjunction([(NOT, (WITHIN, evaluated.names)), *keys]), literal)


def _unevaluated_items(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Formula:
    literal = expander.child(node, value)
    return disjunction(
        conjunction([formula, _other_items(expander, evaluated, literal)])
        for evaluated, formula in _own_cases(expander, node, kind).items()
    )


def _other_items(expander: Expander, evaluated: Evaluated, literal: int) -> Formula:
    either = expander.any_of([literal, *evaluated.contained])
    if evaluated.everything or either == ALWAYS:
        return TRUE
    return size(0, evaluated.items) if either == NEVER else (FROM, evaluated.items, either)


UNEVALUATED_KEYWORDS: dict[str, tuple[int, Handler]] = {
    "unevaluatedProperties": (OBJECT, _unevaluated_properties),
    "unevaluatedItems": (ARRAY, _unevaluated_items),
}


def _own_cases(expander: Expander, node: SchemaNode, kind: int) -> Cases:
    """The cases of a schema without its own unevaluated... keyword."""
    cases: Cases = {_NOTHING: TRUE}
    for keyword, value in node.items:
        if keyword in UNEVALUATED_KEYWORDS or cases == {}:
            continue
        branching = _BRANCHING.get(keyword)
        if branching is not None:
            cases = _product(cases, branching(expander, node, value, kind))
            continue
        formula = expander.assertion(node, keyword, value, kind)
        cases = _product(cases, {_evaluated(expander, node, keyword, value, kind): formula})
    return cases


def _evaluated(expander: Expander, node: SchemaNode, keyword: str, value: Any, kind: int) -> Evaluated:
    if kind == OBJECT:
        if keyword == "properties":
            return Evaluated(names=frozenset(value))
        if keyword == "patternProperties":
            return Evaluated(patterns=frozenset(value))
        return _EVERYTHING if keyword == "additionalProperties" else _NOTHING
    if keyword == "prefixItems" or (keyword == "items" and isinstance(value, list)):
        return Evaluated(items=prefix_length(node))
    if keyword == "additionalItems" and not isinstance(node.value.get("items"), list):
        return _NOTHING
    if keyword == "contains" and node.resource.draft >= 2020:
        return Evaluated(contained=frozenset([expander.child(node, value)]))
    return _EVERYTHING if keyword in ("items", "additionalItems") else _NOTHING


def _cases(expander: Expander, literal: int, kind: int) -> Cases:
    """The cases of a literal."""
    node = expander.node(literal)
    if not literal & 1 or not isinstance(node, SchemaNode) or node.value is True:
        return {_NOTHING: expander.formula(literal, kind)}
    keyword = "unevaluatedProperties" if kind == OBJECT else "unevaluatedItems"
    if keyword in node.value:
        return {_EVERYTHING: expander.formula(literal, kind)}
    return expander.guarded(("cases", literal, kind), lambda: _own_cases(expander, node, kind))


def _product(first: Cases, second: Cases) -> Cases:
    found: dict[Evaluated, list[Formula]] = {}
    for one, formula in first.items():
        for other, condition in second.items():
            found.setdefault(one.joined(other), []).append(conjunction([formula, condition]))
    return _limited({evaluated: disjunction(parts) for evaluated, parts in found.items()})


def _sum(many: Iterable[Cases]) -> Cases:
    found: dict[Evaluated, list[Formula]] = {}
    for cases in many:
        for evaluated, formula in cases.items():
            found.setdefault(evaluated, []).append(formula)
    return _limited({evaluated: disjunction(parts) for evaluated, parts in found.items()})


def _limited(cases: Cases) -> Cases:
    cases = {evaluated: formula for evaluated, formula in cases.items() if formula != FALSE}
    if len(cases) > MAX_CASES:
        raise GrammarLimitError(
            f"unevaluatedProperties or unevaluatedItems lead to more than {MAX_CASES} combinations"
        )
    return cases


def _all_of(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Cases:
    cases: Cases = {_NOTHING: TRUE}
    for part in value:
        cases = _product(cases, _cases(expander, expander.child(node, part), kind))
    return cases


def _any_of(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Cases:
    none: Cases = {_NOTHING: TRUE}
    some: Cases = {}
    for part in value:
        branch = _cases(expander, expander.child(node, part), kind)
        some = _sum([some, branch, _product(some, branch)])
        none = {}
    return some or none


def _one_of(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Cases:
    literals = [expander.child(node, part) for part in value]
    parts = exclusive(expander, [expander.formula(literal, kind) for literal in literals], kind)
    return _sum(
        _product(_cases(expander, literal, kind), {_NOTHING: part})
        for literal, part in zip(literals, parts, strict=True)
    )


def _reference(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Cases:
    return _cases(expander, expander.reference(node, value), kind)


def _dynamic_reference(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Cases:
    return _cases(expander, expander.dynamic_reference(node, value), kind)


def _recursive_reference(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Cases:
    return _cases(expander, expander.recursive_reference(node, value), kind)


def _if(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Cases:
    condition = expander.child(node, value)
    then = _cases(expander, expander.child(node, node.value.get("then", True)), kind)
    otherwise = _cases(expander, expander.child(node, node.value.get("else", True)), kind)
    fails: Cases = {_NOTHING: negation(expander.formula(condition, kind))}
    return _sum([_product(_cases(expander, condition, kind), then), _product(fails, otherwise)])


def _dependent_schemas(expander: Expander, node: SchemaNode, value: Any, kind: int) -> Cases:
    cases: Cases = {_NOTHING: TRUE}
    if kind != OBJECT:
        return cases
    for name, part in value.items():
        present = _product({_NOTHING: (HAS, name, True)}, _cases(expander, expander.child(node, part), kind))
        cases = _product(cases, _sum([{_NOTHING: (HAS, name, False)}, present]))
    return cases


_BRANCHING: dict[str, Callable[[Expander, SchemaNode, Any, int], Cases]] = {
    "$ref": _reference,
    "$dynamicRef": _dynamic_reference,
    "$recursiveRef": _recursive_reference,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "if": _if,
    "dependentSchemas": _dependent_schemas,
}
