"""Terminals that rules use alike, such as the keywords of `word: NAME | "if" | "else" | ...`.

Wherever one of them may come, so may the others, and what comes after them is the same. The LALR states of a
grammar in which one terminal stands for all of these, each of whose shifts and look-aheads then counts for
all, are those of the whole grammar with equal ones united: a thousand keywords that are read in any order
would have as many states, in each of which a rule ends before each of them.

That holds because no rule contains two of them. So what rules in progress have read of them is one terminal,
at one place in the text, and no state before it depends on which one that is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..work import spend

MAX_SYMBOLS = 16
"""The most symbols of a rule whose terminals are compared with others."""

_Rule = tuple[int, tuple[int, ...]]


def alike(rules: Sequence[_Rule], kinds: Sequence[Any]) -> dict[int, list[int]]:
    """The terminals that rules use alike, ascending, by the first of them; each terminal is in one list.

    rules  the left side and the right side of each; terminals are numbers from 0 on, left sides are below
    kinds  what else must be equal about rules for their terminals to be alike
    """
    uses: dict[int, set[object]] = {}
    for number, ((left, right), kind) in enumerate(zip(rules, kinds, strict=True)):
        compared = len(right) <= MAX_SYMBOLS
        spend(len(right) // 4)
        for place, symbol in enumerate(right):
            if symbol >= 0:
                use = (left, right[:place], right[place + 1 :], kind) if compared else number
                uses.setdefault(symbol, set()).add(use)
    groups: dict[frozenset[object], list[int]] = {}
    for symbol in sorted(uses):
        groups.setdefault(frozenset(uses[symbol]), []).append(symbol)
    found = {group[0]: group for group in groups.values()}
    for first in _twice(rules, {symbol: group[0] for group in groups.values() for symbol in group[1:]}):
        found |= {symbol: [symbol] for symbol in found[first]}
    return found


def _twice(rules: Sequence[_Rule], first: Mapping[int, int]) -> set[int]:
    """The terminals that stand for two in one rule. `first`: for those that are not first, which is."""
    doubled: set[int] = set()
    for _, right in rules if first else ():
        if len(right) > 1:
            symbols = [first.get(symbol, symbol) for symbol in right]
            if len(set(symbols)) < len(symbols):
                doubled.update(one for one, count in Counter(symbols).items() if one >= 0 and count > 1)
    return doubled
