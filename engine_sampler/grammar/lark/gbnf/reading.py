"""Reads GBNF to the trees that lark builds of a grammar in its own language."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from lark import Token, Tree
from lark.grammar import NonTerminal, Terminal

from ....base.cached import cached_property
from ....base.errors import quoted
from ...errors import GrammarError, GrammarLimitError
from ...program.settings import Mark
from ...work import counted_work, spend
from ..extensions.placeholders import Placeholder, SpecialTokens
from ..extensions.regular_rules import RegularRule
from ..extensions.rule_attributes import BoundedText
from ..statements import ENDLESS, MAX_BRACKETS, MAX_NUMBER, MAX_WORD, Lines, Word
from .attributes import Attributes, read_attributes
from .characters import BLANK, BLANK_LINES, BLANKS, NAME, Characters, in_string
from .macros import MACROS, RuleName, read_macro

_FIRST_HEAD = re.compile(
    r"(?:[ \t\r\n]|(?:#|//)[^\r\n]*(?![^\r\n]))*[A-Za-z0-9_.-]+(?:\[[^\]\r\n]*\])?[ \t]*::="
)
_SIMPLE_LITERAL = re.compile(r'"[ !#-\[\]-~]*"')
"""A literal that is the same in Lark."""
_ANY_CHARACTER = "/./s"
_WORD = re.compile(rf"({_SIMPLE_LITERAL.pattern}|\[(?:[^\]\\]|\\.)*\]|{NAME.pattern})[ \t]*", re.DOTALL)
"""Most literals, classes and names, with the blanks that follow."""
_TOKEN = re.compile(r"!?<[^<>\s]+>")
_MACRO_HEAD = re.compile(rf"^[ \t]*({'|'.join(MACROS)})[ \t]*::=", re.MULTILINE)
_NUMBER = re.compile(r"\d{1,9}(?![\w.-])")
_KEY = re.compile(r"([a-z_]+)[ \t]*=(?!=)")
_TRUTHS = {"true": True, "false": False}
_EMPTY = object()
"""A part that matches the empty text, and is left out."""
_OPERATORS = {(0, 1): "?", (0, None): "*", (1, None): "+"}
_REPETITIONS = ("*", "+", "?", "{")
_RULE_STEPS, _REPETITION_STEPS, _WORD_STEPS = 6, 3, 2
"""The steps for a rule, a repetition, and a word that is new, beside those for the parts of a sequence."""
_TIMES = re.compile(r"[*+?]|\{[ \t]*(\d+)[ \t]*(?:(,)[ \t]*(?:(\d+|-1)[ \t]*)?)?\}")


def is_gbnf(text: str) -> bool:
    """Whether a grammar defines its first rule by `::=`, as no grammar in Lark's language does: later lines
    may lie within a literal."""
    return _FIRST_HEAD.match(text) is not None


class Gbnf(NamedTuple):
    """A grammar as `rules_from_gbnf` takes it.

    rules         the tree of each rule by its name in Lark: that of the first one is `start`
    placeholders  the terminals that are special tokens
    captures      the names under which matches of rules are reported, by rule
    settings      the sampling parameters that rules set
    lazy          the rule that each lazy terminal stands for
    written       how the rules are called in GBNF
    defined       where they are defined
    """

    lines: Lines
    rules: dict[str, Any]
    placeholders: dict[str, Placeholder]
    captures: dict[str, str]
    settings: dict[str, Mark]
    budgets: dict[str, int]
    lazy: dict[str, str]
    written: dict[str, str]
    defined: dict[str, int]


def read_gbnf(text: str, root: str = "root") -> Gbnf:
    """The GBNF grammar `text`, whose texts `root` derives.

    Raises GrammarError with line and column for text that cannot be read, and for rules that are missing.
    """
    with counted_work():
        return _Reader(text, root).read()


_NOTHING: Any = Tree("expansions", [Tree("expansion", [])])
"""What matches the empty text."""


class _Reader(Characters):
    """Reads rule after rule."""

    def __init__(self, text: str, root: str) -> None:
        super().__init__(text)
        self._root = root
        self._depth = 0
        self._tokens = SpecialTokens(self._lines)
        self._placeholders: dict[str, Placeholder] = {}
        self._captures: dict[str, str] = {}
        """The names of captures by rule."""
        self._settings: dict[str, Mark] = {}
        self._budgets: dict[str, int] = {}
        self._terminals: dict[str, tuple[Word, Attributes]] = {}
        """The rules that are one terminal, with the words of their attributes."""
        self._nodes: dict[str, Any] = {}
        """The trees of words so far, by what is written here or in Lark."""
        self._counts: dict[tuple[int, int | None], list[Any]] = {}
        """The bounds of repetitions so far, with the place of the first one."""
        self._uses: dict[str, tuple[int, Any]] = {}
        """The position of the first use of each rule, and the node that all uses share."""

    def read(self) -> Gbnf:
        rules: dict[str, Any] = {}
        defined: dict[str, int] = {}
        self._skip(BLANK_LINES)
        while self._at < len(self._text):
            at = self._at
            name = self._word("the name of a rule")
            self._attributes(name)
            self._skip(BLANK)
            self._expect("::=", BLANK_LINES)
            tree = self._choice(BLANK)
            if rules.setdefault(name, tree) != tree:
                line, column = self._lines.location(at)
                place = f"line {line}, column {column}"
                text = f"the rule {quoted(name)} is defined again ({place}): the last one counts"
                warnings.warn(f"{text}, as in llama.cpp", stacklevel=2)
                rules[name] = tree
            defined[name] = at
            spend(_RULE_STEPS)
            if self._at < len(self._text) and self._text[self._at] not in "\r\n":
                self._fail("the end of the line")
            self._skip(BLANK_LINES)
        for name in [self._root, *self._uses]:
            if name not in rules:
                position = self._uses[name][0] if name in self._uses else 0
                raise self._lines.error(f"there is no rule {quoted(name)}", position)
        names = _lark_names(rules, self._root)
        for name, (_, node) in self._uses.items():
            node.children.append(NonTerminal(names[name]))
        captures = {names[name]: capture for name, capture in self._captures.items()}
        settings = {names[name]: mark for name, mark in self._settings.items()}
        trees = {names[name]: tree for name, tree in rules.items()}
        budgets = {names[name]: most for name, most in self._budgets.items()}
        lazy = self._write_terminals(trees, names, {*captures, *settings, *budgets})
        written = {new: name for name, new in names.items()}
        places = {names[name]: at for name, at in defined.items()}
        return Gbnf(
            *(self._lines, trees, self._placeholders, captures, settings, budgets, lazy, written, places)
        )

    def _write_terminals(
        self, trees: dict[str, Any], names: Mapping[str, str], marked: set[str]
    ) -> dict[str, str]:
        """Let the rules that are one terminal name one, and return the rules of the lazy ones by these.

        marked   the rules with other attributes
        """
        lazy = {}
        written, shown = trees.copy(), {new: name for name, new in names.items()}
        marked |= {names[name] for name in self._terminals}
        for name, (word, attributes) in self._terminals.items():
            rule = names[name]
            node = self._new_terminal(Placeholder("rule", word, RegularRule(rule, written, marked, shown)))
            if attributes.max_tokens or attributes.max_chars:
                text = BoundedText(node.children[0].name, "", attributes.max_tokens, attributes.max_chars)
                node = self._new_terminal(Placeholder("bounded", word, text))
            if attributes.is_lazy:
                lazy[node.children[0].name] = rule
            trees[rule] = Tree("expansions", [Tree("expansion", [node])])
        return lazy

    def _attributes(self, rule: str) -> None:
        """Read the attributes of a rule, if any."""
        if not self._text.startswith(("[", ","), self._at):
            return
        at, attributes = self._at, read_attributes(self._lines, self._at, rule)
        self._at = attributes.end
        if attributes.capture is not None:
            self._captures[rule] = attributes.capture
        if attributes.mark is not None:
            self._settings[rule] = attributes.mark
        if attributes.max_tokens and not attributes.is_terminal:
            self._budgets[rule] = attributes.max_tokens
        if attributes.is_terminal:
            self._terminals[rule] = Word("token", rule, at, self._at), attributes

    # --- the body of a rule ----------------------------------------------------------------------

    def _choice(self, blank: re.Pattern[str]) -> Any:
        """Sequences separated by `|`; `blank` may follow a part, and may include line ends or not."""
        sequences = [self._sequence(blank)]
        while self._text.startswith("|", self._at):
            self._expect("|", BLANK_LINES)
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
            if text[self._at : self._at + 1] in BLANKS:
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
        if name := NAME.match(self._text, self._at):
            at, self._at = self._at, name.end()
            if name[0] in MACROS and self._text.startswith("(", self._at) and name[0] not in self._own_macros:
                return self._macro(name[0], at)
            return self._use(name[0], at)
        return None

    def _use(self, name: str, at: int) -> Any:
        """The tree of a use of the rule `name`."""
        if name not in self._uses:
            self._uses[name] = at, self._shared(name, [])
        return self._uses[name][1]

    # --- macros ----------------------------------------------------------------------------------

    def _macro(self, name: str, at: int) -> Any:
        """The tree of a macro of xgrammar's."""
        options: dict[str, Any] = {}
        arguments = self._arguments(options, 0)
        try:
            ways, other, loops, apart = read_macro(name, arguments, options)
        except GrammarError as error:
            raise type(error)(f"{name}: {error.text}", *self._lines.location(at)) from None
        word = Word("token", name, at, self._at)
        sequences = []
        for (kind, value), rule in ways:
            parts = [self._new_terminal(Placeholder(kind, word, value))]
            parts += [self._use(rule.name, rule.at)] if rule else []
            sequences.append(Tree("expansion", parts))
        if other is None:
            return Tree("expansions", sequences)
        free = self._new_terminal(Placeholder(other[0], word, other[1]))
        if other[0] == "other":  # one token
            free = Tree("expr", [free, "*"])
        if not sequences:
            return Tree("expansions", [Tree("expansion", [free])])
        if apart:
            sequences = [Tree("expansion", [free, Tree("expansions", sequences)])]
        if not loops:
            return Tree("expansions", [*sequences, Tree("expansion", [free])])
        looped = Tree("expr", [Tree("expansions", sequences), "*"])
        return Tree("expansions", [Tree("expansion", [looped, free])])

    def _new_terminal(self, placeholder: Placeholder) -> Any:
        spend(_WORD_STEPS)
        name = f"X{len(self._placeholders)}"
        self._placeholders[name] = placeholder
        return Tree("value", [Terminal(name)])

    def _arguments(self, options: dict[str, Any] | None, depth: int) -> list[Any]:
        """The arguments in parentheses; those with a name go to `options`."""
        arguments: list[Any] = []
        self._expect("(", BLANK_LINES)
        while not self._text.startswith(")", self._at):
            spend(2)
            key = _KEY.match(self._text, self._at) if options is not None else None
            if key and options is not None:
                self._at = key.end()
                self._skip(BLANK_LINES)
                options[key[1]] = self._argument(depth)
            else:
                arguments.append(self._argument(depth))
            self._skip(BLANK_LINES)
            if not self._text.startswith(")", self._at):
                self._expect(",", BLANK_LINES)
        self._at += 1
        return arguments

    def _argument(self, depth: int) -> Any:
        at, text = self._at, self._text
        if text.startswith("(", at) and depth == 0:
            return self._arguments(None, 1)
        if text.startswith('"', at):
            return self._characters()
        if number := _NUMBER.match(text, at):
            self._at = number.end()
            return int(number[0])
        name = self._word("a text, a number or the name of a rule")
        return _TRUTHS[name] if name in _TRUTHS else RuleName(name, at)

    @cached_property
    def _own_macros(self) -> set[str]:
        """The names of macros that are those of rules here."""
        return set(_MACRO_HEAD.findall(self._text))

    def _group(self) -> Any:
        spend()
        self._depth += 1
        self._check_depth(self._depth)
        self._expect("(", BLANK_LINES)
        asserts = self._text.startswith("=", self._at)
        if asserts:
            self._expect("=", BLANK_LINES)
        inside = self._choice(BLANK_LINES)
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
            placeholder = self._tokens.placeholder(Word("token", text, at, self._at))
            self._shared(text, self._new_terminal(placeholder).children)
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
        if len(times[0]) > MAX_NUMBER:
            text = f"a number is longer than {MAX_NUMBER} characters"
            raise GrammarLimitError(text, *self._lines.location(self._at))
        low, high = _bounds(times)
        if part is _EMPTY:
            return _EMPTY
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
        chars = self._characters()
        return self._node("STRING", '"' + "".join(map(in_string, chars)) + '"', start) if chars else _EMPTY

    def _class(self) -> Any:
        start = self._at
        node = self._node("REGEXP", self._class_pattern(), start)
        self._nodes[self._text[start : self._at]] = node
        return node


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
