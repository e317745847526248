r"""Regular expressions as expressions over bytes.

    pattern_expression(r"[a-z]+(?:-\d{2})?")    the texts that the whole pattern matches
    pattern_expression("^a|b$", search=True)    the texts in which the pattern is found
    found_anywhere(r"\d+\n")                    its matches, wherever they are in a text
    terminal_expression(r'".*?"')               the texts that `re.match` matches within a longer text

The syntax is exactly Python's, or ECMAScript's, rewritten to it, and has the same meaning, character for
character. Counts are never unrolled here. If a pattern
cannot be written with the operators of `program.expression` (lookarounds within loops, `\b`, lazy
quantifiers), `ordered` converts it to an automaton, with a bound on its states.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import Literal, NamedTuple

from ...base.errors import quoted
from ..errors import GrammarError, GrammarLimitError
from ..program.expression import (
    EMPTY,
    Expression,
    concat,
    guard,
    nullable,
    union,
    without,
)
from ..program.unicode import Ranges, invert
from ..work import counted_work, spend, spend_on_each
from . import ordered
from .beginning import UNKNOWN, Before, TextBeforeError, decided, decided_within, without_lookarounds
from .items import PatternError, nests_lookarounds, width
from .lookarounds import NeedsAutomaton, item_of, language, whole
from .order import order_matters
from .parsing import parsed
from .syntax import Source, rewritten
from .tree import (
    Choice,
    Lookaround,
    Node,
    Sequence,
    Set,
    choice,
    one_of,
    parse,
    sequence,
    without_hidden,
)
from .whole_text import WholeText

Dialect = Literal["python", "ecma"]


@dataclass(frozen=True)
class PatternLimits:
    """The bounds on a pattern.

    length  characters of the pattern
    states  states of the automaton, if the pattern needs one
    work    steps to build the automaton
    """

    length: int = 250_000
    states: int = 4096
    work: int = 100_000


_LIMITS = PatternLimits()
_CACHED_LENGTH = 1024
_FLAGS = re.I | re.M | re.S | re.X | re.A | re.U


def pattern_expression(
    pattern: str,
    *,
    flags: int = 0,
    dialect: Dialect = "python",
    search: bool = False,
    limits: PatternLimits = _LIMITS,
) -> Expression:
    """The texts that the whole pattern matches; with `search`, those in which it is found.

    flags    `re.I`, `re.M`, `re.S`, `re.X`, `re.A`, as for `re.compile`
    dialect  "python" is the syntax of `re`; "ecma" is ECMAScript's, as in JSON Schema

    Texts are valid UTF-8. The result contains no guards, so it can be complemented and intersected.

    Raises GrammarError for a pattern with an error (line and column where known) or with a construct that
    cannot be matched token by token (backreferences, conditions, atomic groups, possessive quantifiers),
    and GrammarLimitError.
    """
    return _get(True, pattern, flags, dialect, search, limits)


def found_anywhere(pattern: str, *, limits: PatternLimits = _LIMITS) -> Expression:
    """The texts that a pattern may match anywhere in a longer text whose end is not known yet.

    Raises as `pattern_expression` does, and GrammarError for a pattern that matches the empty text, or
    nothing, or that depends on the text around the match (anchors, lookarounds, word boundaries).
    """
    with counted_work():
        if _tree(pattern, 0, "python").has_lookaround:
            raise GrammarError(f"pattern {quoted(pattern)} depends on the text around its match")
        found = pattern_expression(pattern, limits=limits)
    if found == EMPTY or nullable(found):
        raise GrammarError(
            f"pattern {quoted(pattern)} matches {'nothing' if found == EMPTY else 'the empty text'}"
        )
    return found


def terminal_expression(
    pattern: str, flags: int = 0, *, before: Before | None = None, limits: PatternLimits = _LIMITS
) -> Expression:
    """The texts w that `re.match` matches as a whole, in the way that it prefers.

    So `a*?b?` matches only "", and `a|ab` matches only "a". The text that a negative lookahead forbids may
    lie beyond the end of w: the lookahead becomes a guard. A lookahead within such a one sees the end of w
    as the end of the text.

    before  what is known about the text before w; None: nothing

    Raises as `pattern_expression` does, TextBeforeError where the text before w would decide, and
    GrammarError where a positive lookahead beyond its end would.
    """
    return _get(False, pattern, flags, "python", False, limits, before)


def _get(
    whole: bool,
    pattern: str,
    flags: int,
    dialect: Dialect,
    search: bool,
    limits: PatternLimits,
    before: Before | None = None,
) -> Expression:
    if len(pattern) > limits.length:
        raise GrammarLimitError(f"a pattern has {len(pattern)} characters, more than {limits.length}")
    build = _cached_build if len(pattern) <= _CACHED_LENGTH else _cached_large_build
    return build(whole, pattern, int(flags), dialect, search, limits, before)


def _build(
    whole: bool,
    pattern: str,
    flags: int,
    dialect: Dialect,
    search: bool,
    limits: PatternLimits,
    before: Before | None,
) -> Expression:
    with counted_work():
        spend(50)
        tree = _tree(pattern, flags, dialect)
        if whole:
            return _whole(tree, search, limits)
        return _preferred(tree, limits) if before is None else _preferred_after(tree, limits, before)


_cached_build = lru_cache(maxsize=64)(_build)  # few entries: an automaton may take megabytes
_cached_large_build = lru_cache(maxsize=1)(_build)  # a schema reads its pattern twice


def _tree(pattern: str, flags: int, dialect: Dialect) -> Node:
    if dialect not in ("python", "ecma"):
        raise ValueError(f"dialect={quoted(dialect)} is not allowed: python or ecma")
    if flags & ~_FLAGS:
        raise GrammarError("a pattern may have only i, m, s, x, u and a as its flags")
    with _readable(pattern, dialect == "ecma") as source:
        return parse(source.text, flags, dialect == "ecma", source.sets)


@contextmanager
def _readable(pattern: str, ecma: bool) -> Iterator[Source]:
    """The pattern in the syntax that is parsed; errors within become GrammarErrors at their place in it."""
    source = rewritten(pattern, ecma)
    try:
        yield source
    except PatternError as error:
        raise source.error_at(str(error), error.position) from None


class Outline(NamedTuple):
    """What the items of a pattern tell.

    width              the least and the greatest number of characters, see `items.width`
    nests_lookarounds  whether a lookahead contains an anchor or a lookaround
    """

    width: tuple[int, int]
    nests_lookarounds: bool


def outline_of(pattern: str) -> Outline:
    """The outline of a pattern in Python's syntax. Raises GrammarError and GrammarLimitError for one that
    cannot be read."""
    with _readable(pattern, False) as source:
        items, _ = parsed(source.text, 0)
        return Outline(width(items), nests_lookarounds(items))


def whole_texts(pattern: str) -> Callable[[str], bool]:
    """A function: whether `re.match` matches all of a text, in the way that it prefers. Raises GrammarError
    and GrammarLimitError, the function too."""
    with counted_work():
        return WholeText(_tree(pattern, 0, "python"), _LIMITS.work).is_matched


def _preferred_after(tree: Node, limits: PatternLimits, before: Before) -> Expression:
    tree = decided(tree, before)
    try:
        return _preferred(tree, limits, before)
    except TextBeforeError:
        if not before.is_any:
            raise
        return language(without_lookarounds(tree))


def _preferred(tree: Node, limits: PatternLimits, before: Before = UNKNOWN) -> Expression:
    tree = decided_within(without_hidden(tree))
    if not order_matters(tree):
        if _guardable(tree):
            return language(tree)
        if isinstance(tree, Choice):
            return union(*(_preferred(item, limits, before) for item in spend_on_each(tree.items)))
    with suppress(TextBeforeError):  # the pattern as a whole may know that text
        if (found := _preferred_unless(tree, limits, before)) is not None:
            return found
    return ordered.preferred(tree, limits.states, limits.work, before)


def _preferred_unless(tree: Node, limits: PatternLimits, before: Before) -> Expression | None:
    """What a tree prefers that is a negative lookahead and a rest, perhaps after fixed characters.

    None for any other. The lookahead is one condition, at whatever places of its words the text may end.
    """
    items = tree.items if isinstance(tree, Sequence) else ()
    first = len(list(takewhile(lambda item: isinstance(item, Set), items)))
    after = first + len(list(takewhile(_is_forbidding, items[first:])))
    if first == after:
        return None
    for item in items[:first][-1:]:
        assert isinstance(item, Set)
        before = Before(item.ranges, begins=False)
    forbidden = choice(map(item_of, items[first:after]))
    part = _preferred(sequence(items[after:]), limits, before)
    if plain := _plainly_forbidden(forbidden):
        part = EMPTY if nullable(plain[1]) else guard(without(part, plain[0]), plain[1])
    else:
        part = ordered.unless(forbidden, part, limits.states, limits.work, before)
    return concat(*map(language, items[:first]), part)


def _plainly_forbidden(node: Node) -> tuple[Expression, Expression] | None:
    r"""The texts that a negative lookahead forbids as a whole, and those that it forbids as beginnings.

    None unless it is plain, or ends with one about the next character: `(?!if)`, `(?!if\b)`.
    """
    texts: dict[Ranges, list[Expression]] = {}
    for option in spend_on_each(node.items if isinstance(node, Choice) else [node]):
        items = option.items if isinstance(option, Sequence) else (option,)
        ranges: Ranges = ()
        if items and _is_forbidding(items[-1]) and isinstance(last := item_of(items[-1]), Set):
            items, ranges = items[:-1], last.ranges
        text = sequence(items)
        if text.has_lookaround:
            return None
        texts.setdefault(ranges, []).append(language(text))
    alone = [text for ranges, some in texts.items() if ranges for text in some]
    begun = (
        concat(union(*some), language(one_of(invert(ranges)))) if ranges else union(*some)
        for ranges, some in texts.items()
    )
    return union(*alone), union(*begun)


def _is_forbidding(node: Node) -> bool:
    return isinstance(node, Lookaround) and node.ahead and node.negative


def _guardable(node: Node) -> bool:
    """Whether all lookarounds are negative lookaheads with none inside."""
    if not node.has_lookaround:
        return True
    if isinstance(node, Lookaround):
        return node.ahead and node.negative and not node.item.has_lookaround
    items = node.items if isinstance(node, Sequence | Choice) else (item_of(node),)
    return all(map(_guardable, items))


def _whole(tree: Node, search: bool, limits: PatternLimits) -> Expression:
    try:
        return whole(tree, search)
    except NeedsAutomaton:
        return ordered.whole(tree, search, limits.states, limits.work)
