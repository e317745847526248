"""The order of terminals and their keywords are lark's, found without `re`."""

from __future__ import annotations

import contextlib
import os
import random
import re

import pytest
from lark.lexer import PatternRE, PatternStr, TerminalDef, _create_unless

from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.lark.contextual import rules_from_lalr
from engine_sampler.grammar.lark.contextual.lexer_order import LexerOrder, lexer_outlines
from engine_sampler.grammar.lark.messages import Messages
from engine_sampler.grammar.lark.statements import Scan
from engine_sampler.grammar.limits import LIMITS
from engine_sampler.grammar.regex.beginning import TEXT_BEGIN
from engine_sampler.grammar.regex.pattern import terminal_expression
from engine_sampler.grammar.work import counted_work

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))

ATOMS = [
    "a",
    "b",
    "ab",
    "[ab]",
    ".",
    "a?",
    "b*",
    "a+",
    "a{1,3}",
    r"\w",
    "é",
    "(?i:A)",
    "[^b]",
    "$",
    "^",
    r"\b",
]
ATOMS += ["(?<!b)", "(?<=a)", r"\Z", r"\B", "a*?", "(?m:^)"]


def random_pattern(draw: random.Random, depth: int) -> str:
    """A pattern over a few letters, with nested quantifiers, alternatives and lookarounds."""
    kind = draw.random()
    if depth == 0 or kind < 0.25:
        return draw.choice(ATOMS)
    if kind < 0.45:
        return f"(?:{random_pattern(draw, depth - 1)}|{random_pattern(draw, depth - 1)})"
    if kind < 0.65:
        count = draw.choice(["*", "+", "?", "{2}", "{1,3}", "*?", "+?", "??"])
        return f"(?:{random_pattern(draw, depth - 1)}){count}"
    if kind < 0.73:
        return f"(?{draw.choice('=!')}{random_pattern(draw, depth - 1)})"
    return random_pattern(draw, depth - 1) + random_pattern(draw, depth - 1)


def random_terminals(draw: random.Random) -> list[TerminalDef]:
    """Two patterns that can be read, and literals that they may match, with flags and priorities."""
    terminals: list[TerminalDef] = []
    while len(terminals) < 2:
        flags = draw.choice([(), (), ("i",)])
        pattern = PatternRE(random_pattern(draw, 3), flags)
        try:
            terminal_expression(pattern.to_regexp(), before=TEXT_BEGIN)
        except GrammarError:  # what follows would decide
            continue
        if pattern.min_width:
            terminals.append(TerminalDef(f"P{len(terminals)}", pattern, draw.choice([0, 0, 1])))
    for text in dict.fromkeys("".join(draw.choices("aabAé\n", k=draw.randint(1, 5))) for _ in range(9)):
        pattern = PatternStr(text, draw.choice([(), (), ("i",)]))
        terminals.append(TerminalDef(f"K{len(terminals)}", pattern, draw.choice([0, 0, 1])))
    return terminals


def entries_of_lark(terminals: list[TerminalDef], ignore: set[str]) -> list[tuple[str, bool, bool]]:
    """What lark's own lexer tries in turn; it has keywords in a table, here they stand before their name."""
    terminals = sorted(
        terminals, key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name)
    )
    tried, keywords = _create_unless(terminals, 0, re, False)
    places = {terminal.name: place for place, terminal in enumerate(terminals)}
    entries = []
    for terminal in tried:
        if terminal.name not in ignore and terminal.name in keywords:
            names = keywords[terminal.name].scanner.allowed_types
            entries += [(name, True, False) for name in sorted(names, key=places.__getitem__)]
        entries.append((terminal.name, False, terminal.name in ignore))
    return entries


def order_of(terminals: list[TerminalDef], ignore: set[str]) -> LexerOrder:
    expressions = {
        one.name: terminal_expression(one.pattern.to_regexp(), before=TEXT_BEGIN) for one in terminals
    }
    outlines = lexer_outlines(terminals, ignore, Messages(Scan("start:"), {}))
    return LexerOrder(terminals, ignore, outlines, expressions)


@pytest.mark.parametrize("seed", range(20 * ROUNDS))
def test_the_entries_of_a_lexer_are_those_of_lark(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(2):
        terminals = random_terminals(draw)
        ignore = {"P1"} if draw.random() < 0.3 else set()
        names = {one.name: 0 for one in terminals}
        assert order_of(terminals, ignore).entries(names) == entries_of_lark(terminals, ignore)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+c",
        "(a|a)*c",
        "(?:a|aa)+$",
        "(?:.*)*x",
        "((a*)*)*c",
        "(?:a?){20}a{20}b",
        "(?:(?:a|b)*a)+c",
        "(?!(?:a+)+b)a+c",
        "(?:a(?=(?:a+)+)|a)*c",
        "(?:a*?)*?c",
        "([ab]*a){9}c",
        "(?:a+b?)+(?<!a)c",
    ],
)
def test_a_pattern_and_a_literal_that_take_re_for_ever_take_little_work(pattern: str) -> None:
    """26 letters took `re` three seconds, and two more four times as long."""
    text = f'start: (W | K)+\nW: /{pattern}/\nK: "{"a" * 400}b"\n'
    with counted_work() as work, contextlib.suppress(GrammarError):  # for a lookahead in a loop, say
        rules_from_lalr(text)
    assert LIMITS.reading - work.left < 100_000


@pytest.mark.parametrize("seed", range(4 * ROUNDS))
def test_long_literals_take_work_in_proportion_whatever_the_pattern(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(4):
        pattern = "".join(f"(?:{random_pattern(draw, 4)}){draw.choice('*+')}" for _ in range(2)) + "c"
        literals = [
            TerminalDef(f"K{number}", PatternStr("".join(draw.choices("aaaaab", k=400))))
            for number in range(9)
        ]
        terminals = [TerminalDef("P", PatternRE(pattern)), *literals]
        with contextlib.suppress(GrammarError):
            order = order_of(terminals, set())
            with counted_work() as work:
                order.entries({one.name: 0 for one in terminals})
            assert LIMITS.reading - work.left < 20_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("start: A\nA: /a(/ | /b/", r"the terminal A: .*unterminated subpattern.*line 2"),
        ("start: A\nA: /a(/", r"the terminal A: .*unterminated subpattern.*line 2"),
        ("start: A /b[/\nA: /a/", r"the terminal /b\[/: .*unterminated character set"),
        ("start: A\nA: /a{2,1}/ | /b/", r"the terminal A: .*min repeat"),
    ],
)
def test_a_pattern_that_cannot_be_read_is_named(text: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        rules_from_lalr(text)


def test_classes_by_property_may_stand_in_alternatives() -> None:
    r"""Lark lets `re` parse alternatives to sort them, which cannot read `\p{..}`."""
    assert rules_from_lalr('start: (A | "é")+\nA: /\\p{Lu}+/ | /[0-9]\\p{L}/ | "x"').parser
