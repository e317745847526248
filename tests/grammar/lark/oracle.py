"""Lark itself as the oracle for the language of a grammar, and texts to compare on."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lark
from hypothesis import strategies as st
from lark.grammar import NonTerminal, Terminal

from engine_sampler.grammar.engines.reference import ReferenceGrammar
from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.lark.grammar import rules_from_lark
from engine_sampler.grammar.program.rules import Rules

from ..both_engines import Engine

DATA = Path(__file__).parents[1] / "data"
LIBRARY = Path(__file__).parents[3] / "grammars"

Language = Callable[[str], bool]


def language_of(rules: Rules, engine: Engine = ReferenceGrammar) -> Language:
    """A function: whether `engine` accepts a text under `rules`."""
    try:
        grammar = engine(rules.program(), ())
    except GrammarError as error:
        if "no text at all" not in str(error):
            raise
        return lambda text: False

    def accepts(text: str) -> bool:
        matcher = grammar.matcher()
        return bool(matcher.accept_bytes(text.encode()) and matcher.is_accepting())

    return accepts


def ours(text: str, **options: Any) -> Language:
    """The language of a grammar as this package reads it."""
    return language_of(rules_from_lark(text, **options))


class Oracle:
    """The language of a grammar as lark reads it."""

    def __init__(self, text: str, start: str = "start", **options: Any) -> None:
        self.parser = lark.Lark(
            text, parser="earley", lexer="dynamic_complete", start=start, ambiguity="forest", **options
        )
        self.start = NonTerminal(start)

    def __call__(self, text: str) -> bool:
        try:
            self.parser.parse(text)
        except lark.exceptions.UnexpectedInput:
            return False
        return True

    @functools.cached_property
    def expansions(self) -> dict[NonTerminal, list[tuple[int, list[Any]]]]:
        """The expansions of each rule, each with the depth of the smallest tree that it roots."""
        depth: dict[Any, int] = {}
        changed = True
        while changed:
            changed = False
            for rule in self.parser.rules:
                below = [0 if isinstance(s, Terminal) else depth.get(s) for s in rule.expansion]
                if None not in below:
                    new = 1 + max(below, default=0)
                    if new < depth.get(rule.origin, new + 1):
                        depth[rule.origin], changed = new, True
        found: dict[NonTerminal, list[tuple[int, list[Any]]]] = {}
        for rule in self.parser.rules:
            below = [0 if isinstance(s, Terminal) else depth.get(s, 10**6) for s in rule.expansion]
            found.setdefault(rule.origin, []).append((1 + max(below, default=0), rule.expansion))
        return found

    @functools.cached_property
    def terminals(self) -> dict[str, st.SearchStrategy[str]]:
        """The texts of each terminal."""
        return {
            terminal.name: st.from_regex(re.compile(terminal.pattern.to_regexp()), fullmatch=True)
            for terminal in self.parser.terminals
        }

    def text(self, draw: Callable[[Any], Any], budget: int = 25) -> str:
        """A text that is most likely in the language: that of a random tree, kept small once it is large."""
        pieces: list[str] = []
        waiting: list[Any] = [self.start]
        while waiting:
            symbol = waiting.pop()
            if isinstance(symbol, Terminal):
                pieces.append(draw(self.terminals[symbol.name]))
                if self.parser.ignore_tokens and draw(st.integers(0, 3)) == 0:
                    pieces.append(draw(self.terminals[self.parser.ignore_tokens[0]]))
                continue
            ways = self.expansions[symbol]
            if budget <= 0:
                least = min(depth for depth, _ in ways)
                ways = [way for way in ways if way[0] == least]
            budget -= 1
            waiting += reversed(draw(st.sampled_from(ways))[1])
        return "".join(pieces)


def spoiled(draw: Callable[[Any], Any], text: str) -> str:
    """`text` with a character inserted, deleted or replaced, or with two pieces swapped."""
    at = draw(st.integers(0, len(text)))
    other = draw(st.sampled_from(list(text) or ["a"]) | st.sampled_from(" \n\"'()a1,;é"))
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return text[:at] + other + text[at:]
    if kind == 1:
        return text[:at] + text[at + 1 :]
    if kind == 2:
        return text[:at] + other + text[at + 1 :]
    return text[at:] + text[:at]


_names = st.sampled_from(["a", "b", "c"])
_strings = st.sampled_from(['"a"', '"b"', '"ab"', '"ba"', '"A"i'])
_plain_expressions = ["/a+/", "/a*b/", "/(ab|b)+/", "/a+?b?/", "/[ab]/", "/b|ba/", '"a".."b"', "/A/i"]
_expressions = st.sampled_from(_plain_expressions)
# Lark drops lookaheads when it tries shorter texts of a terminal, so these have a single length.
_guarded = st.sampled_from(["/a(?!b)/", "/(?!b)[ab]/", "/ab(?!a)/"])
_terminals = st.sampled_from(["X", "Y"])


def _grouped(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    sequence = st.lists(parts, min_size=1, max_size=3).map(" ".join)
    choice = st.lists(sequence, min_size=2, max_size=3).map(" | ".join).map("({})".format)
    repeated = st.tuples(parts, st.sampled_from(["?", "*", "+", "~2", "~0..2", "~1..3"]))
    optional = sequence.map("[{}]".format)
    return (
        choice | sequence.map("({})".format) | optional | repeated.map(lambda pair: f"({pair[0]}){pair[1]}")
    )


_rule_parts = st.recursive(_names | _strings | _expressions | _guarded | _terminals, _grouped, max_leaves=6)
_rule_bodies = st.lists(
    st.lists(_rule_parts, min_size=0, max_size=3).map(" ".join), min_size=1, max_size=3
).map(" | ".join)


def _is_small(body: str) -> bool:
    """Whether lark, which expands every choice and count, builds few rules from `body`."""
    return 3 * body.count("~") + sum(map(body.count, "[?|")) <= 6


_terminal_bodies = st.lists(_strings | _expressions, min_size=1, max_size=2).map(" ".join) | st.lists(
    _strings | _expressions, min_size=2, max_size=3
).map(" | ".join)
_ignored = st.sampled_from(["", "", "%ignore /_+/\n", '%ignore "_"\n', '%ignore "_"\n%ignore /-+/\n'])


@st.composite
def small_grammars(draw: st.DrawFn) -> str:
    """Small grammars over a few characters: three rules and two terminals, often recursive and ambiguous."""
    lines = ["start: a"]
    lines += [f"{name}: {draw(_rule_bodies.filter(_is_small))}" for name in "abc"]
    lines += [f"{name}: {draw(_terminal_bodies)}" for name in "XY"]
    return "\n".join(lines) + "\n" + draw(_ignored)
