"""Lazy terminals: they end as early as they can, and where they may begin, no terminal reads past that end.

A lazy terminal keeps only those of its texts that have no shorter one as a prefix. And wherever it may
begin, every other terminal is guarded: it cannot be read where a text of the lazy one begins, even if that
text would reach beyond its end. So free text ends at the first trigger, and the trigger counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..program.expression import (
    ANY_BYTE,
    ANYTHING,
    EPSILON,
    Expression,
    concat,
    guard,
    nullable,
    union,
    without,
)
from ..program.rules import Body
from .dead_ends.follow_sets import FollowSets

_MORE = concat(ANY_BYTE, ANYTHING)


def prefix_free(expression: Expression) -> Expression:
    """The texts of `expression` that have no other one of them as a prefix."""
    return EPSILON if nullable(expression) else without(expression, concat(expression, _MORE))


def guarded_terminals(
    start: int,
    bodies: Mapping[int, Body],
    terminals: Mapping[int, Expression],
    lazy: Collection[int],
    ends: Mapping[int, tuple[int, Expression]],
) -> dict[int, Expression]:
    """New expressions for the terminals that may begin where a lazy one may.

    bodies     the body of each rule; a rule without one counts as a terminal
    terminals  the expression of each terminal
    lazy       the lazy terminals; one that matches the empty text has no effect on others
    ends       for a lazy terminal that is only the text before an end: the terminal of that end, which
               follows it alone, and the expression of both: one object for all those of one rule
    """
    wholes = {**terminals, **{symbol: whole for symbol, (_, whole) in ends.items()}}
    empty = {symbol for symbol, expression in terminals.items() if nullable(expression)}
    triggers = {symbol for symbol in lazy if not nullable(wholes[symbol])}
    own = {end: {one for one in ends if ends[one][1] is whole} for end, whole in ends.values()}
    rivals: dict[int, set[int]] = {}
    for candidates in FollowSets(bodies, empty).candidates(start):
        for symbol in candidates & terminals.keys():
            rivals.setdefault(symbol, set()).update((candidates & triggers) - own.get(symbol, set()))
    texts: dict[frozenset[int], tuple[Expression, Expression]] = {}
    changed = {}
    for symbol, others in rivals.items():
        if others - {symbol}:
            key = frozenset(others)
            if key not in texts:
                ended = union(*(wholes[other] for other in sorted(key)))
                texts[key] = ended, concat(ended, _MORE)
            ended, longer = texts[key]
            whole = terminals[symbol]
            changed[symbol] = without(whole, longer) if symbol in triggers else guard(whole, ended)
    return changed
