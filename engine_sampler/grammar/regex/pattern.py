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
    ANYTHING,
    EMPTY,
    EPSILON,
    Expression,
    both,
    complement,
    concat,
    guard,
    literal,
    nullable,
    optional,
    union,
    without,
)
from ..program.expression import repeat as repeat_expression
from ..program.unicode import ANY_CHARACTER, TEXT, Ranges, invert
from ..work import counted_work, spend, spend_on_each
from . import ordered
from .beginning import UNKNOWN, Before, TextBeforeError, decided, decided_within, without_lookarounds
from .items import PatternError, nests_lookarounds, width
from .order import order_matters
from .parsing import parsed
from .syntax import Source, rewritten
from .tree import (
    ANY,
    LAST_LINE_END,
    TEXT_END,
    Choice,
    Lookaround,
    Node,
    Repeat,
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
        return _language(without_lookarounds(tree))


def _preferred(tree: Node, limits: PatternLimits, before: Before = UNKNOWN) -> Expression:
    tree = decided_within(without_hidden(tree))
    if not order_matters(tree):
        if _guardable(tree):
            return _language(tree)
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
    forbidden = choice(map(_item, items[first:after]))
    part = _preferred(sequence(items[after:]), limits, before)
    if plain := _plainly_forbidden(forbidden):
        part = EMPTY if nullable(plain[1]) else guard(without(part, plain[0]), plain[1])
    else:
        part = ordered.unless(forbidden, part, limits.states, limits.work, before)
    return concat(*map(_language, items[:first]), part)


def _plainly_forbidden(node: Node) -> tuple[Expression, Expression] | None:
    r"""The texts that a negative lookahead forbids as a whole, and those that it forbids as beginnings.

    None unless it is plain, or ends with one about the next character: `(?!if)`, `(?!if\b)`.
    """
    texts: dict[Ranges, list[Expression]] = {}
    for option in spend_on_each(node.items if isinstance(node, Choice) else [node]):
        items = option.items if isinstance(option, Sequence) else (option,)
        ranges: Ranges = ()
        if items and _is_forbidding(items[-1]) and isinstance(last := _item(items[-1]), Set):
            items, ranges = items[:-1], last.ranges
        text = sequence(items)
        if text.has_lookaround:
            return None
        texts.setdefault(ranges, []).append(_language(text))
    alone = [text for ranges, some in texts.items() if ranges for text in some]
    begun = (
        concat(union(*some), _language(one_of(invert(ranges)))) if ranges else union(*some)
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
    items = node.items if isinstance(node, Sequence | Choice) else (_item(node),)
    return all(map(_guardable, items))


def _item(node: Node) -> Node:
    assert isinstance(node, Repeat | Lookaround)
    return node.item


def _language(node: Node) -> Expression:
    """The plain language of the node; negative lookaheads become guards."""
    if isinstance(node, Set):
        return node.expression
    if isinstance(node, Sequence):
        return concat(*map(_language, spend_on_each(node.items)))
    if isinstance(node, Choice):
        return union(*map(_language, spend_on_each(node.items)))
    if isinstance(node, Repeat):
        return repeat_expression(_language(node.item), node.low, node.high)
    assert isinstance(node, Lookaround)
    forbidden = _language(node.item)
    return EMPTY if nullable(forbidden) else guard(EPSILON, forbidden)


# Whole texts.


class _NeedsAutomaton(Exception):
    """The operators of expressions cannot express the pattern: it needs an automaton."""


_MAX_LOOKAROUNDS = 64


def _whole(tree: Node, search: bool, limits: PatternLimits) -> Expression:
    if not tree.has_lookaround:
        return concat(TEXT, _found(tree, True, True), TEXT) if search else _language(tree)
    try:
        if _has_more_lookarounds(tree, _MAX_LOOKAROUNDS):
            raise _NeedsAutomaton
        if not search:
            return _before(tree, EPSILON, True)
        return _searched(tree)
    except _NeedsAutomaton:
        return ordered.whole(tree, search, limits.states, limits.work)


def _found(node: Node, before: bool, after: bool) -> Expression:
    """The language of the node, where any text may come before it, or after it, without what that includes.

    `a{2,5}` before any text is `aa` before any text.
    """
    if (before or after) and not node.shortest:
        return EPSILON
    if isinstance(node, Choice) and (before or after):
        return union(*(_found(item, before, after) for item in node.items))
    if isinstance(node, Repeat) and (before or after):
        if node.low == 1:
            return _found(node.item, before, after)
        return repeat_expression(_language(node.item), node.low, node.low)
    if isinstance(node, Sequence):
        return _found_sequence(node, before, after)
    return _language(node)


def _found_sequence(node: Sequence, before: bool, after: bool) -> Expression:
    items = list(node.items)
    first = last = EPSILON
    while items and after and last == EPSILON:
        last = _found(items.pop(), before and not items, after)
    while items and before and first == EPSILON:
        first = _found(items.pop(0), before, after and last == EPSILON and not items)
    return concat(first, *map(_language, items), last)


def _searched(tree: Node) -> Expression:
    try:
        return concat(TEXT, _before(tree, TEXT, None))
    except _NeedsAutomaton:  # the pattern depends on where the text begins
        later = _before(tree, TEXT, False)
        return union(_before(tree, TEXT, True), concat(ANY_CHARACTER, TEXT, later))


def _has_more_lookarounds(node: Node, most: int) -> bool:
    count, waiting = 0, [node]
    while waiting and count <= most:
        one = waiting.pop()
        if one.has_lookaround:
            count += isinstance(one, Lookaround)
            waiting += one.items if isinstance(one, Sequence | Choice) else (_item(one),)
    return count > most


def _before(node: Node, after: Expression, begin: bool | None) -> Expression:
    """The node followed by `after`, to the end of the text.

    begin  whether the node is at the very beginning of the text; None if unknown
    """
    if not node.has_lookaround:
        return concat(_language(node), after)
    if isinstance(node, Sequence):
        return _sequence_before(node, after, begin)
    if isinstance(node, Choice):
        return union(*(_before(item, after, begin) for item in node.items))
    if isinstance(node, Repeat):
        if node.high != 1:
            raise _NeedsAutomaton
        once = _before(node.item, after, begin)
        return once if node.low else union(once, after)
    assert isinstance(node, Lookaround)
    return _lookahead(node, after, begin) if node.ahead else _lookbehind(node, after, begin)


def _sequence_before(node: Sequence, after: Expression, begin: bool | None) -> Expression:
    begins = []
    for item in spend_on_each(node.items):
        begins.append(begin)
        begin = False if item.shortest else begin if item.longest == 0 or begin is False else None
    items = list(node.items)
    while items:
        if plain := _popped_plain(items):  # all at once: each `concat` copies what follows
            after = concat(*map(_language, plain), after)
            continue
        item = items.pop()
        plain = _popped_plain(items) if _looks_at_neighbours(item) else []
        if sum(node.shortest for node in plain):
            after = _between((item,), concat(*map(_language, plain)), after)
        else:
            items += plain
            after = _before(item, after, begins[len(items)])
    return after


def _popped_plain(items: list[Node]) -> list[Node]:
    """The items without lookarounds at the end of a list, which loses them."""
    begin = len(items)
    while begin and not items[begin - 1].has_lookaround:
        begin -= 1
    spend((len(items) - begin) // 4)
    plain = items[begin:]
    del items[begin:]
    return plain


def _looks_at_neighbours(node: Node) -> bool:
    """Whether a node is empty, and looks back at one character at most, as `\\b` does."""
    if isinstance(node, Sequence | Choice):
        return all(map(_looks_at_neighbours, node.items))
    if not isinstance(node, Lookaround) or node.item.has_lookaround:
        return False
    return node.ahead or isinstance(node.item, Set)


def _between(nodes: tuple[Node, ...], before: Expression, after: Expression) -> Expression:
    """Nodes that all look at their neighbours, between `before`, which is never empty, and the rest."""
    if not nodes:
        return concat(before, after)
    spend()
    first, following = nodes[0], nodes[1:]
    if isinstance(first, Sequence):
        return _between((*first.items, *following), before, after)
    if isinstance(first, Choice):
        return union(*(_between((item, *following), before, after) for item in first.items))
    assert isinstance(first, Lookaround)
    if first.ahead:
        return _between(following, before, _lookahead(first, after, False))
    assert isinstance(first.item, Set)
    last = one_of(invert(first.item.ranges)) if first.negative else first.item
    return _between(following, both(before, concat(TEXT, _language(last))), after)


def _lookahead(node: Lookaround, after: Expression, begin: bool | None) -> Expression:
    if node is TEXT_END:
        return EPSILON if nullable(after) else EMPTY
    if node is LAST_LINE_END:
        return _intersection(after, optional(literal(b"\n")))
    found = _before(node.item, ANYTHING, begin)
    return _intersection(after, complement(found) if node.negative else found)


def _intersection(after: Expression, required: Expression) -> Expression:
    if after == EPSILON:
        return EPSILON if nullable(required) else EMPTY
    return both(after, required)


def _lookbehind(node: Lookaround, after: Expression, begin: bool | None) -> Expression:
    if begin and node.item.shortest:
        holds = False
    elif begin is False and node.item is ANY:
        holds = True
    else:
        raise _NeedsAutomaton
    return after if holds != node.negative else EMPTY
