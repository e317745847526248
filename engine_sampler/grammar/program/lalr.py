"""The tables of an LALR parser with one lexer per state, as integers: `Rules.parser`.

    number of states, number of rules, first state
    for each rule: the number of its left side, the length of its right side
    number of lists of actions; for each: count, then pairs (terminal, action): shift to the state `action`,
        or reduce the rule -1 - action
    number of lexers; for each: count, then pairs (terminal, kind), in the order in which it tries them
    for each state:
        the number of its list of actions
        count, then pairs (left side, state)
        the action at the end of the text: ACCEPT, NOTHING, or -1 - the rule to reduce
        the number of its lexer

A lexer tries its terminals in order and reads the longest match of the first one that matches. An entry
of kind KEYWORD is a keyword of the next entry that is not one: if the lexer reads that entry and its
whole text is the keyword, it has read the keyword (the first one that fits). Text read by an entry of
kind IGNORED is discarded. Special tokens are not text: they have actions but no entries. A state that
the parser never enters directly after a terminal needs no lexer.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple, TypeVar

from ..errors import GrammarError

ACCEPT, NOTHING = 1 << 30, 1 << 29
KEYWORD, IGNORED = 1, 2

Pairs = list[tuple[int, int]]


_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")


def once(function: Callable[[_Argument], _Result]) -> Callable[[_Argument], _Result]:
    """`function`, called once for each object, however many states share that."""
    known: dict[int, tuple[_Argument, _Result]] = {}

    def result(argument: _Argument) -> _Result:
        found = known.get(id(argument))
        if found is None:
            found = known[id(argument)] = argument, function(argument)
        return found[1]

    return result


class LalrState(NamedTuple):
    """A state of the parser; see the module. Many states may have the same lists."""

    actions: Pairs
    gotos: Pairs
    end: int
    entries: Pairs


class Parser(NamedTuple):
    """A parser: the left side and the length of the right side of each rule, the states, the first state."""

    rules: Pairs
    states: list[LalrState]
    first: int


def encoded(parser: Parser) -> array[int]:
    """The parser as integers."""
    code = array("i", (len(parser.states), len(parser.rules), parser.first))
    for rule in parser.rules:
        code.extend(rule)
    actions = _append_lists(code, [state.actions for state in parser.states])
    lexers = _append_lists(code, [state.entries for state in parser.states])
    for state, actions_of, lexer in zip(parser.states, actions, lexers, strict=True):
        code.append(actions_of)
        _append(code, state.gotos)
        code.extend((state.end, lexer))
    return code


def _append_lists(code: array[int], lists: Sequence[Pairs]) -> list[int]:
    """Append the lists, equal ones once. Returns the number of each."""
    numbers: dict[tuple[tuple[int, int], ...], int] = {}

    @once
    def number_of(pairs: Pairs) -> int:
        return numbers.setdefault(tuple(pairs), len(numbers))

    found = list(map(number_of, lists))
    code.append(len(numbers))
    for pairs in numbers:
        _append(code, pairs)
    return found


def _append(code: array[int], pairs: Sequence[tuple[int, int]]) -> None:
    code.append(len(pairs))
    code.frombytes(struct.pack(f"{2 * len(pairs)}i", *chain.from_iterable(pairs)))  # faster than `extend`


def decoded(code: Sequence[int]) -> Parser:
    """The parser that `encoded` wrote. Raises GrammarError if there are too few or too many integers."""
    numbers = iter(code)
    try:
        count, rule_count, first = _take(numbers, 3)
        rules = _pairs(numbers, rule_count)
        actions, lexers = _lists(numbers), _lists(numbers)
        parser = Parser(rules, [_state(numbers, actions, lexers) for _ in range(count)], first)
    except (StopIteration, IndexError):
        raise GrammarError("the tables of the parser are too short") from None
    if next(numbers, None) is not None:
        raise GrammarError("the tables of the parser are too long")
    return parser


def _take(numbers: Iterator[int], count: int) -> list[int]:
    taken = []
    for _ in range(count):
        taken.append(next(numbers))
    return taken


def _pairs(numbers: Iterator[int], count: int) -> Pairs:
    flat = _take(numbers, 2 * count)
    return list(zip(flat[::2], flat[1::2], strict=True))


def _lists(numbers: Iterator[int]) -> list[Pairs]:
    return [_pairs(numbers, next(numbers)) for _ in range(next(numbers))]


def _state(numbers: Iterator[int], actions: Sequence[Pairs], lexers: Sequence[Pairs]) -> LalrState:
    actions_of = actions[next(numbers)]
    gotos = _pairs(numbers, next(numbers))
    end, lexer = _take(numbers, 2)
    return LalrState(actions_of, gotos, end, lexers[lexer])
