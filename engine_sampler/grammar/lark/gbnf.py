"""GBNF, llama.cpp's language of grammars, rewritten to Lark's.

    root   ::= item+                         a rule; the text is what `root` matches
    item   ::= "- " [^\\r\\n]{1,80} "\\n"       literals, character classes, repetitions
    number ::= ("-"? [0-9]+ | "." ) # text   groups, choices, comments; `.` is any character
    call   ::= <|tool|> <[12]>               special tokens, by name or id

xgrammar's EBNF is read as well: a line that defines no rule continues the one before, names may have dots,
and a look-ahead `(= x)`, which only speeds xgrammar up, is read and left out. Its macros, such as
`TagDispatch(...)`, are refused.

Escapes are \\n \\r \\t \\\\ \\" \\[ \\] \\- \\xHH \\uHHHH \\UHHHHHHHH. A rule ends where
the next one begins.

Source: llama.cpp's grammars/README.md and its parser. They differ: there, text that spells the name of a
special token matches it as well, `!<token>` is any other token (not supported here), left recursion is
refused (allowed here), and a repetition of 2000 or more has no upper bound.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn

from ...base.cached import cached_property
from ..errors import GrammarError, GrammarLimitError
from ..work import counted_work, spend
from .lexer import MAX_NUMBER

MAX_DEPTH = 200
"""The deepest nesting of parentheses."""

_BLANK = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_BLANK_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_FIRST_HEAD = re.compile(r"(?:[ \t\r\n]|(?:#|//)[^\r\n]*(?![^\r\n]))*[A-Za-z0-9_.-]+[ \t]*::=")
_NEXT_LINE = re.compile(
    r"(?:[ \t\r\n]|#[^\r\n]*(?![^\r\n]))*(?=[|\"\[(<!.]|[A-Za-z0-9_.-]+(?![A-Za-z0-9_.-])(?![ \t\r\n]*::=))"
)
"""What separates a line from one that continues its rule, because it does not define another one."""
_SIMPLE_LITERAL = re.compile(r'"[ !#-\[\]-~]*"')
"""A literal that is the same in Lark."""
_TOKEN = re.compile(r"!?<[^<>\s]+>")
_MACROS = ("TagDispatch", "TokenTagDispatch", "Token", "ExcludeToken", "Regex", "Substring")
"""What xgrammar's EBNF writes like calls of functions."""
_MACRO_HEAD = re.compile(rf"^[ \t]*({'|'.join(_MACROS)})[ \t]*::=", re.MULTILINE)
_TIMES = re.compile(r"[*+?]|\{[ \t]*(\d+)[ \t]*(?:,[ \t]*(\d*)[ \t]*)?\}")
_CODE = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", **{c: c for c in '\\"[]-'}}
_ESCAPES |= {
    "'": "'",
    "?": "?",
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "e": "\x1b",
    "/": "/",
    "^": "^",
}


def is_gbnf(text: str) -> bool:
    """Whether a grammar defines its first rule by `::=`, as no grammar in Lark's language does: later lines
    may lie within a literal."""
    return _FIRST_HEAD.match(text) is not None


