"""`%lark {...}` in a rule: a grammar of its own within another one."""

from __future__ import annotations

import random
from itertools import product

import pytest

from engine_sampler.contract.constraints import settings_of
from engine_sampler.grammar import Grammar, GrammarError, GrammarLimitError
from engine_sampler.grammar.compiled import CompiledGrammar
from engine_sampler.tokenizer import Tokenizer

from ...both_engines import ENGINES, allowed

ALPHABET = "ab<>"
TOKENIZER = Tokenizer([*(one.encode() for one in ALPHABET), b"ab", b"a>", b"<b", b">a", b""], [8])


def random_body(rng: random.Random, names: list[str]) -> str:
    """A body of a rule, of strings, patterns and names."""
    atoms = ['"a"', '"b"', '"ab"', "/[ab]/", "/a+/", *names]
    parts = []
    for _ in range(rng.randrange(1, 4)):
        words = [
            rng.choice(atoms) + rng.choice(["", "", "?", "*", "~1..2"]) for _ in range(rng.randrange(1, 3))
        ]
        parts.append(" ".join(words))
    return " | ".join(parts)


@pytest.mark.parametrize("seed", range(30))
def test_a_nested_grammar_is_what_its_rules_would_be_in_the_outer_one(seed: int) -> None:
    rng = random.Random(seed)
    inner = {"start": random_body(rng, ["x"]), "x": random_body(rng, ["y"]), "y": random_body(rng, [])}
    nested = "%lark {" + "\n".join(f"{name}: {body}" for name, body in inner.items()) + "}"
    renamed = "\n".join(
        f"in_{name}: " + body.replace("x", "in_x").replace("y", "in_y") for name, body in inner.items()
    )
    text = 'start: "<" n (">" n)* x?\nn: %s\nx: "b" "<"'
    programs = [
        Grammar.from_lark(text % nested).program,
        Grammar.from_lark(text % "in_start" + "\n" + renamed).program,
    ]
    matchers = [
        CompiledGrammar(program, TOKENIZER, engine=engine).matcher()
        for program in programs
        for engine in ENGINES
    ]
    for _ in range(10):
        first, *others = [allowed(matcher, len(TOKENIZER)) for matcher in matchers]
        assert all(mask == first for mask in others)
        choice = sorted(first - {8})
        if not choice:
            break
        token = rng.choice(choice)
        assert all(matcher.accept(token) for matcher in matchers)


def test_each_grammar_ignores_its_own_text() -> None:
    found = Grammar.from_lark('start: "a" n+ "b"\n%ignore " "\nn: %lark {\nstart: "x" "y"\n%ignore "_"\n}\n')
    for text, expected in {"a xy b": True, "a _x__y_ x_y b": True, "axyb": True}.items():
        assert found.check(text).valid == expected
    for text in ("a x y b", "a_xyb", "axy_b_", "ax yb"):
        assert found.check(text).valid == (text == "a_xyb")


def test_names_and_braces_of_a_nested_grammar_are_its_own() -> None:
    grammar = Grammar.from_lark(
        """start: x n x  // }
        x: "{"
        n: %lark {   # {
            start: X{2} | /[}]/ | %json {"const": {"a": 1}} | %lark { start: "}" "{" }
            X: "}x"
        }
        """
    )
    for text in ("{}x}x{", "{}{", '{{"a":1}{', "{}{{"):
        assert grammar.check(text).valid
    assert not grammar.check("{}x{").valid
    alphabet = "{}x"
    assert sum(grammar.check("".join(one)).valid for one in product(alphabet, repeat=4)) == 1


def test_a_nested_grammar_sets_captures_and_parameters() -> None:
    text = 'start: "x" j\nj[temperature=0.5]: %lark { start: "[" a "]"\na[top_k=3, capture]: /[0-9]+/ }'
    grammar = Grammar.from_lark(text)
    matcher = grammar.compile(TOKENIZER).matcher()
    assert [dict(parameters) for _, parameters in settings_of(matcher).settings] == [
        {"temperature": 0.5},
        {"temperature": 0.5, "top_k": 3},
    ]
    assert "b'12'" in repr(grammar.captures("x[12]")["a"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("start: %lark { start: foo }", r"'foo' used but not defined .*line 1, column 23"),
        ("start: %lark foo", r"must stand in braces .*line 1, column 14"),
        ('start: "a"\nb: %lark { start: "a"', r"the nested grammar is not closed .*line 2, column 10"),
        ('A: %lark { start: "x" }\nstart: A', "%lark is only allowed in a rule"),
        ('start: "a"\n  | %lark {\n start: "x" | [\n}', r"Expecting a value .*line 3, column 16"),
        ('start: "a" b\nb: %lark {\n foo: "x"\n}', r"%lark: there is no rule 'start' .*line 2, column 4"),
    ],
)
def test_errors_have_their_place_in_the_whole_text(text: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        Grammar.from_lark(text)


def test_nesting_is_bounded() -> None:
    with pytest.raises(GrammarLimitError, match="nested more than 8 deep"):
        Grammar.from_lark("start: " + "%lark { start: " * 9 + '"a"' + "}" * 9)
    with pytest.raises(GrammarError, match="%lark needs the lexer dynamic_complete"):
        Grammar.from_lark('start: %lark { start: "x" }', lexer="contextual")
