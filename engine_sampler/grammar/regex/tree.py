"""Patterns as small trees: what `parsing` reads, without its details.

Flags, classes and case are resolved to sets of code points. Every anchor becomes a lookaround (`^` is
"no character precedes", `\\b` is one of two pairs), so that five kinds of nodes remain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Listed
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...base.cached import cached_property
from ..errors import GrammarError, GrammarLimitError
from ..program import unicode
from ..program.expression import Expression
from ..program.unicode import Ranges
from ..work import spend, spend_on_each
from .inline_flags import CHARACTER_SETS
from .items import ANY as ANYTHING
from .items import (
    ASSERT,
    ASSERT_NOT,
    AT,
    BRANCH,
    CATEGORY,
    CLASS,
    GROUP,
    LAZY_REPEAT,
    LITERAL,
    NEGATED,
    NOT_LITERAL,
    REPEAT,
    Item,
    Items,
)
from .parsing import parsed
from .prefixes import OTHER, Piece, with_shared_prefixes

MAX_NESTING = 64
"""The deepest nesting of groups in a pattern."""
MAX_CLASSES = 128
"""The most distinct classes of characters in a pattern."""
_MIN_FACTORED = 9
"""Choices of fewer options stay as they are."""
_SEQUENCE_STEPS = 3
"""The steps for a sequence, beside one for each of its parts."""
MAX_WIDTH = 1 << 31
"""Upper bounds of this size or more mean no bound."""


@dataclass(eq=False)
class Node:
    """A part of a pattern. It never changes; to enforce that would treble the time that it takes to make one.

    shortest, longest  the least and the greatest number of characters that it matches; longest None: no bound
    has_lookaround     whether it contains a lookaround
    lazy               whether it contains a quantifier that prefers fewer repetitions
    """

    shortest: int
    longest: int | None
    has_lookaround: bool
    lazy: bool


@dataclass(eq=False)
class Set(Node):
    """One character of a set."""

    ranges: Ranges

    @cached_property
    def expression(self) -> Expression:
        """The character in UTF-8."""
        return unicode.characters(self.ranges)


@dataclass(eq=False)
class Sequence(Node):
    """The items, one after the other."""

    items: tuple[Node, ...]


@dataclass(eq=False)
class Choice(Node):
    """One of the items; earlier ones are preferred."""

    items: tuple[Node, ...]


@dataclass(eq=False)
class Repeat(Node):
    """The item, low to high times; high None: no bound. `reluctant` prefers fewer."""

    item: Node
    low: int
    high: int | None
    reluctant: bool


@dataclass(eq=False)
class Lookaround(Node):
    """The empty text, where the item matches (`negative`: does not match) the text after or before it."""

    item: Node
    ahead: bool
    negative: bool


def one_of(ranges: Ranges) -> Node:
    """One character of the set."""
    return Set(1, 1, False, False, ranges)


def sequence(items: Iterable[Node]) -> Node:
    """The items in a row."""
    flat: list[Node] = []
    for item in items:
        flat += item.items if isinstance(item, Sequence) else (item,)
    if len(flat) == 1:
        return flat[0]
    shortest, longest, has_lookaround, lazy = 0, 0, False, False
    is_bounded = True
    for item in spend_on_each(flat):
        shortest += item.shortest
        if item.longest is None:
            is_bounded = False
        else:
            longest += item.longest
        has_lookaround = has_lookaround or item.has_lookaround
        lazy = lazy or item.lazy
    return Sequence(
        min(shortest, MAX_WIDTH), longest if is_bounded else None, has_lookaround, lazy, tuple(flat)
    )


def choice(items: Iterable[Node]) -> Node:
    """The first of the items that leads to a match."""
    options = tuple(items)
    if len(options) == 1:
        return options[0]
    longest = [item.longest for item in options]
    return Choice(
        min((item.shortest for item in options), default=0),
        None if None in longest else max(filter(None, longest), default=0),
        any(item.has_lookaround for item in options),
        any(item.lazy for item in options),
        options,
    )


def without_hidden(node: Node) -> Node:
    """The node at the end of a pattern, without the options that an empty one hides, which is preferred."""
    if isinstance(node, Sequence) and node.items:
        last = without_hidden(node.items[-1])
        return node if last is node.items[-1] else sequence((*node.items[:-1], last))
    if not isinstance(node, Choice):
        return node
    empty = next((number for number, option in enumerate(node.items) if _is_empty(option)), len(node.items))
    options = [without_hidden(option) for option in node.items[: empty + 1]]
    return node if options == list(node.items) else choice(options)


def _is_empty(node: Node) -> bool:
    return isinstance(node, Sequence) and not node.items


def repeat(item: Node, low: int, high: int | None, reluctant: bool = False) -> Node:
    """The item, low to high times."""
    longest = 0 if high == 0 or item.longest == 0 else None
    if longest is None and high is not None and item.longest is not None:
        longest = min(item.longest * high, MAX_WIDTH)
    shortest = min(item.shortest * low, MAX_WIDTH)
    lazy = item.lazy or (reluctant and low != high)
    return Repeat(shortest, longest, item.has_lookaround, lazy, item, low, high, reluctant)


def lookaround(item: Node, ahead: bool, negative: bool) -> Node:
    """A lookaround."""
    return Lookaround(0, 0, True, item.lazy, item, ahead, negative)


FAILURE = choice(())
ANY = one_of(unicode.EVERY)
NOT_NEWLINE = one_of(unicode.invert(unicode.NEWLINE))

TEXT_BEGIN = lookaround(ANY, False, True)
TEXT_END = lookaround(ANY, True, True)
LINE_BEGIN = lookaround(NOT_NEWLINE, False, True)
LINE_END = lookaround(NOT_NEWLINE, True, True)
LAST_LINE_END = lookaround(choice((NOT_NEWLINE, sequence((one_of(unicode.NEWLINE), ANY)))), True, True)
"""Python's `$`: at the end, or before a line feed at the end."""


