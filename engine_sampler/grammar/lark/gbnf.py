"""GBNF, llama.cpp's language of grammars, read to the trees that lark builds of a grammar in its own.

    root   ::= item+                         a rule; the text is what `root` matches
    item   ::= "- " [^\\r\\n]{1,80} "\\n"       literals, character classes, repetitions
    number ::= ("-"? [0-9]+ | "." ) # text   groups, choices, comments; `.` is any character
    call   ::= <|tool|> <[12]>               special tokens, by name or id
    free   ::= (!</think> | !<[12]>)*        any token but this one; `<[^1,5-9]>` and `<[*]>` as in Lark

xgrammar's EBNF is read as well: a line that defines no rule continues the one before, names may have dots,
`{2,-1}` has no upper bound, and a look-ahead `(= x)`, which only speeds xgrammar up, is read and left out.
Its macros, such as `TagDispatch(...)`, are refused.

Escapes are \\n \\r \\t \\\\ \\" \\[ \\] \\- \\xHH \\uHHHH \\UHHHHHHHH. A rule ends where
the next one begins.

Source: llama.cpp's grammars/README.md and its parser. They differ: there, text that spells the name of a
special token matches it as well, left recursion is refused (allowed here), and a repetition of 2000 or more
has no upper bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

from lark import Token, Tree
from lark.grammar import NonTerminal, Terminal

from ...base.cached import cached_property
from ...base.errors import quoted
from ..errors import GrammarLimitError
from ..work import counted_work, spend
from .dialect import Placeholder, SpecialTokens
from .statements import ENDLESS, MAX_BRACKETS, MAX_NUMBER, MAX_WORD, Lines, Word

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
_ANY_CHARACTER = "/./s"
_WORD = re.compile(rf"({_SIMPLE_LITERAL.pattern}|\[(?:[^\]\\]|\\.)*\]|{_NAME.pattern})[ \t]*", re.DOTALL)
"""Most literals, classes and names, with the blanks that follow."""
_TOKEN = re.compile(r"!?<[^<>\s]+>")
_MACROS = ("TagDispatch", "TokenTagDispatch", "Token", "ExcludeToken", "Regex", "Substring")
"""What xgrammar's EBNF writes like calls of functions."""
_MACRO_HEAD = re.compile(rf"^[ \t]*({'|'.join(_MACROS)})[ \t]*::=", re.MULTILINE)
_EMPTY = object()
"""A part that matches the empty text, and is left out."""
_BLANKS, _LINE_ENDS = (" ", "\t", "#", "\r", "\n"), ("\r", "\n")
_OPERATORS = {(0, 1): "?", (0, None): "*", (1, None): "+"}
_REPETITIONS = ("*", "+", "?", "{")
_RULE_STEPS, _REPETITION_STEPS, _WORD_STEPS = 6, 3, 2
"""The steps for a rule, a repetition, and a word that is new, beside those for the parts of a sequence."""
_TIMES = re.compile(r"[*+?]|\{[ \t]*(\d+)[ \t]*(?:(,)[ \t]*(?:(\d+|-1)[ \t]*)?)?\}")
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


class Gbnf(NamedTuple):
    """A grammar as `rules_from_gbnf` takes it.

    rules         the tree of each rule by its name in Lark: that of the first one is `start`
    placeholders  the terminals that are special tokens
    """

    lines: Lines
    rules: dict[str, Any]
    placeholders: dict[str, Placeholder]


def read_gbnf(text: str, root: str = "root") -> Gbnf:
    """The GBNF grammar `text`, whose texts `root` derives.

    Raises GrammarError with line and column for text that cannot be read, and for rules that are missing.
    """
    with counted_work():
        return _Reader(text, root).read()


_NOTHING: Any = Tree("expansions", [Tree("expansion", [])])
"""What matches the empty text."""


