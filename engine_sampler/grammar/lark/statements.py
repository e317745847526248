"""Lark text as words and statements, split before lark itself reads it.

Lark's own parser remains the only one. This scan does what that parser cannot: it refuses texts that would
take it exponential time or exceed its recursion, it finds the forms of `dialect`, and it records the
positions of names, which lark's messages often lack.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...base.cached import cached_property
from ..errors import GrammarError, GrammarLimitError
from ..work import spend

MAX_TEXT = 1_000_000
"""The longest text of a grammar, in characters."""

MAX_WORD = 250_000
"""The longest name, string or regular expression, in characters."""

MAX_NUMBER = 100
"""The longest count or priority, in characters."""

MAX_BRACKETS = 50
"""The deepest nesting of brackets; in a terminal, those of the terminals that it names count as well."""

MAX_GROWTH = 100_000
"""The most characters that terminals may grow by when the terminals that they name are substituted, without
one copy of each of these."""

# Strings and regular expressions are read as lark reads them, but unambiguously: lark's own patterns take
# exponential time on an unclosed literal with many backslashes.
_WORD = re.compile(
    r"""
    (?:[\ \t\f\r]|\\[\ ]*\n)*
    (?:(?P<newline>\n(?:[\ \t\f\r\n]|//[^\n]*|\#[^\n]*)*)
    | (?P<name>[A-Za-z_][A-Za-z_0-9]*(?:-[A-Za-z_0-9]+)*)
    | (?P<comment>//[^\n]*|\#[^\n]*)
    | (?P<string>"(?:[^"\\\n]|\\["\\]|\\(?!["\\]))*"i?)
    | (?P<regexp>/(?!/)(?:[^/\\]|\\[/\\]|\\(?![/\\]))*/[imslux]*)
    | (?P<token><[^<>\s]+>)
    | (?P<reference>@[A-Za-z_0-9]+(?:-[A-Za-z_0-9]+)*)
    | (?P<json>%(?:json|lark|regex|llguidance|grammar_options)(?![a-z_])\s*)
    | (?P<directive>%[a-z_]+)
    | (?P<count>\{[\ ]*(?:\d+[\ ]*(?:,[\ ]*(?:\d+[\ ]*)?)?|,[\ ]*(?:\d+[\ ]*)?)\})
    | (?P<number>[0-9]+)
    | (?P<dots>\.\.)
    | (?P<arrow>->)
    | (?P<open>[(\[{])
    | (?P<close>[)\]}])
    | (?P<mark>.)
    | (?P<end>\Z)
    )
    """,
    re.VERBOSE,
)
OPTIONS = ("%llguidance", "%grammar_options")
"""Directives with options of other systems, as JSON."""

EMPTY_STRINGS = ('""', '""i')
"""Literals that lark refuses."""

_NUMBERS = ("number", "count")
_UNCLOSED = {'"': "the string is not closed", "/": "the regular expression is not closed"}
_LINE_END = re.compile("\n")
_JSON = json.JSONDecoder()

ENDLESS = 4_294_967_291
"""The upper bound that stands for "no bound": lark requires one in a repetition."""

_STEPS_OF_WORDS = 96
"""The steps for `_WORDS` words."""
_WORDS = 64

_SHORT_GAP = 64
"""The most characters between two statements that are not a gap."""


class Word(NamedTuple):
    """One word of a text with its position; `value` is the JSON value of a `%json {...}`, or the text of a
    `%lark {...}`."""

    kind: str
    text: str
    start: int
    end: int
    value: Any = None


def count_bounds(text: str) -> list[str]:
    """The bounds of a count such as `{2}` or `{2,5}` in lark's notation: one number or two; none if it has
    neither."""
    low, comma, high = (part.strip(" ") for part in text[1:-1].partition(","))
    if not (low or high):
        return []
    return [low or "0", high or str(ENDLESS)] if comma else [low]


@dataclass
class Statement:
    """A definition or a directive: `kind` is "rule", "terminal" or the directive's own word.

    words   all its words; those before `body` are its head (modifiers, name, parameters, priority, colon)
    name    the index of the word in the head that is the defined name; -1 if nothing is defined
    depth   the deepest nesting of its brackets
    defines the name that it defines, or ""
    """

    kind: str = ""
    words: list[Word] = field(default_factory=list)
    name: int = -1
    body: int = 0
    depth: int = 0
    defines: str = ""

    @cached_property
    def uses(self) -> list[str]:
        """The names in its body."""
        return [word.text for word in self.words[self.body :] if word.kind == "name"]

    def classify(self) -> None:
        """Set `kind`, `name` and `body`, once all its words are known."""
        words, first = self.words, 0
        if words[0].text in OPTIONS:
            self.kind = words[0].text
            self.body = len(words)
            return
        if words[0].kind == "directive":
            self.kind, first = words[0].text, 1
            if self.kind not in ("%override", "%extend"):
                self.body = 1
                return
        while first < len(words) and words[first].text in ("!", "?"):
            first += 1
        if first < len(words) and words[first].kind == "name":
            self.name = first
            self.defines = words[first].text
            self.kind = "terminal" if self.defines.isupper() else "rule"
        for number, word in enumerate(words):
            if word.text == ":":
                self.body = number + 1
                return
        self.body = len(words)


class Lines:
    """A text, and the lines and columns of its characters.

    moved   the places that some lines of the text stand for
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.moved: dict[int, tuple[int, int]] = {}
        self._lines = [0, *(found.end() for found in _LINE_END.finditer(text))]

    def location(self, position: int) -> tuple[int, int]:
        """The line and column, counted from 1, of the character at `position`."""
        line = bisect_right(self._lines, position)
        return line, position - self._lines[line - 1] + 1

    def error(self, text: str, position: int) -> GrammarError:
        """A GrammarError about the text at `position`."""
        return GrammarError(text, *self.location(position))

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Give errors about lines that are `moved` their places."""
        try:
            yield
        except GrammarError as error:
            if error.line in self.moved:
                error.line, error.column = self.moved[error.line]
            raise


class Scan(Lines):
    """A text as words and statements. Raises GrammarError and GrammarLimitError.

    gaps   where there are many line ends between two statements

    A hyphen in a name, which lark does not know, becomes an underscore.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_TEXT:
            raise GrammarLimitError(f"the grammar is longer than {MAX_TEXT} characters")
        super().__init__(text)
        self.statements: list[Statement] = []
        self.gaps: list[tuple[int, int]] = []
        self._hyphens: dict[str, tuple[str, list[int]]] = {}
        """Names with hyphens by what they become, and where they are."""
        self._read()
        self._write_underscores()

    def _read(self) -> None:
        """Fill `statements`: every line that does not begin with `|` begins a new one."""
        fresh, depth = True, 0
        statement = Statement()
        for number, word in enumerate(self._words()):
            if number % _WORDS == 0:
                spend(_STEPS_OF_WORDS)
            kind = word[0]
            if kind == "newline":
                fresh = True
                if len(word.text) > _SHORT_GAP:
                    self.gaps.append((word.start, word.end))
                continue
            if fresh:
                if word.text != "|":
                    statement, depth = Statement(), 0
                    self.statements.append(statement)
                fresh = False
            if kind == "open":
                depth += 1
                if depth > MAX_BRACKETS:
                    text = f"brackets are nested more than {MAX_BRACKETS} deep"
                    raise GrammarLimitError(text, *self.location(word.start))
                if depth > statement.depth:
                    statement.depth = depth
            elif kind == "close":
                depth -= 1
            statement.words.append(word)
        for statement in self.statements:
            statement.classify()

    def _words(self) -> Iterator[Word]:
        at, text = 0, self.text
        while (match := _WORD.match(text, at)) and (kind := match.lastgroup or "end") != "end":
            start, at = match.span(kind)
            word = text[start:at]
            if kind == "json":
                value, at = self._nested(at) if word.startswith("%lark") else self._value(at)
                yield Word(kind, word.rstrip(), start, at, value)
            elif kind != "comment":
                if kind == "mark" and word in _UNCLOSED:
                    raise self.error(_UNCLOSED[word], start)
                longest = MAX_NUMBER if kind in _NUMBERS else MAX_WORD
                if at - start > longest and kind != "newline":
                    what = "number" if kind in _NUMBERS else "word"
                    message = f"a {what} is longer than {longest} characters"
                    raise GrammarLimitError(message, *self.location(start))
                yield Word(kind, self._plain(word, start) if kind == "name" else word, start, at)

    def _plain(self, name: str, start: int) -> str:
        """A name with underscores for hyphens."""
        if "-" not in name:
            return name
        plain = name.replace("-", "_")
        known = self._hyphens.setdefault(plain, (name, []))
        if known[0] != name:
            raise self.error(f"{name} and {known[0]} are one name in Lark", start)
        known[1].append(start)
        return plain

    def _write_underscores(self) -> None:
        """Replace the hyphens in names, in the text as well."""
        if not self._hyphens:
            return
        edited = list(self.text)
        for plain, (_, places) in self._hyphens.items():
            for at in places:
                edited[at : at + len(plain)] = plain
        written = {at for _, places in self._hyphens.values() for at in places}
        for statement in self.statements:
            for word in statement.words:
                if word.text in self._hyphens and word.start not in written:
                    other = self._hyphens[word.text][0]
                    raise self.error(f"{word.text} and {other} are one name in Lark", word.start)
        self.text = "".join(edited)

    def _value(self, at: int) -> tuple[Any, int]:
        """The JSON value at `at`, and the position after it."""
        try:
            return _JSON.raw_decode(self.text, at)
        except json.JSONDecodeError as error:
            raise self.error(f"invalid JSON: {error.msg}", error.pos) from None
        except RecursionError:
            raise GrammarLimitError("the JSON is nested too deep", *self.location(at)) from None

    def _nested(self, at: int) -> tuple[str, int]:
        """The grammar in braces at `at`, behind as many lines and blanks as are before it, and the position
        after it."""
        begin, depth = at, 0
        if not self.text.startswith("{", at):
            raise self.error("a nested grammar must stand in braces", begin)
        while (match := _WORD.match(self.text, at)) and (kind := match.lastgroup or "end") != "end":
            start, at = match.span(kind)
            if kind == "json":
                is_nested = self.text.startswith("%lark", start)
                _, at = self._nested(at) if is_nested else self._value(at)
            depth += (self.text[start] == "{" and kind == "open") - (self.text[start] == "}")
            if depth <= 0:
                break
        else:
            raise self.error("the nested grammar is not closed", begin)
        line, column = self.location(begin + 1)
        return "\n" * (line - 1) + " " * (column - 1) + self.text[begin + 1 : at - 1], at

    def check_terminals(self) -> None:
        """Refuse terminals that become too large or too deep when those that they name are substituted.

        Lark copies the definition of a terminal to every place where another one names it.
        """
        _Substitution(self).check()


class _Substitution:
    """The sizes of terminals after substitution; lark itself refuses circular definitions."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._parts: dict[str, list[Statement]] = {}
        for statement in scan.statements:
            if statement.kind in ("terminal", "%ignore"):
                self._parts.setdefault(statement.defines, []).append(statement)
        self._sizes: dict[str, tuple[int, int]] = {}

    def check(self) -> None:
        """Raise GrammarLimitError if one is too deep, or if all of them together grow too much."""
        total = 0
        copied: set[str] = set()
        for name, statements in self._parts.items():
            self._size(name, 0)
            for used in (used for statement in statements for used in statement.uses):
                total += self._size(used, 0)[0]
                if used not in copied:
                    copied.add(used)
                    total -= sum(map(_length, self._parts.get(used, ())))
                if total > MAX_GROWTH:
                    text = f"terminals grow by more than {MAX_GROWTH} characters with those that they name"
                    raise GrammarLimitError(text, *self._scan.location(statements[0].words[0].start))

    def _size(self, name: str, above: int) -> tuple[int, int]:
        """The characters and the depth of the terminal `name`, which is used within `above` brackets."""
        if name in self._sizes:
            size, depth = self._sizes[name]
        else:
            self._sizes[name] = size, depth = 0, 0
            for statement in self._parts.get(name, ()):
                size += _length(statement)
                below = above + statement.depth + 1
                self._refuse_depth(below, statement)
                depth = max(depth, statement.depth + 1)
                for used in statement.uses:
                    more, deeper = self._size(used, below)
                    size += more
                    depth = max(depth, statement.depth + 1 + deeper)
            self._sizes[name] = size, depth
        if above + depth > MAX_BRACKETS + 1:
            self._refuse_depth(above + depth, self._parts[name][0])
        return size, depth

    def _refuse_depth(self, depth: int, statement: Statement) -> None:
        if depth > MAX_BRACKETS + 1:
            text = f"the terminal {statement.defines} is nested more than {MAX_BRACKETS} deep"
            raise GrammarLimitError(text, *self._scan.location(statement.words[0].start))


def _length(statement: Statement) -> int:
    return statement.words[-1].end - statement.words[0].start
