"""Loads a program's expressions into the tables."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import GrammarError
from ..program.expression import (
    BOTH,
    CLASS,
    CONCAT,
    GUARD,
    LITERAL,
    NOT,
    REPEAT,
    UNION,
    CodeNode,
    Encoder,
    Expression,
    nodes_of,
)
from ..work import spend
from .expressions import Expressions


def number_of(x: Expressions, expression: Expression, *, is_counted: bool = False) -> int:
    """The number of an expression; `is_counted`: what it takes to load it is work of reading a grammar."""
    encoder = Encoder()
    root = encoder.add(expression)
    if is_counted:
        spend(1 + len(encoder.code) // 4)
    return numbers_of(x, encoder.code)[root]


def numbers_of(x: Expressions, code: Sequence[int]) -> list[int]:
    """The numbers of the expressions that an `Encoder` has written."""
    numbers: list[int] = []
    for node in nodes_of(code):
        numbers.append(_number(x, node, [numbers[part] for part in node.parts]))
    return numbers


def _number(x: Expressions, node: CodeNode, parts: list[int]) -> int:
    kind, value = node.kind, node.value
    if kind == LITERAL:
        return x.literal(value)
    if kind == CLASS:
        return x.byte_class(value)
    if kind == CONCAT:
        return x.concat(*parts)
    if kind == UNION:
        return x.union(parts)
    if kind == BOTH:
        return x.both(parts)
    if kind == REPEAT:
        return x.repeat(*parts, *value)
    if kind not in (NOT, GUARD):
        return x.automaton(value)
    if x.guarded[parts[-1]]:
        raise GrammarError("an excluded expression cannot contain a look-ahead")
    return x.complement(*parts) if kind == NOT else x.guard(*parts)
