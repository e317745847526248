"""Rules of EBNF that are one terminal: lazy ones, and those whose length is bounded."""

from __future__ import annotations

import itertools
import random

import pytest

from engine_sampler.grammar import Grammar, GrammarError, GrammarLimitError
from engine_sampler.grammar.compiled import CompiledGrammar
from engine_sampler.grammar.lark.grammar import rules_from_gbnf
from engine_sampler.tokenizer import Tokenizer

from ...both_engines import ENGINES, Engine, allowed, every_engine
from ..oracle import language_of

TOKENIZER = Tokenizer([b"a", b"b", b"<", b">", b"ab", b"ba", b"a>", b""], [7])
TEXTS = ["".join(letters) for length in range(6) for letters in itertools.product("ab", repeat=length)]


def random_rules(seed: int) -> str:
    """Rules `r`, `s` and `u` that name themselves and each other, at their ends only; each ends somewhere."""
    rng = random.Random(seed)

    def part(names: str) -> str:
        word = rng.choice(['"a"', '"b"', '"ab"', "[ab]", '("a" | "bb")', '"b"?', '"a"{1,2}', "u"])
        last = rng.choice(["", "", f" {rng.choice(names)}", f" ({rng.choice(names)})?"])
        return word + last

    lines = []
    for name, names in (("r", "rs"), ("s", "rs")):
        ways = [part(names) for _ in range(rng.randrange(1, 3))]
        lines.append(f"{name}%s ::= " + " | ".join([*ways, rng.choice(['"a"', '"b"', '""'])]))
    return "\n".join([lines[0], lines[1] % "", 'u ::= "b" | "a" "a"'])


@pytest.mark.parametrize("seed", range(30))
def test_a_rule_that_is_one_terminal_derives_what_it_derives_otherwise(seed: int) -> None:
    text = 'root ::= "<" r ">"\n' + random_rules(seed)
    plain = Grammar.from_gbnf(text % "")
    bounded = {most: Grammar.from_gbnf(text % f"[max_chars={most}]") for most in (2, 99)}
    counted = Grammar.from_gbnf(text % "[max_tokens=99]")
    for inside in TEXTS:
        valid = plain.check(f"<{inside}>").valid
        assert bounded[99].check(f"<{inside}>").valid == counted.check(f"<{inside}>").valid == valid
        assert bounded[2].check(f"<{inside}>").valid == (valid and len(inside) <= 2)


@pytest.mark.parametrize("seed", range(30))
def test_a_lazy_rule_has_its_shortest_texts(seed: int) -> None:
    text = 'root ::= "<" r ">"\n' + random_rules(seed)
    plain, lazy = Grammar.from_gbnf(text % ""), Grammar.from_gbnf(text % "[lazy]")
    valid = {inside for inside in TEXTS if plain.check(f"<{inside}>").valid}
    for inside in TEXTS:
        shortest = not any(inside.startswith(one) and one != inside for one in valid)
        assert lazy.check(f"<{inside}>").valid == (inside in valid and shortest)


@every_engine
@pytest.mark.parametrize(
    ("text", "valid", "invalid"),
    [
        ('root ::= h "!"\nh[lazy] ::= T{0, -1} "<e>"\nT ::= [a-z]', ["<e>!", "ab<e>!"], ["A<e>!"]),
        ('root ::= "<" r ">"\nr[lazy] ::= [a-z]*', ["<>"], ["<a>"]),
        ('root ::= r "c"\nr[capture_hidden_stop_bytes=1, lazy] ::= Regex("[a-z]*b")', ["bc", "abc"], ["bb"]),
        ('root ::= r [a-z]*\nr[lazy, capture="x"] ::= TagDispatch() "!"', ["!", "?!ab"], ["!!"]),
        ('root ::= r "."\nr[max_chars=3] ::= u u\nu ::= "a" | "bb" u | [c-e]{2}', ["aa.", "acc."], ["ccdd."]),
        ('root[lazy] ::= "a" | "ab"', ["a"], ["ab"]),
    ],
)  # fmt: skip
def test_their_texts(engine: Engine, text: str, valid: list[str], invalid: list[str]) -> None:
    language = language_of(rules_from_gbnf(text), engine)
    assert [one for one in valid if not language(one)] == []
    assert [one for one in invalid if language(one)] == []


def test_at_most_so_many_tokens_begin_in_a_rule_of_several_parts() -> None:
    text = 'root ::= "<" r ">"\nr[max_tokens=2] ::= s\ns ::= [ab] s | ""'
    program = Grammar.from_gbnf(text).program
    for name in sorted(ENGINES):
        matcher = CompiledGrammar(program, TOKENIZER, engine=name).matcher()
        for token in (2, 4, 0):
            assert matcher.accept(token)
        assert allowed(matcher, 8) == {3}
        matcher.rollback(1)
        assert allowed(matcher, 8) == {0, 1, 3, 4, 5, 6}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'root ::= r\nr[lazy] ::= "a" r "b" | "c"',
            "the rule r leads back to itself, and not at the end only",
        ),
        ('root ::= r\nr[max_chars=9] ::= r "b" | "c"', r"the rule r leads back .*line 2, column 2"),
        ('root ::= r\nr[lazy] ::= (r | "b")* "c"', "the rule r leads back to itself"),
        (
            'root ::= r\nr[max_chars=9] ::= "a" my-s\nmy-s[capture] ::= "b"',
            "the rule my-s has attributes of",
        ),
        ('root ::= r\nr[lazy] ::= "a" <tool>', "<tool> cannot be part of one terminal: it is a token"),
        ('root ::= r\nr[max_chars=0] ::= "a"', "max_chars=0 is not allowed: a whole number from 1 to"),
        ('root ::= r\nr[lazy=1] ::= "a"', "no attribute 'lazy': captures, lazy, max_tokens, max_chars and"),
    ],
)
def test_what_cannot_be_one_terminal_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        Grammar.from_gbnf(text)


def test_rules_that_are_too_many_or_too_deep_are_refused() -> None:
    rules = "".join(f'\nr{i} ::= "a" r{(i + 1) % 9} | "b"' for i in range(9))
    with pytest.raises(GrammarLimitError, match="more than 8 rules that lead to each other"):
        Grammar.from_gbnf(f'root[lazy] ::= "c" r0{rules}')
    rules = "".join(f'\nr{i} ::= ("a" r{i + 1})* "b"' for i in range(500)) + '\nr500 ::= "c"'
    with pytest.raises(GrammarLimitError, match="too deep with the rules that it consists of: more than 100"):
        Grammar.from_gbnf(f'root[lazy] ::= "c" r0{rules}')


def test_rules_that_double_each_other_are_refused() -> None:
    rules = "".join(f"\nr{i} ::= r{i + 1} r{i + 1}" for i in range(40)) + "\nr40 ::= [ab]"
    with pytest.raises(GrammarLimitError, match="too large with the rules that it consists of"):
        Grammar.from_gbnf(f'root[lazy] ::= r0{rules} | "d"')
