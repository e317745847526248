"""Terminals with the operators of llguidance between patterns, which lark does not have.

    NAME: /[a-z]+/ & ~KEYWORD      what both match; the texts that an item does not match
    KEYWORD: "if" | "else"

`~` binds to the item behind it, more tightly than a repetition; `&` binds less than a sequence, and more than
`|`. A regular expression in such a terminal stands for all texts that it matches as a whole, a name for what
that terminal matches, `%regex {...}` for a substring. Terminals that name one of this kind are of this kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lark import Token, Tree

from ...errors import GrammarError
from ...program.expression import Expression, both, complement, concat, optional, repeat, union
from ...program.unicode import TEXT
from ...regex.items import MAX_WIDTH
from ..statements import EMPTY_STRINGS, ENDLESS, Lines, Statement, Word, count_bounds
from .substring import substring_expression

MAX_COUNT = 1_000_000
"""The highest bound of a repetition."""

_OPERATORS = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_LITERALS = {"string": "STRING", "regexp": "REGEXP"}
_OPENING = ("(", "[", "~", "%regex")
_END = Word("end", "", 0, 0)


class TerminalPart(NamedTuple):
    """A part of a terminal.

    kind   "|", "&", "," (a sequence), "~", "repeat", "name", "literal" or "regex"
    value  parts, a part, a part with its bounds, the word of a name, the tree of a literal, or the JSON value
           of `%regex`
    """

    kind: str
    value: Any


class OperatorTerminal(NamedTuple):
    """A terminal with operators.

    body      what it is
    priority  among the terminals of a lexer
    text      the body as it was written
    """

    body: TerminalPart
    priority: int
    text: str


def has_operators(words: Sequence[Word]) -> bool:
    """Whether the body of a terminal needs what lark does not have: `&`, `%regex`, an empty string, or `~` in
    front of an item."""
    following = [*(word.kind for word in words[1:]), "number"]
    return any(
        word.text in ("&", "%regex", *EMPTY_STRINGS) or (word.text == "~" and after != "number")
        for word, after in zip(words, following, strict=False)
    )


def read_operators(text: Lines, statement: Statement) -> OperatorTerminal:
    """The terminal that a statement defines. Raises GrammarError with its place."""
    words = statement.words
    number = "".join(word.text for word in words[statement.name + 2 : statement.body - 1])
    return read_body(text, words[statement.body :], words[-1].end, int(number or 0))


def read_body(text: Lines, words: Sequence[Word], end: int, priority: int = 0) -> OperatorTerminal:
    """The terminal whose body some words are, up to the position `end`. Raises GrammarError with its
    place."""
    written = text.text[words[0].start : end] if words else ""
    return OperatorTerminal(_Reader(text, words, end).body(), priority, written)


def expression_of(
    part: TerminalPart, named: Callable[[Word], Expression], literal: Callable[[Any], Expression]
) -> Expression:
    """The texts that a part matches; `named` and `literal` give those of a name and of a literal."""
    kind, value = part
    if kind == "name":
        return named(value)
    if kind == "literal":
        return literal(value)
    if kind == "regex":
        if isinstance(value, dict) and value.get("type") in ("number", "integer"):
            raise GrammarError("a number cannot be part of another terminal, or be ignored")
        return substring_expression(value)
    if kind == "repeat":
        item, low, high = value
        found = expression_of(item, named, literal)
        return optional(found) if (low, high) == (0, 1) else repeat(found, low, high)
    if kind == "~":
        return both(TEXT, complement(expression_of(value, named, literal)))
    join = {"|": union, "&": both, ",": concat}[kind]
    return join(*(expression_of(one, named, literal) for one in value))


def greatest_width(part: TerminalPart, named: Callable[[Word], int], literal: Callable[[Any], int]) -> int:
    """The most characters that a part may match, as lark's lexers compare them: of what both match, those of
    the shorter one; of a complement, `MAX_WIDTH`. `named` and `literal` give those of names and literals."""
    kind, value = part
    if kind == "name":
        return named(value)
    if kind == "literal":
        return literal(value)
    if kind == "repeat":
        item, _, high = value
        width = greatest_width(item, named, literal)
        return min(MAX_WIDTH, width and (MAX_WIDTH if high is None else width * high))
    if kind in ("~", "regex"):
        return MAX_WIDTH
    widths = [greatest_width(one, named, literal) for one in value]
    if kind == ",":
        return min(MAX_WIDTH, sum(widths))
    return max(widths) if kind == "|" else min(widths)


class _Reader:
    """Reads word by word; the brackets of a statement are not nested deep."""

    def __init__(self, text: Lines, words: Sequence[Word], end: int) -> None:
        self._text = text
        self._words = [*words, _END._replace(start=end)]
        self._at = 0

    def body(self) -> TerminalPart:
        part = self._joined("|")
        if self._word.kind != "end":
            self._fail("the end of the terminal")
        return part

    @property
    def _word(self) -> Word:
        return self._words[self._at]

    def _fail(self, expected: str) -> Any:
        found = self._word.text or "its end"
        text = f"in a terminal with &, ~ or %regex, {expected} is expected before {found}"
        raise self._text.error(text, self._word.start)

    def _joined(self, operator: str) -> TerminalPart:
        """Alternatives, or what stands between two `&` in one of them."""
        parts = []
        while True:
            parts.append(self._joined("&") if operator == "|" else self._sequence())
            if self._word.text != operator:
                return parts[0] if len(parts) == 1 else TerminalPart(operator, parts)
            self._at += 1

    def _sequence(self) -> TerminalPart:
        items = [self._repeated()]
        while self._word.kind in ("name", "string", "regexp") or self._word.text in _OPENING:
            items.append(self._repeated())
        return items[0] if len(items) == 1 else TerminalPart(",", items)

    def _repeated(self) -> TerminalPart:
        part = self._item()
        while True:
            word = self._word
            if word.text in _OPERATORS:
                part = TerminalPart("repeat", (part, *_OPERATORS[word.text]))
                self._at += 1
            elif word.kind == "count" or (word.text == "~" and self._words[self._at + 1].kind == "number"):
                part = TerminalPart("repeat", (part, *self._bounds()))
            else:
                return part

    def _bounds(self) -> tuple[int, int | None]:
        word = self._word
        self._at += 1
        if word.kind == "count":
            bounds = count_bounds(word.text)
        else:
            bounds = [self._take("number")]
            if self._word.kind == "dots":
                self._at += 1
                bounds.append(self._take("number"))
        low, high = (int(bounds[0]), int(bounds[-1])) if bounds else (0, -1)
        if high < low or low > MAX_COUNT or MAX_COUNT < high != ENDLESS:
            raise self._text.error(f"a count ends before it begins, or above {MAX_COUNT}", word.start)
        return low, None if high == ENDLESS else high

    def _take(self, kind: str) -> str:
        if self._word.kind != kind:
            self._fail(f"a {kind}")
        self._at += 1
        return self._words[self._at - 1].text

    def _item(self) -> TerminalPart:
        word = self._word
        self._at += 1
        if word.text == "~":
            if self._word.text == "~":
                self._fail("an item")
            return TerminalPart("~", self._item())
        if word.text in ("(", "["):
            inside = self._joined("|")
            if self._word.text != ")]"["([".index(word.text)]:
                self._fail("the bracket that closes the group")
            self._at += 1
            return inside if word.text == "(" else TerminalPart("repeat", (inside, 0, 1))
        if word.kind == "name":
            return TerminalPart("name", word)
        if word.text == "%regex":
            return TerminalPart("regex", word.value)
        if word.kind in _LITERALS:
            return self._literal(word)
        self._at -= 1
        return self._fail("a string, a regular expression, a terminal or a group")

    def _literal(self, word: Word) -> TerminalPart:
        tokens: list[Any] = [self._token(word)]
        if self._word.kind != "dots" or word.kind != "string":
            return TerminalPart("literal", Tree("literal", tokens))
        self._at += 1
        if self._word.kind != "string":
            self._fail("a string")
        tokens.append(self._token(self._word))
        self._at += 1
        return TerminalPart("literal", Tree("range", tokens))

    def _token(self, word: Word) -> Token:
        return Token(_LITERALS[word.kind], word.text, word.start, *self._text.location(word.start))
