r"""What a pattern says about the text before it, decided by what is known about that text.

`^`, `\b` and lookbehinds at the beginning of a terminal look at the characters before it. If these all
satisfy such a condition, it can be left out; if none does, nothing matches there.
"""

from __future__ import annotations

from collections.abc import Sequence as Listed
from contextlib import suppress
from typing import NamedTuple

from ..errors import GrammarError
from ..program.unicode import EVERY, Ranges, invert, overlap, ranges
from ..work import spend
from .tree import (
    FAILURE,
    Choice,
    Lookaround,
    Node,
    Repeat,
    Sequence,
    Set,
    choice,
    lookaround,
    repeat,
    sequence,
)


class TextBeforeError(GrammarError):
    """Whether a pattern matches depends on text before it that is not known."""


class Before(NamedTuple):
    """What may stand right before a pattern: characters of a set, the beginning of the text, or both.

    is_any   conditions at the beginning are left out, whatever they are, and all others if one of these
             depends on the text before: at least what the pattern may match
    """

    last: Ranges = EVERY
    begins: bool = True
    is_any: bool = False


UNKNOWN = Before()
ANY_TEXT = Before(is_any=True)
TEXT_BEGIN = Before(last=())


def decided(node: Node, before: Before) -> Node:
    """The pattern without conditions on the text before it.

    Raises TextBeforeError where that text satisfies them or not.
    """
    if not node.has_lookaround:
        return node
    spend()
    if isinstance(node, Choice):
        options = [decided(item, before) for item in node.items]
        return choice(option for option in options if not _is_failure(option))
    if isinstance(node, Repeat):
        return repeat(decided(node.item, before), node.low, 1, node.reluctant) if node.high == 1 else node
    if isinstance(node, Lookaround):
        return node if node.ahead else _condition(node, before)
    assert isinstance(node, Sequence)
    items = list(node.items)
    for number, item in enumerate(items):
        items[number] = decided(item, before)
        if _is_failure(items[number]):
            return FAILURE
        if item.longest != 0:
            break
    return sequence(items)


def decided_within(node: Node) -> Node:
    r"""The pattern without conditions on the text before them that the pattern decides: in `if\b` the `\b` is
    `(?!\w)`."""
    if not node.has_lookaround:
        return node
    spend()
    if isinstance(node, Choice):
        return choice(map(decided_within, node.items))
    if isinstance(node, Repeat):
        return repeat(decided_within(node.item), node.low, node.high, node.reluctant)
    if isinstance(node, Lookaround):
        return lookaround(decided_within(node.item), node.ahead, node.negative) if node.ahead else node
    assert isinstance(node, Sequence)
    items = list(map(decided_within, node.items))
    for number, item in enumerate(items):
        last = _last(items[:number]) if item.has_lookaround else None
        if last is not None:
            with suppress(TextBeforeError):
                items[number] = decided(item, Before(last, begins=False))
    return sequence(items)


def _last(items: Listed[Node]) -> Ranges | None:
    """The characters that items in a row end with; None if they may be empty."""
    found: list[tuple[int, int]] = []
    for item in reversed(items):
        spend()
        found += _ends(item)
        if item.shortest:
            return ranges(found)
    return None


def _ends(node: Node) -> Ranges:
    """The characters that a match of the node that is not empty may end with."""
    if isinstance(node, Set):
        return node.ranges
    if isinstance(node, Repeat):
        return _ends(node.item) if node.high != 0 else ()
    if isinstance(node, Choice):
        return tuple(piece for item in node.items for piece in _ends(item))
    found: list[tuple[int, int]] = []
    for item in reversed(node.items) if isinstance(node, Sequence) else ():
        found += _ends(item)
        if item.shortest:
            break
    return tuple(found)


def without_lookarounds(node: Node) -> Node:
    """The pattern without any condition on the text around: it matches what it did, and more."""
    if not node.has_lookaround:
        return node
    spend()
    if isinstance(node, Choice):
        return choice(map(without_lookarounds, node.items))
    if isinstance(node, Repeat):
        return repeat(without_lookarounds(node.item), node.low, node.high, node.reluctant)
    return sequence(map(without_lookarounds, node.items) if isinstance(node, Sequence) else ())


def _is_failure(node: Node) -> bool:
    return isinstance(node, Choice) and not node.items


def _condition(node: Lookaround, before: Before) -> Node:
    if before.is_any:
        return sequence(())
    last = node.item.items[-1] if isinstance(node.item, Sequence) and node.item.items else node.item
    if not isinstance(last, Set):
        raise TextBeforeError("a lookbehind at the beginning of a terminal must begin with characters")
    may_match = overlap(last.ranges, before.last)
    may_fail = before.begins or overlap(invert(last.ranges), before.last) or last is not node.item
    if may_match and may_fail:
        raise TextBeforeError(
            "^, \\b or a lookbehind depends on the text before a terminal, which satisfies it only sometimes"
        )
    return sequence(()) if may_match != node.negative else FAILURE