def lark_of_gbnf(text: str, root: str = "root") -> str:
    """The GBNF grammar `text` in Lark's language, where `root` is `start`; both accept the same texts.

    Raises GrammarError with line and column for text that cannot be read, and for rules that are missing.
    """
    with counted_work():
        spend(len(text) // 3)
        return _Reader(text, root).read()


class _Reader:
    """Reads rule after rule, and rewrites each on the way."""

    def __init__(self, text: str, root: str) -> None:
        self._text = text
        self._root = root
        self._at = 0
        self._depth = 0
        self._uses: dict[str, int] = {}
        """The position of the first use of each rule."""

    def read(self) -> str:
        rules: dict[str, str] = {}
        self._skip(_BLANK_LINES)
        while self._at < len(self._text):
            name = self._word("the name of a rule")
            self._skip(_BLANK)
            self._expect("::=", _BLANK_LINES)
            rules[name] = self._choice(_BLANK)  # a later rule of the same name replaces it
            if self._at < len(self._text) and self._text[self._at] not in "\r\n":
                self._fail("the end of the line")
            self._skip(_BLANK_LINES)
        for name in [self._root, *self._uses]:
            if name not in rules:
                raise self._error(f"there is no rule {name!r}", self._uses.get(name, 0))
        names = _lark_names(rules, self._root)
        body = "\n".join(f"{names[name]}: {rules[name]}" for name in rules)
        return _REFERENCE.sub(lambda found: names[found[1]], body) + "\n"

    # --- the body of a rule ----------------------------------------------------------------------

    def _choice(self, blank: re.Pattern[str]) -> str:
        """Sequences separated by `|`; `blank` may follow a part, and may include line ends or not."""
        sequences = [self._sequence(blank)]
        while self._text.startswith("|", self._at):
            self._expect("|", _BLANK_LINES)
            sequences.append(self._sequence(blank))
        return " | ".join(sequences)

    def _sequence(self, blank: re.Pattern[str]) -> str:
        parts: list[str] = []
        while (part := self._part()) is not None:
            self._skip(blank)
            is_class = part.startswith("/")
            while times := _TIMES.match(self._text, self._at):
                part = self._repeated(part, times, is_class)
                is_class = False
                self._at = times.end()
                self._skip(blank)
            parts.append(part)
        return " ".join(filter(None, parts))

    def _part(self) -> str | None:
        """The next part, "" for an empty one, None where the sequence ends."""
        next_one = self._text[self._at : self._at + 1]
        if next_one == '"':
            return self._literal()
        if next_one == "[":
            return self._class()
        if next_one == "(":
            return self._group()
        if next_one == ".":
            self._at += 1
            return "/./s"
        if next_one in ("<", "!"):
            return self._token()
        if name := _NAME.match(self._text, self._at):
            self._refuse_macro(name)
            self._uses.setdefault(name[0], self._at)
            self._at = name.end()
            return f"\0{name[0]}\0"
        return None

    def _refuse_macro(self, name: re.Match[str]) -> None:
        is_call = name[0] in _MACROS and self._text.startswith("(", name.end())
        if is_call and name[0] not in self._own_macros:
            raise self._error(f"{name[0]}(...) is not supported: structural tags say the same", name.start())

    @cached_property
    def _own_macros(self) -> set[str]:
        """The names of macros that are those of rules here."""
        return set(_MACRO_HEAD.findall(self._text))

    def _group(self) -> str:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise GrammarLimitError(f"parentheses are nested more than {MAX_DEPTH} deep")
        self._expect("(", _BLANK_LINES)
        asserts = self._text.startswith("=", self._at)
        if asserts:
            self._expect("=", _BLANK_LINES)
        inside = self._choice(_BLANK_LINES)
        self._expect(")", None)
        self._depth -= 1
        return "" if asserts else f"({inside})"

    def _token(self) -> str:
        token = _TOKEN.match(self._text, self._at)
        if token is None:
            self._fail("a token such as <name> or <[12]>")
        if token[0].startswith("!"):
            raise self._error(f"{token[0]} is not supported: any token but one", self._at)
        self._at = token.end()
        return token[0]

    def _repeated(self, part: str, times: re.Match[str], is_class: bool) -> str:
        """`part` repeated; a class becomes one terminal, which is faster than one for every character."""
        if not part:
            self._fail("something to repeat")
        if len(times[0]) > MAX_NUMBER:
            text = f"a number is longer than {MAX_NUMBER} characters"
            raise GrammarLimitError(text, *self._place(self._at))
        low, high = _bounds(times)
        if high == 0:
            return "()"
        if high is not None and high < low:
            self._fail(f"at least {low} as the upper bound")
        if not is_class:
            group = part if part[0] in '"(\0' and part[-1] in '")\0' else f"({part})"
            return f"{group}?" if (low, high) == (0, 1) else f"{group}{_count(low, high)}"
        pattern, flags = part[1:].rsplit("/", 1)
        repeated = f"/{pattern}{_count(max(low, 1), high)}/{flags}"  # no terminal may be empty
        return repeated if low else f"({repeated})?"

    # --- characters ------------------------------------------------------------------------------

    def _literal(self) -> str:
        if simple := _SIMPLE_LITERAL.match(self._text, self._at):
            self._at = simple.end()
            return simple[0] if len(simple[0]) > 2 else ""
        self._at += 1
        chars = []
        while not self._text.startswith('"', self._at):
            chars.append(self._char('"'))
        self._at += 1
        return '"' + "".join(map(_in_string, chars)) + '"' if chars else ""

    def _class(self) -> str:
        self._at += 1
        negated = self._text.startswith("^", self._at)
        self._at += negated
        ranges = []
        while not self._text.startswith("]", self._at):
            first = last = self._char("]")
            following = self._text[self._at + 1 : self._at + 2]
            if self._text.startswith("-", self._at) and following not in ("]", ""):
                self._at += 1
                last = self._char("]")
            if last < first:
                self._fail(f"a range that does not end before {first!r}")
            ranges.append(_in_class(first) if first == last else f"{_in_class(first)}-{_in_class(last)}")
        if not ranges:
            self._fail("a character in the class")
        self._at += 1
        return f"/[{'^' if negated else ''}{''.join(ranges)}]/"

    def _char(self, end: str) -> str:
        """The next character of a literal or a class, with its escape decoded."""
        if self._at >= len(self._text):
            self._fail(repr(end))
        char = self._text[self._at]
        self._at += 1
        if char != "\\":
            return char
        if code := _CODE.match(self._text, self._at):
            value = int(code[1] or code[2] or code[3], 16)
            if value < 0x110000 and not 0xD800 <= value < 0xE000:
                self._at = code.end()
                return chr(value)
        escaped = _ESCAPES.get(self._text[self._at : self._at + 1])
        if escaped is None:
            self._fail("an escape such as \\n or \\u20AC")
        self._at += 1
        return escaped

    # --- positions -------------------------------------------------------------------------------

    def _skip(self, blank: re.Pattern[str]) -> None:
        found = blank.match(self._text, self._at)
        self._at = found.end() if found else self._at
        if blank is _BLANK and (found := _NEXT_LINE.match(self._text, self._at)):
            self._at = found.end()

    def _expect(self, mark: str, blank: re.Pattern[str] | None) -> None:
        if not self._text.startswith(mark, self._at):
            self._fail(repr(mark))
        self._at += len(mark)
        if blank is not None:
            self._skip(blank)

    def _word(self, expected: str) -> str:
        found = _NAME.match(self._text, self._at)
        if found is None:
            self._fail(expected)
        self._at = found.end()
        return found[0]

    def _fail(self, expected: str) -> NoReturn:
        rest = self._text[self._at : self._at + 12]
        position = f"before {rest!r}" if rest else "at the end"
        raise self._error(f"GBNF: expected {expected} {position}", self._at)

    def _error(self, text: str, at: int) -> GrammarError:
        return GrammarError(text, *self._place(at))

    def _place(self, at: int) -> tuple[int, int]:
        """The line and column of the character at `at`."""
        return self._text.count("\n", 0, at) + 1, at - self._text.rfind("\n", 0, at)


# --- writing -------------------------------------------------------------------------------------

_REFERENCE = re.compile("\0([A-Za-z0-9_.-]+)\0")
"""A reference to a rule in a body, until the names of all rules in Lark are known."""


def _lark_names(rules: Mapping[str, str], root: str) -> dict[str, str]:
    """A name in Lark for each rule: lower-case letters, digits and underscores."""
    names = {root: "start"}
    taken: dict[str, int] = {"start": 1}
    for name in rules:
        if name not in names:
            stem = re.sub(r"[^a-z0-9]", "_", name.lower())
            new = stem = stem if stem[0].isalpha() else f"rule_{stem}"
            while new in taken:
                taken[stem] += 1
                new = f"{stem}_{taken[stem]}"
            taken[new] = 1
            names[name] = new
    return names


def _bounds(times: re.Match[str]) -> tuple[int, int | None]:
    """The least and the greatest number of repetitions; None: no bound."""
    if times[1] is None:
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[times[0]]
    low = int(times[1])
    if times[2] is None:
        return low, low
    return low, int(times[2]) if times[2] else None


def _count(low: int, high: int | None) -> str:
    """The bounds as written in Lark's rules and patterns alike."""
    if high is None and low < 2:
        return "+" if low else "*"
    return f"{{{low}{'' if low == high else ','}{'' if high in (low, None) else high}}}"


def _in_string(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if " " <= char <= "~" else f"\\U{ord(char):08x}"


def _in_class(char: str) -> str:
    if char.isascii() and char.isprintable():
        return char if char.isalnum() else f"\\{char}"
    return f"\\U{ord(char):08x}"
