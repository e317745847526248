"""The items of a parsed pattern, see `parsing`: alternatives joined, groups unwrapped, their widths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ..work import spend

Item: TypeAlias = "tuple[str, Any]"
"""A part of a pattern: its kind, and what it is made of."""

Items: TypeAlias = "list[Item]"

LITERAL, NOT_LITERAL, ANY, CLASS, AT = "literal", "not literal", "any", "class", "at"
RANGE, CATEGORY, NEGATED = "range", "category", "negated"
GROUP, BRANCH, REPEAT, LAZY_REPEAT = "group", "branch", "repeat", "lazy repeat"
ASSERT, ASSERT_NOT = "assert", "assert not"

PLAIN = "plain"
"""A group without effect but on what repetitions refer to; its items take its place."""

MAX_WIDTH = 1 << 64
"""The greatest width, which stands for no bound."""

_SHARED = (LITERAL, NOT_LITERAL, ANY, CLASS, AT)
"""Items that alternatives may share as their beginning."""
_COPIED_PER_STEP = 128


class PatternError(Exception):
    """A pattern cannot be read: the reason, and the position in it."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason)
        self.position = position


def malformed(reason: str, position: int) -> PatternError:
    """The error that a pattern breaks the rules of the syntax."""
    return PatternError(f"not a regular expression: {reason}", position)


def unmatchable(what: str, position: int) -> PatternError:
    """The error that no automaton can match a part of a pattern."""
    return PatternError(f"{what} cannot be matched token by token", position)


def unwrapped(items: Items) -> Items:
    """The items with those of groups without effect in their place."""
    if not any(kind == PLAIN for kind, _ in items):
        return items
    if len(items) == 1:
        inside: Items = items[0][1]
        return inside
    found: Items = []
    for kind, value in items:
        found += value if kind == PLAIN else ((kind, value),)
    spend(len(found) // _COPIED_PER_STEP)
    return found


def one_of(options: Sequence[Items]) -> Items:
    """One of the alternatives, behind what all of them begin with."""
    if len(options) == 1:
        return options[0]
    same = _shared(options)
    rests = [option[same:] for option in options]
    spend(sum(map(len, rests)) // _COPIED_PER_STEP)
    members: dict[Item, None] = {}
    for rest in rests:
        if len(rest) != 1 or not _is_set(rest[0]):
            return [*options[0][:same], (BRANCH, rests)]
        members |= dict.fromkeys(rest[0][1] if rest[0][0] == CLASS else rest)
    return [*options[0][:same], (CLASS, tuple(members))]


def _shared(options: Sequence[Items]) -> int:
    """How many items all alternatives begin with."""
    first, same = options[0], 0
    while same < len(first) and first[same][0] in _SHARED:
        spend(1 + len(options) // _COPIED_PER_STEP)
        if any(len(option) <= same or option[same] != first[same] for option in options):
            break
        same += 1
    return same


def _is_set(item: Item) -> bool:
    """Whether an item is a character or a class that is not negated."""
    kind, value = item
    return kind == LITERAL or (kind == CLASS and value[0][0] != NEGATED)


def width(items: Items) -> tuple[int, int]:
    """The least and the greatest number of characters that items match, lookarounds without any; at most
    `MAX_WIDTH`. Lark sorts terminals by what Python computes for them, which is the same from 3.12 on."""
    spend(1 + len(items) // 4)
    least = most = 0
    for item in items:
        low, high = _width_of(*item)
        least += low
        most += high
    return min(least, MAX_WIDTH), min(most, MAX_WIDTH)


def _width_of(kind: str, value: Any) -> tuple[int, int]:
    if kind == GROUP:
        return width(value[-1])
    if kind == BRANCH:
        widths = list(map(width, value))
        return min(low for low, _ in widths), max(high for _, high in widths)
    if kind in (REPEAT, LAZY_REPEAT):
        least, most, items = value
        low, high = width(items)
        return low * least, high and (MAX_WIDTH if most is None else high * most)
    return (0, 0) if kind in (AT, ASSERT, ASSERT_NOT) else (1, 1)


def nests_lookarounds(items: Items, within: bool = False) -> bool:
    """Whether a lookahead contains an anchor or a lookaround.

    within   whether the items are in a lookahead themselves
    """
    for kind, value in items:
        if kind in (AT, ASSERT, ASSERT_NOT):
            if within or (kind != AT and value[0] and nests_lookarounds(value[1], True)):
                return True
        elif kind in (GROUP, REPEAT, LAZY_REPEAT):
            if nests_lookarounds(value[-1], within):
                return True
        elif kind == BRANCH and any(nests_lookarounds(option, within) for option in value):
            return True
    return False