@lru_cache(maxsize=4)
def _boundary(word: Ranges, negative: bool, needs_text: bool) -> Node:
    """`\\b` or, if `negative`, `\\B`; with `needs_text` it does not match the empty text."""
    letter = one_of(word)
    pairs = [
        sequence((lookaround(letter, False, not before), lookaround(letter, True, before != negative)))
        for before in (True, False)
    ]
    if not needs_text:
        return choice(pairs)
    in_text = choice((lookaround(ANY, False, False), lookaround(ANY, True, False)))
    return sequence((choice(pairs), in_text))


@lru_cache(maxsize=1)
def _inner_boundary_needs_text() -> bool:
    return re.search(r"\B", "") is None  # True before Python 3.14


@lru_cache(maxsize=4096)
def _literal(code: int, flags: int) -> Node:
    ranges: Ranges = ((code, code),)
    return one_of(unicode.fold(ranges, bool(flags & re.ASCII)) if flags & re.IGNORECASE else ranges)


@lru_cache(maxsize=4096)
def _first_case(code: int, flags: int) -> int:
    ranges: Ranges = ((code, code),)
    return unicode.fold(ranges, bool(flags & re.ASCII))[0][0]


def parse(pattern: str, flags: int, ecma: bool, sets: Mapping[int, Ranges]) -> Node:
    """The tree of a pattern in Python's syntax.

    ecma  classes, `.`, `$` and lookbehinds have their meaning in ECMAScript
    sets  code points that stand for sets

    Raises PatternError for what cannot be read or matched, and GrammarLimitError.
    """
    return _Reader(ecma, sets).sequence(*parsed(pattern, flags), 0)


