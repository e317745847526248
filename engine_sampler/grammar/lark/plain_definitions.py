"""Definitions in lark's plain notation, read here: lark's own loader takes tens of microseconds for a word.

    rule.2: "a" name* ("b" | [NAME])~2..3 -> alias        TERMINAL: "a" | "b".."c"

are read to the trees that lark's loader builds. Lark still reads all other statements; the names in them
are declared to it. A statement is left to lark if it has a template or an attribute, if another one extends
it, if it is a terminal that names one left to lark or is named by one, or if anything in it is unusual: then
lark tells what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lark import Token, Tree
from lark.grammar import TOKEN_DEFAULT_PRIORITY, NonTerminal, RuleOptions, Symbol, Terminal

from ..program.reaching import nodes_reaching
from ..work import spend
from .statements import EMPTY_STRINGS, Scan, Statement, Word, count_bounds

_RULE = re.compile(r"_?[a-z][_a-z0-9]*")
_TERMINAL = re.compile(r"_?[A-Z][_A-Z0-9]*")
_OTHER_SPACE = re.compile(r"\f|\r(?!\n)")
_MODIFIERS = ("", "!", "?", "!?", "?!")
_CLOSING = {"(": ")", "[": "]"}
_TYPES = {"string": "STRING", "regexp": "REGEXP"}
_OPERATORS = ("*", "+", "?", "~")
_FIRST_KINDS = ("string", "regexp", "name", "open")
"""The kinds of words that begin an item."""
_STEPS, _NODE_STEPS = 3, 2
"""The steps for a statement that is read here, beside one for each word, and for each word that is new."""


class Definition(NamedTuple):
    """A rule or a terminal as lark's loader would return it: its tree, and its options or its priority.

    is_terminal   whether it is a terminal
    uses    the names in it, each once
    """

    tree: Any
    options: Any
    is_terminal: bool
    uses: tuple[str, ...]


def plain_definitions(scan: Scan) -> dict[str, Definition]:
    """The definitions of a text that are plain, by name, in the order of the text."""
    statements = scan.statements
    if _OTHER_SPACE.search(scan.text) or not all(statement.kind for statement in statements):
        return {}
    bound = _bound_names(statements)
    definitions: dict[str, Definition] = {}
    terminals: dict[str, list[str]] = {}
    shared: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    for statement in statements:
        name = statement.defines
        if statement.kind == "terminal":
            terminals.setdefault(name, []).extend(statement.uses)
        if name and name not in bound:
            nodes = shared[statement.kind == "terminal"]
            known = len(nodes)
            spend(_STEPS + len(statement.words))
            definition = _Reader(scan, statement, nodes).definition()
            spend(_NODE_STEPS * (len(nodes) - known))
            if definition is not None:
                definitions[name] = definition
    for name in _left_to_lark(terminals, definitions):
        definitions.pop(name, None)
    for text, value in shared[True].items():
        if text in definitions:  # a name in a terminal, which stands for what it names
            value.children[0] = definitions[text].tree
    return definitions


def _left_to_lark(terminals: Mapping[str, Sequence[str]], plain: Container[str]) -> set[str]:
    """The terminals that lark reads, as it substitutes terminals: those that are not plain or lead back to
    themselves, and all that these name or are named by.

    terminals   the names in the definition of each
    """
    uses = [(name, used) for name, some in terminals.items() for used in some]
    ends = [*_circular(terminals), *(name for name in terminals if name not in plain)]
    ends += (used for _, used in uses if used not in terminals)
    return nodes_reaching([*uses, *((used, name) for name, used in uses)], ends)


def _circular(terminals: Mapping[str, Sequence[str]]) -> list[str]:
    """The terminals that lead back to themselves, or to one that does."""
    users: dict[str, list[str]] = {}
    for name, uses in terminals.items():
        for used in uses:
            users.setdefault(used, []).append(name)
    missing = {name: len(uses) for name, uses in terminals.items()}
    waiting = [name for name in {**terminals, **users} if not missing.get(name)]
    while waiting:
        for name in users.get(waiting.pop(), ()):
            missing[name] -= 1
            if not missing[name]:
                waiting.append(name)
    return [name for name, count in missing.items() if count]


def _bound_names(statements: Iterable[Statement]) -> set[str]:
    """The names whose definitions lark itself needs: it extends them, or substitutes them in what is never
    plain."""
    seen: set[str] = set()
    bound: set[str] = set()
    for statement in statements:
        words, name = statement.words, statement.defines
        if name in seen or (name and words[0].kind == "directive"):
            bound.add(name)
        seen.add(name)
        has_attributes = any(word.text == "[" for word in words[: statement.body])
        if has_attributes or (statement.kind == "%ignore" and len(words) > 2):
            bound.update(word.text for word in words[statement.name + 1 :] if word.kind == "name")
    return bound


_END = Word("end", "", 0, 0)


class _NotPlainError(Exception):
    """The statement is for lark to read."""


class _Reader:
    """Reads one statement, word by word.

    nodes   the nodes of words so far in statements of this kind: trees share them, with the place of the
            first one
    """

    def __init__(self, scan: Scan, statement: Statement, nodes: dict[str, Any]) -> None:
        self._scan = scan
        self._nodes = nodes
        self._words = [*statement.words, _END]
        self._at = statement.name
        self._is_terminal = statement.kind == "terminal"
        self._uses: dict[str, None] = {}

    def definition(self) -> Definition | None:
        """The definition; None if it is not plain."""
        try:
            options = self._head()
            tree = self._expansions("", 0)
        except _NotPlainError:
            return None
        return Definition(tree, options, self._is_terminal, tuple(self._uses))

    def _head(self) -> Any:
        """The options of a rule or the priority of a terminal; then the body is next."""
        words, number = self._words, self._at
        modifiers = "".join(word.text for word in words[:number]) if number else ""
        _require(modifiers in _MODIFIERS and words[number].start - words[0].start == len(modifiers))
        _require((_TERMINAL if self._is_terminal else _RULE).fullmatch(words[number].text))
        self._at += 1
        priority = int(self._take("number").text) if self._passed(".") else None
        _require(self._passed(":"))
        if self._is_terminal:
            _require(not modifiers)
            return priority or TOKEN_DEFAULT_PRIORITY
        _require("?" not in modifiers or not words[number].text.startswith("_"))
        return RuleOptions("!" in modifiers, "?" in modifiers, priority=priority)

    # --- the body ------------------------------------------------------------------------------------

    def _expansions(self, closing: str, depth: int) -> Any:
        """Alternatives up to `closing`, which is passed; "" is the end of the statement."""
        words = self._words
        alternatives = [self._alternative(depth)]
        while words[self._at].text == "|":
            self._at += 1
            alternatives.append(self._alternative(depth))
        _require(words[self._at].text == closing)
        self._at += 1
        return Tree("expansions", alternatives)

    def _alternative(self, depth: int) -> Any:
        items = []
        words = self._words
        while (word := words[self._at]).kind in _FIRST_KINDS:
            self._at += 1
            item = self._item(word, depth)
            following = words[self._at]
            if following.kind == "count" or following.text in _OPERATORS:
                item = self._repeated(item)
            items.append(item)
        tree = Tree("expansion", items)
        if word.kind != "arrow":
            return tree
        _require(depth == 0 and not self._is_terminal)
        self._at += 1
        name = self._take("name")
        _require(_RULE.fullmatch(name.text))
        return Tree("alias", [tree, NonTerminal(name.text)])

    def _item(self, word: Word, depth: int) -> Any:
        """The item that begins with `word`, which has been passed, without its repetition."""
        if word.kind == "open":
            closing = _CLOSING.get(word.text)
            _require(closing)
            inside = self._expansions(closing or "", depth + 1)
            return inside if closing == ")" else Tree("maybe", [inside])
        following = self._words[self._at]
        if word.kind == "name":
            _require(following.text != "{")
            self._uses[word.text] = None
        elif following.kind == "dots":
            self._at += 1
            ends = word, self._take("string")
            _require(word.kind == "string")
            return Tree("value", [Tree("range", [self._token("STRING", one) for one in ends])])
        node = self._nodes.get(word.text)
        if node is None:
            value = self._symbol(word.text) if word.kind == "name" else self._literal(word)
            node = self._nodes[word.text] = Tree("value", [value])
        return node

    def _symbol(self, name: str) -> Symbol:
        if not self._is_terminal and _RULE.fullmatch(name):
            return NonTerminal(name)
        _require(_TERMINAL.fullmatch(name))
        return Terminal(name, filter_out=name.startswith("_"))

    def _literal(self, word: Word) -> Any:
        _require(word.text not in EMPTY_STRINGS)
        return Tree("literal", [self._token(_TYPES[word.kind], word)])

    def _repeated(self, item: Any) -> Any:
        """`item` with the repetition that follows it."""
        word = self._words[self._at]
        if word.text in ("*", "+", "?"):
            self._at += 1
            after = self._words[self._at]
            # Before a letter, lark reads a question mark as a modifier.
            _require(word.text != "?" or after.kind != "name" or after.start > word.end)
            return Tree("expr", [item, self._token("OP", word)])
        if word.kind == "count":
            self._at += 1
            bounds = [self._token("NUMBER", word, bound) for bound in count_bounds(word.text)]
            _require(bounds)
        else:
            self._at += 1
            bounds = [self._token("NUMBER", self._take("number"))]
            if self._words[self._at].kind == "dots":
                self._at += 1
                bounds.append(self._token("NUMBER", self._take("number")))
        return Tree("expr", [item, self._token("TILDE", word, "~"), *bounds])

    def _token(self, kind: str, word: Word, text: str | None = None) -> Token:
        line, column = self._scan.location(word.start)
        return Token(kind, text or word.text, word.start, line, column)

    # --- words ---------------------------------------------------------------------------------------

    def _passed(self, text: str) -> bool:
        """Whether the next word is `text`, which is then passed."""
        found = self._words[self._at].text == text
        self._at += found
        return found

    def _take(self, kind: str) -> Word:
        """The next word, which must be of that kind."""
        word = self._words[self._at]
        _require(word.kind == kind)
        self._at += 1
        return word


def _require(condition: object) -> None:
    if not condition:
        raise _NotPlainError
