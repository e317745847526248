"""Python's syntax of regular expressions, read in one pass whose work is counted.

    items, flags = parsed("(?i)a|b+", 0)

The syntax is that of `re` in Python 3.11 and later, whatever the version of Python, so that a pattern means
the same everywhere. `re` itself never sees a pattern: to match one may take exponential time, to parse one
quadratic time, and both hold the interpreter's lock. What no automaton can match is refused here.

    LITERAL, NOT_LITERAL    a character, by its code point, or any other
    ANY                     `.`
    CLASS                   members: LITERAL, RANGE (first, last), CATEGORY such as "d"; first perhaps NEGATED
    AT                      an anchor: "^", "$", or the letter of its escape
    GROUP                   flags that it turns on, flags that it turns off, its items
    BRANCH                  the items of each alternative
    REPEAT, LAZY_REPEAT     the least number, the greatest (None: no bound), the items
    ASSERT, ASSERT_NOT      whether it looks ahead, the items
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ...base.errors import quoted
from ..errors import GrammarLimitError
from ..work import spend
from .characters import read_class, read_escape
from .inline_flags import CHARACTER_SETS, FLAGS, read_flags
from .items import (
    ANY,
    ASSERT,
    ASSERT_NOT,
    AT,
    GROUP,
    LAZY_REPEAT,
    LITERAL,
    PLAIN,
    REPEAT,
    Items,
    malformed,
    one_of,
    unmatchable,
    unwrapped,
)

MAX_OPEN = 480
"""The deepest nesting of groups, those without effect included."""

MAX_COUNT = 2**32 - 2
"""The largest count."""

_SPECIAL = frozenset(".\\[{()*+?^$|")
_SPACE = frozenset(" \t\n\r\v\f")
_SPECIAL_IF_VERBOSE = _SPECIAL | _SPACE | {"#"}
_QUANTIFIERS = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_AT_A_TIME = 64
"""The characters after which they are counted."""


def parsed(pattern: str, flags: int) -> tuple[Items, int]:
    """The items of a pattern, and its flags with those that it sets for itself.

    Raises PatternError, and GrammarLimitError for one that is nested too deep or has too large a count.
    """
    parser = _Parser(pattern, flags)
    return parser.parse(), parser.flags


class _Group:
    """A group that is not closed yet, or the pattern itself.

    start    where it begins
    kind     what it becomes, with what stands before its items there
    verbose  whether white space and comments in it are left out
    options  its alternatives before the one that is being read
    items    those of this alternative
    """

    __slots__ = ("items", "kind", "options", "start", "verbose")

    def __init__(self, start: int, kind: tuple[Any, ...], verbose: bool) -> None:
        self.start, self.kind, self.verbose = start, kind, verbose
        self.options: list[Items] = []
        self.items: Items = []


class _Parser:
    """Reads one pattern."""

    def __init__(self, text: str, flags: int) -> None:
        self.flags = int(flags)
        self._text = text
        self._at = self._counted = 0
        self._group = _Group(0, (PLAIN,), bool(flags & re.X))
        self._outer: list[_Group] = []
        self._names: set[str] = set()

    def parse(self) -> Items:
        text = self._text
        while self._at < len(text):
            c = text[self._at]
            if self._at - self._counted >= _AT_A_TIME:
                self._count()
            if c not in _SPECIAL:
                self._characters(c)
            else:
                self._at += 1
                _READERS[c](self)
        self._count()
        if self._outer:
            raise malformed("missing ), unterminated subpattern", self._group.start)
        if self.flags & CHARACTER_SETS == CHARACTER_SETS:
            raise malformed("ASCII and UNICODE flags are incompatible", 0)
        self.flags |= 0 if self.flags & re.A else re.U
        return self._closed()

    def _count(self) -> None:
        spend(self._at - self._counted)
        self._counted = self._at

    # --- characters ------------------------------------------------------------------------------

    def _characters(self, c: str) -> None:
        """Read characters that stand for themselves, or what a verbose pattern leaves out."""
        if self._group.verbose and c in _SPACE:
            self._at += 1
            return
        if self._group.verbose and c == "#":
            self._pass("\n")
            return
        text, at = self._text, self._at
        special = _SPECIAL_IF_VERBOSE if self._group.verbose else _SPECIAL
        end = min(len(text), at + _AT_A_TIME)
        while at < end and text[at] not in special:
            at += 1
        self._group.items += [(LITERAL, ord(one)) for one in text[self._at : at]]
        self._at = at

    def _pass(self, end: str) -> bool:
        """Pass the text up to and including `end`, which a backslash before it hides; False if there is
        none."""
        text = self._text
        while self._at < len(text):
            c = text[self._at]
            self._at += 2 if c == "\\" else 1
            if c == end:
                return True
            if self._at - self._counted >= _AT_A_TIME:
                self._count()
        if self._at > len(text):
            raise malformed("bad escape (end of pattern)", len(text) - 1)
        return False

    def _escape(self) -> None:
        item, self._at = read_escape(self._text, self._at - 1)
        self._group.items.append(item)

    def _class(self) -> None:
        self._count()
        item, self._at = read_class(self._text, self._at - 1)
        self._counted = self._at
        self._group.items.append(item)

    def _any(self) -> None:
        self._group.items.append((ANY, None))

    def _anchor(self) -> None:
        self._group.items.append((AT, self._text[self._at - 1]))

    # --- repetitions -----------------------------------------------------------------------------

    def _repetition(self) -> None:
        start, items = self._at - 1, self._group.items
        bounds = _QUANTIFIERS.get(self._text[start]) or self._bounds()
        if bounds is None:
            items.append((LITERAL, ord("{")))
            return
        if not items or items[-1][0] == AT:
            raise malformed("nothing to repeat", start)
        kind, value = items[-1]
        if kind in (REPEAT, LAZY_REPEAT):
            raise malformed("multiple repeat", start)
        if self._passed("+"):
            raise unmatchable("a possessive quantifier", start)
        inside = value if kind == PLAIN else [items[-1]]
        items[-1] = (LAZY_REPEAT if self._passed("?") else REPEAT), (*bounds, inside)

    def _bounds(self) -> tuple[int, int | None] | None:
        """The bounds of a count, whose brace has been passed; None if it is only a brace."""
        start = self._at
        low = high = self._number()
        if has_comma := self._passed(","):
            high = self._number()
        if self._at == start or not self._passed("}"):
            self._at = start
            return None
        least = _count_of(low)
        most = _count_of(high) if high else None
        if most is not None and most < least:
            raise malformed("min repeat greater than max repeat", start)
        return least, most if has_comma else least

    def _number(self) -> str:
        """The digits here, which are passed."""
        start, text = self._at, self._text
        while self._at < len(text) and text[self._at] in "0123456789":
            self._at += 1
        return text[start : self._at]

    # --- groups ----------------------------------------------------------------------------------

    def _open(self) -> None:
        start = self._at - 1
        if not self._passed("?"):
            self._begin(start, (GROUP, 0, 0))
            return
        mark = self._next()
        if mark == ":":
            self._begin(start, (PLAIN,))
        elif mark in "=!":
            self._begin(start, (ASSERT if mark == "=" else ASSERT_NOT, True))
        elif mark == "<":
            mark = self._next()
            if mark not in "=!":
                named = '; a named group is (?P<name>...), or (?<name>...) with dialect="ecma"'
                raise malformed(
                    f"unknown extension ?<{mark}{named if mark.isidentifier() else ''}", start + 1
                )
            self._begin(start, (ASSERT if mark == "=" else ASSERT_NOT, False))
        elif mark == "P":
            self._named(start)
        elif mark == "#":
            if not self._pass(")"):
                raise malformed("missing ), unterminated comment", start)
        elif mark in FLAGS:
            self._at -= 1
            self._flagged(start)
        elif mark in "(>":
            raise unmatchable("an atomic group" if mark == ">" else "a condition on a group", start)
        else:
            raise malformed(f"unknown extension ?{mark}", start + 1)

    def _named(self, start: int) -> None:
        """Read `?P<name>`, of which the P has been passed."""
        mark = self._next()
        if mark == "=":
            raise unmatchable("a backreference", start)
        if mark != "<":
            raise malformed(f"unknown extension ?P{mark}", start + 1)
        end = self._text.find(">", self._at)
        if end < 0:
            raise malformed("missing >, unterminated name", self._at)
        name = self._text[self._at : end]
        if not name.isidentifier():
            reason = f"bad character in group name {quoted(name)}" if name else "missing group name"
            raise malformed(reason, self._at)
        if name in self._names:
            raise malformed(f"redefinition of group name {quoted(name)}", self._at)
        self._names.add(name)
        self._at = end + 1
        self._begin(start, (GROUP, 0, 0))

    def _flagged(self, start: int) -> None:
        """Read flags for a group or for the whole pattern."""
        added, removed, end = read_flags(self._text, self._at)
        self._at = end
        if self._text[end - 1] == ")":
            if self._outer or self._group.options or self._group.items:
                raise malformed("global flags not at the start of the expression", start)
            self.flags |= added
            self._group.verbose = bool(self.flags & re.X)
            return
        verbose = (self._group.verbose or bool(added & re.X)) and not removed & re.X
        self._begin(start, (GROUP, added, removed) if added | removed else (PLAIN,), verbose)

    def _begin(self, start: int, kind: tuple[Any, ...], verbose: bool | None = None) -> None:
        if len(self._outer) == MAX_OPEN:
            raise GrammarLimitError(f"a pattern has groups that are nested more than {MAX_OPEN} deep")
        self._outer.append(self._group)
        self._group = _Group(start, kind, self._group.verbose if verbose is None else verbose)

    def _next_option(self) -> None:
        group = self._group
        group.options.append(unwrapped(group.items))
        group.items = []

    def _close(self) -> None:
        if not self._outer:
            raise malformed("unbalanced parenthesis", self._at - 1)
        name, *before = self._group.kind
        items = self._closed()
        self._group = self._outer.pop()
        self._group.items.append((name, (*before, items) if before else items))

    def _closed(self) -> Items:
        self._next_option()
        return one_of(self._group.options)

    # --- positions -------------------------------------------------------------------------------

    def _passed(self, c: str) -> bool:
        """Whether `c` is next; then it is passed."""
        found = self._text.startswith(c, self._at)
        self._at += found
        return found

    def _next(self) -> str:
        """The next character, which is passed."""
        if self._at >= len(self._text):
            raise malformed("unexpected end of pattern", self._at)
        self._at += 1
        return self._text[self._at - 1]


_READERS: dict[str, Callable[[_Parser], None]] = {
    "\\": _Parser._escape,
    "[": _Parser._class,
    ".": _Parser._any,
    "^": _Parser._anchor,
    "$": _Parser._anchor,
    "(": _Parser._open,
    ")": _Parser._close,
    "|": _Parser._next_option,
    **dict.fromkeys("*+?{", _Parser._repetition),
}


def _count_of(digits: str) -> int:
    significant = digits.lstrip("0") or "0"
    if len(significant) > len(str(MAX_COUNT)) or int(significant) > MAX_COUNT:
        raise GrammarLimitError("a count in a pattern is too large")
    return int(significant)