class _Reader:
    """Builds nodes from the parser's result."""

    def __init__(self, ecma: bool, sets: Mapping[int, Ranges]) -> None:
        self.ecma = ecma
        self.sets = sets
        self._classes: dict[tuple[tuple[Any, ...], int], Node] = {}
        self._anchors: dict[tuple[str, int], Node] = {}
        self._repeats: dict[tuple[Node, int, int | None, bool], Node] = {}

    def sequence(self, items: Items, flags: int, depth: int) -> Node:
        if depth > MAX_NESTING:
            raise GrammarLimitError(f"a pattern is nested more than {MAX_NESTING} deep")
        spend(_SEQUENCE_STEPS + len(items))
        return sequence([self.item(kind, value, flags, depth) for kind, value in spend_on_each(items)])

    def item(self, kind: str, value: Any, flags: int, depth: int) -> Node:
        if kind == LITERAL:
            ranges = self.sets.get(value)
            return _literal(value, flags) if ranges is None else one_of(ranges)
        if kind == NOT_LITERAL:
            return self._class(((NEGATED, None), (LITERAL, value)), flags)
        if kind == CLASS:
            return self._class(value, flags)
        if kind == ANYTHING:
            return self._any(flags)
        if kind == AT:
            anchor = value, flags
            if anchor not in self._anchors:
                self._anchors[anchor] = self._anchor(*anchor)
            return self._anchors[anchor]
        if kind == GROUP:
            added, removed, inner = value
            if added & CHARACTER_SETS:
                flags &= ~CHARACTER_SETS
            return self.sequence(inner, (flags | added) & ~removed, depth + 1)
        if kind == BRANCH:
            return self._choice(value, flags, depth + 1)
        if kind in (ASSERT, ASSERT_NOT):
            ahead, inner = value
            return self._lookaround(self.sequence(inner, flags, depth + 1), ahead, kind == ASSERT_NOT)
        assert kind in (REPEAT, LAZY_REPEAT)
        return self._repeat(value, flags, depth, kind == LAZY_REPEAT)

    def _repeat(self, value: Any, flags: int, depth: int, reluctant: bool) -> Node:
        low, high, inner = value
        item = self.sequence(inner, flags, depth + 1)
        if low >= MAX_WIDTH:
            raise GrammarLimitError(f"a count in a pattern is over {MAX_WIDTH}")
        key = item, low, None if high is None or high >= MAX_WIDTH else high, reluctant
        if key not in self._repeats:
            self._repeats[key] = repeat(*key)
        return self._repeats[key]

    def _choice(self, options: Listed[Items], flags: int, depth: int) -> Node:
        """One of the options; the first characters that options of a long list share are written once."""
        if len(options) < _MIN_FACTORED:
            return choice([self.sequence(one, flags, depth) for one in options])
        pieces = with_shared_prefixes([self._keys(one, flags) for one in options])
        return self._one_of(pieces, options, flags, depth)

    def _one_of(self, pieces: list[Piece], options: Listed[Items], flags: int, depth: int) -> Node:
        nodes = []
        for option, start, end, rests in pieces:
            node = self.sequence(options[option][start:end], flags, depth)
            nodes.append(
                node if rests is None else sequence((node, self._one_of(rests, options, flags, depth)))
            )
        return choice(nodes)

    def _keys(self, items: Items, flags: int) -> list[int]:
        """For each part the first of the characters that it matches if it is a literal."""
        codes = [value if kind == LITERAL and value not in self.sets else OTHER for kind, value in items]
        if not flags & re.IGNORECASE:
            return codes
        return [OTHER if code == OTHER else _first_case(code, flags) for code in codes]

    def _lookaround(self, item: Node, ahead: bool, negative: bool) -> Node:
        if not ahead and not self.ecma and item.shortest != item.longest:
            raise GrammarError("a lookbehind requires a fixed-width pattern")
        return lookaround(item, ahead, negative)

    def _any(self, flags: int) -> Node:
        if flags & re.DOTALL:
            return ANY
        return one_of(unicode.invert(unicode.ECMA_LINE_END)) if self.ecma else NOT_NEWLINE

    def _anchor(self, mark: str, flags: int) -> Node:
        if mark == "^":
            return LINE_BEGIN if flags & re.MULTILINE else TEXT_BEGIN
        if mark == "$":
            if flags & re.MULTILINE:
                return LINE_END
            return TEXT_END if self.ecma else LAST_LINE_END
        if mark == "A":
            return TEXT_BEGIN
        if mark in "Zz":
            return TEXT_END
        needs_text = mark == "B" and not self.ecma and _inner_boundary_needs_text()
        return _boundary(unicode.word(self.ecma or bool(flags & re.ASCII)), mark == "B", needs_text)

    def _class(self, members: tuple[Item, ...], flags: int) -> Node:
        known = self._classes.get((members, flags))
        if known is None:
            if len(self._classes) == MAX_CLASSES:
                raise GrammarLimitError(f"a pattern has more than {MAX_CLASSES} distinct classes")
            known = self._classes[members, flags] = one_of(self._members(members, flags))
        return known

    def _members(self, members: tuple[Item, ...], flags: int) -> Ranges:
        found: list[tuple[int, int]] = []
        is_negated = members[0][0] == NEGATED
        for kind, value in members[is_negated:]:
            found += self._member(kind, value, flags)
        ranges = unicode.ranges(found)
        return unicode.invert(ranges) if is_negated else ranges

    def _member(self, kind: str, value: Any, flags: int) -> Ranges:
        if kind == CATEGORY:
            return _category(value, bool(flags & re.ASCII))
        ranges = ((value, value),) if kind == LITERAL else (value,)
        if any(first <= code <= last for code in self.sets for first, last in ranges):
            if kind == LITERAL:
                return self.sets[value]
            raise GrammarError("a class of characters cannot be an end of a range")
        return unicode.fold(ranges, bool(flags & re.ASCII)) if flags & re.IGNORECASE else ranges


_CATEGORIES = {"d": unicode.digit, "w": unicode.word, "s": unicode.space}


def _category(letter: str, ascii_only: bool) -> Ranges:
    ranges = _CATEGORIES[letter.lower()](ascii_only)
    return unicode.invert(ranges) if letter.isupper() else ranges
