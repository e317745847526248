"""The white space between the tokens of JSON, and the order of keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import NamedTuple, TypeVar

from ..errors import GrammarError
from ..program.expression import (
    CONCAT,
    EPSILON,
    REPEAT,
    Expression,
    both,
    concat,
    literal,
    nullable,
    optional,
    repeat,
    union,
    without,
)
from ..program.rules import Rules
from ..regex.pattern import pattern_expression
from .options import check_whitespace
from .scalars.matching import is_empty
from .scalars.texts import WHITESPACE

_MAX_CACHED_LENGTH = 100
"""Maximum length of a pattern whose meaning is cached."""


@dataclass(frozen=True)
class Spacing:
    """Where white space may be. None: anywhere between tokens, in any amount.

    around  before and after each bracket, brace, comma and colon
    after   after commas and colons, instead of `around`
    outer   before and after the whole text
    """

    around: Expression
    after: Expression
    outer: Expression


Found = TypeVar("Found")


def cached_if_short(function: Callable[[str | int], Found]) -> Callable[[str | int], Found]:
    """Cache the latest results by white space, except for long patterns: untrusted input must not fill the
    memory."""
    cached = lru_cache(maxsize=16, typed=True)(function)

    @wraps(function)
    def found(whitespace: str | int) -> Found:
        if isinstance(whitespace, str):
            return cached(whitespace) if len(whitespace) <= _MAX_CACHED_LENGTH else function(whitespace)
        return cached(whitespace) if isinstance(whitespace, int) else function(whitespace)

    return found


@cached_if_short
def spacing_of(whitespace: str | int) -> Spacing | None:
    """The meaning of the option `whitespace`: "any", "compact", a number of characters, or a pattern.

    Raises GrammarError for anything else.
    """
    if whitespace == "any":
        return None
    if whitespace == "compact":
        return Spacing(EPSILON, optional(literal(b" ")), EPSILON)
    check_whitespace(whitespace)
    if isinstance(whitespace, str):
        return _spacing_of_pattern(whitespace)
    space = repeat(WHITESPACE, 0, whitespace)
    return Spacing(space, space, space)


def _spacing_of_pattern(whitespace: str) -> Spacing:
    try:
        matched = pattern_expression(whitespace)
    except GrammarError as error:
        raise type(error)(f"whitespace={whitespace[:80]!r}: {error}") from None
    anything = repeat(WHITESPACE)
    space = matched if is_empty(without(matched, anything)) else both(matched, anything)
    if is_empty(space):
        raise GrammarError(
            f"whitespace={whitespace[:80]!r} is not allowed: it matches no white space of JSON"
        )
    return Spacing(space, space, space if nullable(matched) else optional(space))


def nonempty(space: Expression) -> Expression:
    """The texts of `space` except the empty one, by operators that can be printed where possible."""
    if space[0] == REPEAT and not nullable(space[1]):
        return repeat(space[1], max(space[2], 1), space[3])
    if space[0] == CONCAT and nullable(space):
        rest = concat(*space[1][1:])
        return union(concat(nonempty(space[1][0]), rest), nonempty(rest))
    return without(space, EPSILON) if nullable(space) else space


class Punctuation(NamedTuple):
    """The symbols of `{ } [ ] : ,`, with the white space around them.

    close_empty_object, close_empty_array    the closing marks right after the opening ones
    """

    open_object: int
    close_object: int
    close_empty_object: int
    open_array: int
    close_array: int
    close_empty_array: int
    colon: int
    comma: int


def punctuation(rules: Rules, spacing: Spacing) -> Punctuation:
    """The punctuation symbols."""
    around, after = spacing.around, spacing.after
    marks = (
        ("OBJECT_BEGIN", (literal(b"{"), around)),
        ("OBJECT_END", (around, literal(b"}"))),
        ("EMPTY_OBJECT_END", (literal(b"}"),)),
        ("ARRAY_BEGIN", (literal(b"["), around)),
        ("ARRAY_END", (around, literal(b"]"))),
        ("EMPTY_ARRAY_END", (literal(b"]"),)),
        ("COLON", (around, literal(b":"), after)),
        ("COMMA", (around, literal(b","), after)),
    )
    return Punctuation(*(rules.terminal(name, concat(*parts)) for name, parts in marks))
