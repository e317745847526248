"""Ignored text that leads nowhere: a comment up to the end of its line, where no line may end.

Ignored text takes its longest match, so what follows it must begin with a byte that does not continue it.
Where nothing of that kind is expected, the ignored text must not begin, or no text would ever be finished.

So for an Earley parser, `move_ignored_into_rules` makes such ignored terminals parts of the rules, right
before the terminals that may follow them, and at the end of the text. Only the first byte of what follows is
considered, look-aheads are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from ...derivatives.states import State, states_of, texts_between
from ...program.byte_sets import any_of
from ...program.expression import (
    ALL_BYTES,
    EPSILON,
    Expression,
    concat,
    guard,
    nullable,
    union,
)
from ...program.reaching import nodes_reaching
from ...program.rules import ACCEPT, Edge, Rules, alternatives, repeated, sequence
from ...work import spend
from .terminal_states import MAX_STATES, TerminalStates

_CACHED = 64


class Ending(NamedTuple):
    """A way in which an ignored terminal ends.

    texts      the texts that end so
    final      the same, where no longer match of the terminal follows
    first      the bytes that they begin with, as a mask
    following  the bytes that may follow them
    """

    texts: Expression
    final: Expression
    first: int
    following: int


@lru_cache(_CACHED)
def endings(ignored: Expression) -> tuple[Ending, ...]:
    """The ways in which an ignored terminal ends; none if it has too many states to tell."""
    states = states_of(ignored, MAX_STATES)
    if states is None:
        return ()
    groups: dict[int, list[int]] = {}
    for number, (accepts, steps) in enumerate(states):
        if accepts:
            taken = any_of(mask for mask, target in steps if states[target][0])
            groups.setdefault(ALL_BYTES & ~taken, []).append(number)
    grouped = []
    for following, group in groups.items():
        texts = [texts_between(states, 0, (number,)) for number in group]
        final = [concat(text, _no_longer(states, number)) for text, number in zip(texts, group, strict=True)]
        first = _reaching(states, group)
        grouped.append(Ending(union(*texts), union(*final), first, following))
    return tuple(grouped)


def _reaching(states: Sequence[State], ends: Iterable[int]) -> int:
    """The bytes that lead from the first state towards one of `ends`."""
    steps = ((number, target) for number, (_, steps) in enumerate(states) for _, target in steps)
    alive = nodes_reaching(steps, ends)
    return any_of(mask for mask, target in states[0][1] if target in alive)


def _no_longer(states: Sequence[State], end: int) -> Expression:
    """Nothing, where no longer match follows a text that ends in the state `end`."""
    accepting = [number for number, (accepts, _) in enumerate(states) if accepts]
    return guard(EPSILON, texts_between(states, end, accepting)) if states[end][1] else EPSILON


def _closure(following: int, others: Iterable[Ending]) -> int:
    """The bytes of `following`, and those that may follow after more ignored text."""
    others = list(others)
    while True:
        spend(1 + len(others) // 6)
        more = any_of(other.following for other in others if other.first & following)
        if not more & ~following:
            return following
        following |= more


def move_ignored_into_rules(rules: Rules, terminals: TerminalStates) -> bool:
    """Make ignored terminals that some terminal cannot follow parts of the rules. Returns whether there are
    any.

    terminals  their states
    """
    if not rules.ignore:
        return False

    def beginnings(symbol: int) -> int:
        """The first bytes of a terminal; all for one that may be empty, and for special tokens."""
        expression = rules.expressions[symbol]
        return ALL_BYTES if expression is None or nullable(expression) else terminals.first(symbol)

    expected = {edge.symbol for states in rules.automata() for edges in states for edge in edges} - {ACCEPT}
    first = {symbol: beginnings(symbol) for symbol in expected if symbol >= 0}
    ways = {symbol: endings(rules.expressions[symbol] or EPSILON) for symbol in rules.ignore}
    every = [way for some in ways.values() for way in some]
    kept: list[int] = []
    others: list[Ending] = []
    for symbol, some in ways.items():
        reached = [_closure(way.following, every) for way in some]
        if all(mask & one for mask in reached for one in first.values()):
            kept.append(symbol)
        else:
            others += some
    if not others:
        return False
    rules.ignore = kept
    free = [way for symbol in kept for way in ways[symbol]]
    others = [way._replace(following=_closure(way.following, free)) for way in others]
    symbols = [rules.terminal("IGNORED", way.final, shared=False) for way in others]
    rules.skipped.update(symbols)
    for states in rules.automata():
        for edges in list(states):
            _add_before(states, edges, symbols, others, first)
    whole = rules.rule("text")
    rules.define(whole, sequence(rules.start, repeated(alternatives(*symbols))))
    rules.start = whole
    return True


def _add_before(
    states: list[list[Edge]],
    edges: list[Edge],
    symbols: Sequence[int],
    ways: Sequence[Ending],
    first: dict[int, int],
) -> None:
    """Let `ways` precede the terminals of a state that may follow them."""
    terminals = [edge for edge in edges if edge.symbol >= 0]
    spend(2 * len(terminals) * len(ways))
    after = [[edge for edge in terminals if first[edge.symbol] & way.following] for way in ways]
    useful = {number for number, some in enumerate(after) if some}
    while more := {
        number
        for number, way in enumerate(ways)
        if number not in useful and any(ways[other].first & way.following for other in useful)
    }:
        useful |= more
    targets = {number: len(states) + index for index, number in enumerate(sorted(useful))}
    for number in sorted(useful):
        following = ways[number].following
        others = [other for other in targets if ways[other].first & following]
        states.append(after[number] + [Edge(symbols[other], targets[other]) for other in others])
    edges += [Edge(symbols[number], target) for number, target in targets.items()]
