"""The tables of an LALR parser with a lexer for each of its states, as integers: `Rules.parser`.

    number of states, number of rules, first state
    of each rule: the number of its left side, the length of its right side
    of each state:
        count, then (terminal, action) each: shift to the state `action`, or reduce the rule -1 - action
        count, then (left side, state) each
        what happens at the end of the text: ACCEPT, NOTHING, or reduce the rule -1 - this
        count, then (terminal, kind) each, in the order in which the lexer tries them

A lexer tries its terminals in order: the first that matches is read, as far as it can be. An entry of
the kind KEYWORD is one of the next entry that is none: if that is read and all of its text is the
keyword, the keyword has been read (the first such one). What an entry of the kind IGNORED reads is
forgotten. Special tokens are no text: they have actions and no entries. A state that is never first
after a terminal needs no lexer.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..errors import GrammarError

ACCEPT, NOTHING = 1 << 30, 1 << 29
KEYWORD, IGNORED = 1, 2

Pairs = list[tuple[int, int]]


class State(NamedTuple):
    """A state of the parser, see above."""

    actions: Pairs
    gotos: Pairs
    end: int
    entries: Pairs


class Parser(NamedTuple):
    """A parser: of each rule its left side and the length of its right side, the states, the first one."""

    rules: Pairs
    states: list[State]
    first: int


def encoded(parser: Parser) -> array[int]:
    """The parser as integers."""
    code = array("i", (len(parser.states), len(parser.rules), parser.first))
    for rule in parser.rules:
        code.extend(rule)
    for state in parser.states:
        _append(code, state.actions)
        _append(code, state.gotos)
        code.append(state.end)
        _append(code, state.entries)
    return code


def _append(code: array[int], pairs: Pairs) -> None:
    code.append(len(pairs))
    for pair in pairs:
        code.extend(pair)


def decoded(code: Sequence[int]) -> Parser:
    """The parser that `encoded` wrote. Raises GrammarError if integers are missing, or too many."""
    numbers = iter(code)
    try:
        states, rules, first = _several(numbers, 3)
        parser = Parser(_pairs(numbers, rules), [_state(numbers) for _ in range(states)], first)
    except StopIteration:
        raise GrammarError("the tables of the parser are too short") from None
    if next(numbers, None) is not None:
        raise GrammarError("the tables of the parser are too long")
    return parser


def _several(numbers: Iterator[int], count: int) -> list[int]:
    found = []
    for _ in range(count):
        found.append(next(numbers))
    return found


def _pairs(numbers: Iterator[int], count: int) -> Pairs:
    flat = _several(numbers, 2 * count)
    return list(zip(flat[::2], flat[1::2], strict=True))


def _state(numbers: Iterator[int]) -> State:
    actions = _pairs(numbers, next(numbers))
    gotos = _pairs(numbers, next(numbers))
    end = next(numbers)
    return State(actions, gotos, end, _pairs(numbers, next(numbers)))