class _Reader:
    """Reads rule after rule."""

    def __init__(self, text: str, root: str) -> None:
        self._text = text
        self._root = root
        self._at = 0
        self._depth = 0
        self._lines = Lines(text)
        self._tokens = SpecialTokens(self._lines)
        self._placeholders: dict[str, Placeholder] = {}
        self._nodes: dict[str, Any] = {}
        """The trees of words so far, by what is written here or in Lark."""
        self._counts: dict[tuple[int, int | None], list[Any]] = {}
        """The bounds of repetitions so far, with the place of the first one."""
        self._uses: dict[str, tuple[int, Any]] = {}
        """The position of the first use of each rule, and the node that all uses share."""

    def read(self) -> Gbnf:
        rules: dict[str, Any] = {}
        self._skip(_BLANK_LINES)
        while self._at < len(self._text):
            name = self._word("the name of a rule")
            self._skip(_BLANK)
            self._expect("::=", _BLANK_LINES)
            rules[name] = self._choice(_BLANK)  # a later rule of the same name replaces it
            spend(_RULE_STEPS)
            if self._at < len(self._text) and self._text[self._at] not in "\r\n":
                self._fail("the end of the line")
            self._skip(_BLANK_LINES)
        for name in [self._root, *self._uses]:
            if name not in rules:
                position = self._uses[name][0] if name in self._uses else 0
                raise self._lines.error(f"there is no rule {quoted(name)}", position)
        names = _lark_names(rules, self._root)
        for name, (_, node) in self._uses.items():
            node.children.append(NonTerminal(names[name]))
        return Gbnf(self._lines, {names[name]: tree for name, tree in rules.items()}, self._placeholders)

    # --- the body of a rule ----------------------------------------------------------------------

    def _choice(self, blank: re.Pattern[str]) -> Any:
        """Sequences separated by `|`; `blank` may follow a part, and may include line ends or not."""
        sequences = [self._sequence(blank)]
        while self._text.startswith("|", self._at):
            self._expect("|", _BLANK_LINES)
            sequences.append(self._sequence(blank))
        return Tree("expansions", sequences)

    def _sequence(self, blank: re.Pattern[str]) -> Any:
        parts: list[Any] = []
        text, nodes = self._text, self._nodes
        while True:
            known = _WORD.match(text, self._at)
            part = nodes.get(known[1]) if known else None
            if known and part is not None:
                self._at = known.end()
            elif (part := self._part()) is None:
                break
            if text[self._at : self._at + 1] in _BLANKS:
                self._skip(blank)
            if text[self._at : self._at + 1] in _REPETITIONS:
                part = self._repetitions(part, blank)
            if part is not _EMPTY:
                parts.append(part)
        spend(1 + len(parts))
        return Tree("expansion", parts)

    def _part(self) -> Any:
        """The tree of the next part, `_EMPTY` for an empty one, None where the sequence ends."""
        spend()
        next_one = self._text[self._at : self._at + 1]
        if next_one == '"':
            return self._literal()
        if next_one == "[":
            return self._class()
        if next_one == "(":
            return self._group()
        if next_one == ".":
            self._at += 1
            return self._node("REGEXP", _ANY_CHARACTER, self._at - 1)
        if next_one in ("<", "!"):
            return self._token()
        if name := _NAME.match(self._text, self._at):
            self._refuse_macro(name)
            at, self._at = self._at, name.end()
            return self._uses.setdefault(name[0], (at, self._shared(name[0], [])))[1]
        return None

    def _refuse_macro(self, name: re.Match[str]) -> None:
        is_call = name[0] in _MACROS and self._text.startswith("(", name.end())
        if is_call and name[0] not in self._own_macros:
            text = f"{name[0]}(...) is not supported: structural tags say the same"
            raise self._lines.error(text, name.start())

    @cached_property
    def _own_macros(self) -> set[str]:
        """The names of macros that are those of rules here."""
        return set(_MACRO_HEAD.findall(self._text))

    def _group(self) -> Any:
        spend()
        self._depth += 1
        self._check_depth(self._depth)
        self._expect("(", _BLANK_LINES)
        asserts = self._text.startswith("=", self._at)
        if asserts:
            self._expect("=", _BLANK_LINES)
        inside = self._choice(_BLANK_LINES)
        self._expect(")", None)
        self._depth -= 1
        return _EMPTY if asserts else inside

    def _token(self) -> Any:
        token = _TOKEN.match(self._text, self._at)
        if token is None:
            self._fail("a token such as <name> or <[12]>")
        text = token[0]
        at, self._at = self._at, token.end()
        if text not in self._nodes:
            name = f"X{len(self._placeholders)}"
            self._placeholders[name] = self._tokens.placeholder(Word("token", text, at, self._at))
            self._shared(text, [Terminal(name)])
        return self._nodes[text]

    def _node(self, kind: str, text: str, at: int) -> Any:
        """The tree of a literal in Lark's notation."""
        node = self._nodes.get(text)
        if node is None:
            literal = Token(kind, text, at, *self._lines.location(at))
            node = self._shared(text, [Tree("literal", [literal])])
        return node

    def _shared(self, text: str, children: list[Any]) -> Any:
        """The tree of what is written as `text`: all of it share one."""
        if len(text) > MAX_WORD:
            message = f"a word is longer than {MAX_WORD} characters"
            raise GrammarLimitError(message, *self._lines.location(self._at))
        spend(_WORD_STEPS)
        node = self._nodes[text] = Tree("value", children)
        return node

    def _repetitions(self, part: Any, blank: re.Pattern[str]) -> Any:
        """`part` with the repetitions that follow it, if any."""
        one_class, depth = _class_of(part), self._depth
        while times := _TIMES.match(self._text, self._at):
            part = self._repeated(part, times, one_class)
            one_class = None
            self._at = times.end()
            self._skip(blank)
            self._check_depth(depth := depth + 1)
        return part

    def _check_depth(self, depth: int) -> None:
        if depth > MAX_BRACKETS:
            text = f"groups and repetitions are nested more than {MAX_BRACKETS} deep"
            raise GrammarLimitError(text, *self._lines.location(self._at))

    def _repeated(self, part: Any, times: re.Match[str], one_class: Any) -> Any:
        """`part` repeated; a class becomes one terminal, which is faster than one for every character.

        one_class   the regular expression of a class that is `part`; else None
        """
        spend(_REPETITION_STEPS)
        if part is _EMPTY:
            self._fail("something to repeat")
        if len(times[0]) > MAX_NUMBER:
            text = f"a number is longer than {MAX_NUMBER} characters"
            raise GrammarLimitError(text, *self._lines.location(self._at))
        low, high = _bounds(times)
        if high == 0:
            return _NOTHING
        if high is not None and high < low:
            self._fail(f"at least {low} as the upper bound")
        if part.data == "expr":
            part = Tree("expansions", [Tree("expansion", [part])])
        elif one_class is not None:
            pattern, flags = one_class[1:].rsplit("/", 1)
            text = f"/{pattern}{_count(max(low, 1), high)}/{flags}"  # no terminal may be empty
            repeated = self._node("REGEXP", text, one_class.start_pos)
            return repeated if low else Tree("expr", [repeated, "?"])
        if (low, high) in _OPERATORS:
            return Tree("expr", [part, _OPERATORS[low, high]])
        if (low, high) not in self._counts:
            place = self._at, *self._lines.location(self._at)
            both = (low, ENDLESS if high is None else high)
            self._counts[low, high] = [Token("NUMBER", str(bound), *place) for bound in both]
        return Tree("expr", [part, "~", *self._counts[low, high]])

    # --- characters ------------------------------------------------------------------------------

    def _literal(self) -> Any:
        start = self._at
        if simple := _SIMPLE_LITERAL.match(self._text, start):
            self._at = simple.end()
            return self._node("STRING", simple[0], start) if len(simple[0]) > 2 else _EMPTY
        self._at += 1
        chars = []
        while not self._text.startswith('"', self._at):
            spend()
            chars.append(self._char('"'))
        self._at += 1
        return self._node("STRING", '"' + "".join(map(_in_string, chars)) + '"', start) if chars else _EMPTY

    def _class(self) -> Any:
        start = self._at
        node = self._node("REGEXP", self._new_class(), start)
        self._nodes[self._text[start : self._at]] = node
        return node

    def _new_class(self) -> str:
        self._at += 1
        negated = self._text.startswith("^", self._at)
        self._at += negated
        ranges = []
        while not self._text.startswith("]", self._at):
            spend(2)
            first = last = self._char("]")
            following = self._text[self._at + 1 : self._at + 2]
            if self._text.startswith("-", self._at) and following not in ("]", ""):
                self._at += 1
                last = self._char("]")
            if last < first:
                self._fail(f"a range that does not end before {quoted(first)}")
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
        text = self._text
        if text[self._at : self._at + 1] in _BLANKS and (found := blank.match(text, self._at)):
            self._at = found.end()
        at_line_end = blank is _BLANK and text[self._at : self._at + 1] in _LINE_ENDS
        if at_line_end and (found := _NEXT_LINE.match(text, self._at)):
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
        position = f"before {quoted(rest)}" if rest else "at the end"
        raise self._lines.error(f"GBNF: expected {expected} {position}", self._at)


# --- in Lark -------------------------------------------------------------------------------------


def _lark_names(rules: Iterable[str], root: str) -> dict[str, str]:
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
    return low, int(times[3]) if times[3] and times[3] != "-1" else None


def _class_of(part: Any) -> Any:
    """The regular expression of a class of characters; None for any other part."""
    literal = part.children[0] if part is not _EMPTY and part.data == "value" and part.children else None
    token = literal.children[0] if isinstance(literal, Tree) else None
    return token if isinstance(token, Token) and token.type == "REGEXP" else None


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
