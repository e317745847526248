r"""Regular expressions as expressions over bytes.

    expression(r"[a-z]+(?:-\d{2})?")         the texts that the whole pattern matches
    expression("^a|b$", search=True)         the texts in which the pattern is found
    found_anywhere(r"\d+\n")                 what it matches, wherever that stands in a text
    terminal(r'".*?"')                       the texts that `re.match` takes from a longer text

Python's own parser reads the pattern, so the syntax is exactly Python's (or ECMAScript's, rewritten
to it) and means the same, character for character. Counts are never unrolled here. Where a pattern
cannot be written with the operators of `expression` (lookarounds within loops, `\b`, lazy quantifiers),
`ordered` makes an automaton of it, with a bound on its states.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

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
)
from ..program.expression import repeat as repeat_expression
from ..program.unicode import ANY_CHARACTER, TEXT
from . import ordered
from .order import order_matters
from .syntax import read
from .tree import ANY, LAST_LINE_END, TEXT_END, Choice, Look, Node, Repeat, Sequence, Set, parse

Dialect = Literal["python", "ecma"]


@dataclass(frozen=True)
class Limits:
    """How much a pattern may need.

    length  characters of the pattern
    states  states of an automaton that is made of it, if one has to be
    work    steps in making it
    """

    length: int = 32768
    states: int = 4096
    work: int = 100_000


_LIMITS = Limits()
_CACHED_LENGTH = 1024
_FLAGS = re.I | re.M | re.S | re.X | re.A | re.U


def expression(
    pattern: str,
    *,
    flags: int = 0,
    dialect: Dialect = "python",
    search: bool = False,
    limits: Limits = _LIMITS,
) -> Expression:
    """The texts that the whole pattern matches; with `search`, those in which it is found.

    flags    `re.I`, `re.M`, `re.S`, `re.X`, `re.A`, as for `re.compile`
    dialect  "python" is what `re` reads; "ecma" is ECMAScript, as in JSON Schema
    Texts are valid UTF-8. Nothing in the result is a guard: it can be complemented and intersected.

    Raises GrammarError for a pattern with an error (line and column where known) or with what cannot
    be matched token by token (backreferences, conditions, atomic groups, possessive quantifiers), and
    GrammarLimitError.
    """
    return _get(True, pattern, flags, dialect, search, limits)


def found_anywhere(pattern: str, *, limits: Limits = _LIMITS) -> Expression:
    """The texts that a pattern may match wherever it is found in a longer one, of which no end is known yet.

    Raises as `expression` does, and GrammarError for a pattern that matches the empty text, or nothing, or
    that looks at what stands around the match (anchors, lookarounds, word boundaries).
    """
    if _tree(pattern, 0, "python").looks:
        raise GrammarError(f"pattern {pattern!r} looks at what stands around its match")
    found = expression(pattern, limits=limits)
    if found == EMPTY or nullable(found):
        raise GrammarError(f"pattern {pattern!r} matches {'nothing' if found == EMPTY else 'the empty text'}")
    return found


def terminal(pattern: str, flags: int = 0, *, limits: Limits = _LIMITS) -> Expression:
    """The texts w of which `re.match` takes all, preferring the way that it prefers.

    So `a*?b?` matches "" alone, and `a|ab` matches "a" alone. What a negative lookahead forbids may lie
    beyond the end of w: it is a guard. A lookahead within such a one sees the end of w as the end of
    the text. What stands before w is not known.

    Raises as `expression` does, and GrammarError where what stands before w, or a positive lookahead
    beyond its end, would decide.
    """
    return _get(False, pattern, flags, "python", False, limits)


def _get(whole: bool, pattern: str, flags: int, dialect: Dialect, search: bool, limits: Limits) -> Expression:
    if len(pattern) > limits.length:
        raise GrammarLimitError(f"a pattern has {len(pattern)} characters, more than {limits.length}")
    make = _remembered if len(pattern) <= _CACHED_LENGTH else _compiled
    return make(whole, pattern, int(flags), dialect, search, limits)


def _compiled(
    whole: bool, pattern: str, flags: int, dialect: Dialect, search: bool, limits: Limits
) -> Expression:
    tree = _tree(pattern, flags, dialect)
    return _whole(tree, search, limits) if whole else _preferred(tree, limits)


_remembered = lru_cache(maxsize=64)(_compiled)  # few: an automaton may be megabytes


def _tree(pattern: str, flags: int, dialect: Dialect) -> Node:
    if dialect not in ("python", "ecma"):
        raise ValueError(f"no such dialect: {dialect}")
    if flags & ~_FLAGS:
        raise GrammarError("of the flags of a pattern, only i, m, s, x, u and a are understood")
    source = read(pattern, dialect == "ecma")
    try:
        return parse(source.text, flags, dialect == "ecma", source.sets)
    except re.error as error:
        text = f"not a regular expression: {error.msg}"
        raise (GrammarError(text) if error.pos is None else source.error_at(text, error.pos)) from None
    except ValueError as error:
        if isinstance(error, GrammarError):
            raise
        raise GrammarError(f"not a regular expression: {error}") from None


def _preferred(tree: Node, limits: Limits) -> Expression:
    if order_matters(tree) or not _guardable(tree):
        return ordered.preferred(tree, limits.states, limits.work)
    return _language(tree)


def _guardable(node: Node) -> bool:
    """Whether all lookarounds are negative lookaheads with none inside."""
    if not node.looks:
        return True
    if isinstance(node, Look):
        return node.ahead and node.negative and not node.item.looks
    items = node.items if isinstance(node, Sequence | Choice) else (_item(node),)
    return all(map(_guardable, items))


def _item(node: Node) -> Node:
    assert isinstance(node, Repeat | Look)
    return node.item


def _language(node: Node) -> Expression:
    """All that the node matches; negative lookaheads are guards."""
    if isinstance(node, Set):
        return node.expression
    if isinstance(node, Sequence):
        return concat(*map(_language, node.items))
    if isinstance(node, Choice):
        return union(*map(_language, node.items))
    if isinstance(node, Repeat):
        return repeat_expression(_language(node.item), node.low, node.high)
    assert isinstance(node, Look)
    forbidden = _language(node.item)
    return EMPTY if nullable(forbidden) else guard(EPSILON, forbidden)


# Whole texts.


class _Undecided(Exception):
    """The operators do not say it: an automaton must."""


_MAX_LOOKS = 64


def _whole(tree: Node, search: bool, limits: Limits) -> Expression:
    if not tree.looks:
        found = _language(tree)
        return concat(TEXT, found, TEXT) if search else found
    try:
        if _count_looks(tree) > _MAX_LOOKS:
            raise _Undecided
        if not search:
            return _before(tree, EPSILON, True)
        return _searched(tree)
    except _Undecided:
        return ordered.whole(tree, search, limits.states, limits.work)


def _searched(tree: Node) -> Expression:
    try:
        return concat(TEXT, _before(tree, TEXT, None))
    except _Undecided:  # it depends on where the text begins
        later = _before(tree, TEXT, False)
        return union(_before(tree, TEXT, True), concat(ANY_CHARACTER, TEXT, later))


def _count_looks(node: Node) -> int:
    if not node.looks:
        return 0
    if isinstance(node, Sequence | Choice):
        return sum(map(_count_looks, node.items))
    return isinstance(node, Look) + _count_looks(_item(node))


def _before(node: Node, after: Expression, begin: bool | None) -> Expression:
    """The node, and then `after`, to the end of the text.

    begin  whether the node stands at the very beginning of the text; None: not known
    """
    if not node.looks:
        return concat(_language(node), after)
    if isinstance(node, Sequence):
        return _sequence_before(node, after, begin)
    if isinstance(node, Choice):
        return union(*(_before(item, after, begin) for item in node.items))
    if isinstance(node, Repeat):
        if node.high != 1:
            raise _Undecided
        once = _before(node.item, after, begin)
        return once if node.low else union(once, after)
    assert isinstance(node, Look)
    return _ahead(node, after, begin) if node.ahead else _behind(node, after, begin)


def _sequence_before(node: Sequence, after: Expression, begin: bool | None) -> Expression:
    begins = []
    for item in node.items:
        begins.append(begin)
        begin = False if item.shortest else begin if item.longest == 0 or begin is False else None
    plain: list[Expression] = []
    for item, at in zip(reversed(node.items), reversed(begins), strict=True):
        if item.looks:
            after = _before(item, concat(*reversed(plain), after), at)
            plain = []
        else:
            plain.append(_language(item))
    return concat(*reversed(plain), after)


def _ahead(node: Look, after: Expression, begin: bool | None) -> Expression:
    if node is TEXT_END:
        return EPSILON if nullable(after) else EMPTY
    if node is LAST_LINE_END:
        return _meet(after, optional(literal(b"\n")))
    found = _before(node.item, ANYTHING, begin)
    return _meet(after, complement(found) if node.negative else found)


def _meet(after: Expression, wanted: Expression) -> Expression:
    if after == EPSILON:
        return EPSILON if nullable(wanted) else EMPTY
    return both(after, wanted)


def _behind(node: Look, after: Expression, begin: bool | None) -> Expression:
    if begin and node.item.shortest:
        holds = False
    elif begin is False and node.item is ANY:
        holds = True
    else:
        raise _Undecided
    return after if holds != node.negative else EMPTY
