"""`^`, `\\b` and lookbehinds at the beginning of a terminal, where the text before it is known."""

from __future__ import annotations

from itertools import product

import pytest

from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.lark.contextual import rules_from_lalr
from engine_sampler.grammar.lark.grammar import rules_from_lark
from engine_sampler.grammar.program.byte_sets import last_bytes
from engine_sampler.grammar.program.expression import automaton, both, concat, guard, literal, repeat, union
from engine_sampler.grammar.program.expression import byte_class as of

from ..contextual.test_reading import Contextual
from ..oracle import Oracle, language_of, ours

DECIDED = {
    "the beginning of the text": 'start: A B?\nA: /^a+/\nB: "b"',
    "never the beginning": 'start: A B\nA: /a/\nB: /^b/ | "x"',
    "words apart": 'start: W (" " W)*\nW: /\\b[ab]+\\b/',
    "one before another": 'start: "x" A | "y" B\nA: /(?<=x)a/\nB: /(?<!x)b/',
    "in a rule": 'start: "x" /(?<=x)a/ | "y" /(?<=y)b/ | /\\bb/ "a"',
    "lines": 'start: L ("\\n" L)*\nL: /(?m:^)[ab]+(?m:$)/',
    "behind ignored text": 'start: "x"? A\nA: /(?<![ab])a/\n%ignore " "',
    "at its own end": 'start: A B?\nA: /[ab]+(?<!bab)/\nB: "x"',
    "required at its own end": "start: A\nA: /[abx]+(?<=ab)/",
    "at its own end, behind other characters": 'start: ("x" | "y") A\nA: /[ab]+(?<!ab)/',
    "in its middle": "start: A\nA: /[ab]*(?<!ba)x[ab]?/",
    "behind several rules": 'start: item+\nitem: word "."\nword: /\\b[ab]+/ | "x" "y" /\\Bb/',
}


BY_LEXERS = DECIDED | {
    "one of a higher priority never matches": 'start: ("x" A | "y")+\nA: /[ab]+/\nC.1: /(?<=c)b/\n%ignore C',
    "a keyword": 'start: (NAME " ")+ "a!"\nNAME: /\\b[ab]+\\b/',
}


@pytest.mark.parametrize("name", BY_LEXERS)
def test_it_has_its_meaning_for_lexers_where_all_that_comes_before_agrees(name: str) -> None:
    text = BY_LEXERS[name]
    language, oracle = language_of(rules_from_lalr(text)), Contextual(text)
    for length in range(5):
        for characters in product("abxy. \n"[: 7 - length // 2], repeat=length):
            assert language("".join(characters)) == oracle("".join(characters)), characters


@pytest.mark.parametrize(
    "grammar",
    [
        'start: "x"? B\nB: /^b/',
        'start: W+\nW: /\\b[ab]+/\n%ignore " "',
        'start: ("x" | "y") A\nA: /(?<=x)a/',
        "start: <|x|> A\nA: /(?<=x)a/",
    ],
)
def test_it_is_refused_for_lexers_where_the_text_before_decides(grammar: str) -> None:
    with pytest.raises(GrammarError, match=r"the terminal [ABW]: .* depends on the text before a terminal"):
        rules_from_lalr(grammar, special_tokens={"<|x|>": 1})


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("name", DECIDED)
def test_it_has_its_meaning_where_all_that_comes_before_agrees(name: str) -> None:
    language, oracle = ours(DECIDED[name]), Oracle(DECIDED[name])
    for length in range(5):
        for characters in product("abxy. \n"[: 7 - length // 3], repeat=length):
            text = "".join(characters)
            assert language(text) == oracle(text), text


@pytest.mark.parametrize(
    "grammar",
    [
        'start: "x"? B\nB: /^b/',
        'start: "." E A\nE: /b?/\nA: /\\ba/',
        'start: W+\nW: /\\b[ab]+/\n%ignore " "',
        'start: ("x" | "y") A\nA: /(?<=x)a/',
        'start: "xy" A\nA: /(?<=xy)a/',
        "start: %json {} A\nA: /(?<=x)a/",
        "start: <|x|> A\nA: /(?<=x)a/",
        'start: "x" A\nA: /b?(?<=x)a/',
        'start: "b" A\nA: /[ab]+(?<!bab)/',
        "start: A+\nA: /[ab]+(?<!bab)/",
    ],
)
def test_it_is_refused_where_the_text_before_decides(grammar: str) -> None:
    with pytest.raises(GrammarError, match=r"the terminal [ABW]: .* depends on the text before a terminal"):
        rules_from_lark(
            grammar, special_tokens={"<|x|>": 1}, schema_rules=lambda schema, rules: rules.rule("x")
        )


def test_the_last_bytes_of_an_expression() -> None:
    ab = literal(b"ab")
    digits = of(0x3FF << 48)
    states = ((False, ((97, 97, 1), (120, 121, 0))), (True, ((98, 99, 1),)))
    for expression, last in (
        (ab, "b"),
        (union(ab, literal(b"xc")), "bc"),
        (concat(ab, repeat(digits, 0, 3)), "b0123456789"),
        (both(union(ab, literal(b"xc")), concat(repeat(digits), literal(b"zc"))), "c"),
        (concat(ab, guard(literal(b""), digits)), "b"),
        (automaton(states), "abc"),
    ):
        assert last_bytes(expression) == sum(1 << ord(character) for character in last)
