"""No loop that a text in Lark's language or in GBNF drives runs for long without counting its work."""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.lark.contextual import rules_from_lalr
from engine_sampler.grammar.lark.grammar import rules_from_gbnf, rules_from_lark
from engine_sampler.grammar.program.rules import Rules

from ..regex.random_patterns import WIDE_LETTERS, joined
from ..schema.test_counted_work import MOST_LINES, metered
from .random_texts import random_gbnf, random_lark

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))

READERS: dict[str, tuple[Callable[[str], Rules], Callable[[random.Random], str]]] = {
    "lark": (rules_from_lark, random_lark),
    "contextual": (rules_from_lalr, random_lark),
    "gbnf": (rules_from_gbnf, random_gbnf),
}
"""What reads each notation, and what writes random grammars in it."""

HEAVY: dict[tuple[str, str], str] = {
    ("lark", "many rules"): "start: r0\n" + joined("\n", 'r{n}: "a{n}" r{next} | "b"', 400) + '\nr400: "z"',
    ("lark", "many repetitions"): "start: " + joined(" ", '("a" | "b"~1..{next})~0..{next}', 60),
    ("lark", "many conditions"): 'start: r::0\nr::_: "a" r::incr(_) %if lt(_, 4000)'
    + joined("", '\n| "{n}" %if and(bit_set(63), lt(_, {next}))', 3000),
    ("lark", "a long condition"): 'start: r::0\nr::_: "a" %if '
    + functools.reduce(lambda inner, _: f"and({inner}, {inner})", range(15), "true"),
    ("contextual", "many templates"): "start: "
    + joined(" ", 't{{"a{n}", "b"}}', 40)
    + "\nt{x, y}: x y | y t{x, y}?",
    ("gbnf", "a large class"): f"root ::= [{WIDE_LETTERS}]*",
    ("gbnf", "a long literal"): 'root ::= "' + "é\\n" * 3000 + '"',
    ("gbnf", "many classes"): "root ::= " + joined(" ", "[^{n}-\\U0001{n:04x}]{{0,{next}}}", 100),
    ("gbnf", "many repetitions"): "root ::= " + joined(" ", '("a" | "b"{{1,{next}}}){{0,{next}}}', 60),
}


@pytest.mark.quick_share(3)
@pytest.mark.parametrize(("reader", "name"), HEAVY)
def test_work_is_counted_at_least_every_ten_milliseconds(reader: str, name: str) -> None:
    with metered(100_000) as meter, suppress(GrammarError):
        READERS[reader][0](HEAVY[reader, name]).program()
    assert meter.longest[0] <= MOST_LINES, meter.longest


@pytest.mark.parametrize("reader", READERS)
def test_the_work_of_random_nested_grammars_is_counted(reader: str) -> None:
    read, write = READERS[reader]
    for seed in range(6 * ROUNDS):
        text = write(random.Random(seed))
        with metered(8000) as meter, suppress(GrammarError):
            read(text).program()
        assert meter.longest[0] <= MOST_LINES, (seed, meter.longest)
