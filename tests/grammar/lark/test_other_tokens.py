"""Any token but some, in Lark's language and in GBNF: whole tokens, whatever their text."""

from __future__ import annotations

import random
from typing import Any

import pytest

from engine_sampler import Tokenizer
from engine_sampler.grammar import Grammar, allocate_bitmask
from engine_sampler.grammar.compiled import bound_program
from engine_sampler.grammar.engines.reference import ReferenceGrammar
from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.program.special_names import MAX_TOKEN_SETS

TOKENS = ["a", "b", "ab", "<", "</think>", "x1", "<eos>", "<call>"]
A, B, AB, LESS, THINK, X1, EOS, CALL = range(len(TOKENS))
EVERY = {A, B, AB, LESS, THINK, X1, CALL}
TOKENIZER = Tokenizer([token.encode() for token in TOKENS], [EOS], [CALL])


def new_matcher(grammar: Grammar, engine: str) -> Any:
    compiled = grammar.compile(TOKENIZER)
    if engine == "native":
        return compiled.matcher()
    bound = bound_program(compiled.program, TOKENIZER, compiled.special_names)
    return ReferenceGrammar(bound, TOKENIZER.token_bytes, [EOS], [CALL]).matcher()


def allowed(matcher: Any) -> set[int]:
    """The tokens that the mask allows."""
    mask = allocate_bitmask(1, len(TOKENS))
    matcher.fill_bitmask(mask)
    return {i for i in range(len(TOKENS)) if mask[0, i // 32] >> i % 32 & 1}


def masks(grammar: Grammar, engine: str, *tokens: int) -> list[set[int]]:
    """The masks before, between and after some tokens."""
    matcher = new_matcher(grammar, engine)
    found = [allowed(matcher)]
    for token in tokens:
        assert (token in found[-1]) is matcher.accept(token)
        found.append(allowed(matcher))
    return found


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("lexer", ["dynamic_complete", "contextual"])
@pytest.mark.parametrize(
    ("text", "first"),
    [
        ('start: <[^1-3]> "a"', EVERY - {B, AB, LESS}),
        ('start: <[^0,7]> "a"', EVERY - {A, CALL}),
        ('start: <[*]> "a"', EVERY),
        ("start: <[^1-3]> | <[1]>", EVERY - {AB, LESS}),
    ],
)
def test_a_rule_in_lark_may_exclude_tokens_by_id(engine: str, lexer: Any, text: str, first: set[int]) -> None:
    assert masks(Grammar.from_lark(text, lexer=lexer), engine)[0] == first


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize(
    ("text", "first"),
    [
        ('root ::= !<[2]> "a"', EVERY - {AB}),
        ('root ::= !<call> "a"', EVERY - {CALL}),
        ('root ::= !</think> "a"', EVERY - {THINK}),
        ('root ::= <[^2]> "a"', EVERY - {AB}),
        ('root ::= (!<call>)+ "a" | "b"', EVERY - {CALL}),
    ],
)
def test_a_rule_in_gbnf_may_exclude_a_token(engine: str, text: str, first: set[int]) -> None:
    assert masks(Grammar.from_gbnf(text), engine)[0] == first


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_thoughts_are_any_tokens_up_to_the_one_that_ends_them(engine: str) -> None:
    grammar = Grammar.from_gbnf('root ::= (!</think>)* </think> "a" "b"')
    found = masks(grammar, engine, B, CALL, THINK, A, B)
    assert found[:3] == [EVERY] * 3
    assert found[3:] == [{A, AB}, {B}, {EOS}]


def test_a_token_that_the_tokenizer_lacks_is_named() -> None:
    with pytest.raises(GrammarError, match="<other>"):
        Grammar.from_gbnf("root ::= !<other>").compile(TOKENIZER)


def test_different_sets_are_limited_in_number() -> None:
    sets = [f"<[^{number}]>" for number in range(MAX_TOKEN_SETS)]
    Grammar.from_lark("start: " + " ".join(sets * 3))
    with pytest.raises(GrammarLimitError, match=r"16 different sets of tokens are excluded .*line 1"):
        Grammar.from_lark("start: " + " ".join([*sets, "<[^99]>"]))


def test_a_saved_grammar_excludes_the_same_tokens(tmp_path: Any) -> None:
    path = tmp_path / "one.grammar"
    Grammar.from_gbnf('root ::= !<call> "a"').save(path)
    assert masks(Grammar.load(path), "native")[0] == EVERY - {CALL}


PARTS = [
    "!<[2]>",
    "!</think>",
    "!<call>",
    "<[*]>",
    "<call>",
    "<[0,4]>",
    '"a"',
    '"ab"',
    "[a-b]+",
    '"<"',
    "[^a]",
]


@pytest.mark.parametrize("seed", range(25))
def test_both_engines_agree_on_random_grammars(seed: int) -> None:
    draw = random.Random(seed)

    def part(depth: int) -> str:
        if depth == 0 or draw.random() < 0.4:
            return draw.choice(PARTS)
        inner = draw.choice([" ", " | "]).join(part(depth - 1) for _ in range(draw.randint(1, 3)))
        return f"({inner}){draw.choice(['', '', '*', '+', '?', '{1,3}'])}"

    grammar = Grammar.from_gbnf(f"root ::= {part(3)} {part(3)}")
    native, reference = (new_matcher(grammar, engine) for engine in ("native", "reference"))
    for _ in range(8):
        mask = allowed(native)
        assert mask == allowed(reference)
        tokens = sorted(mask - {EOS})
        if not tokens:
            break
        token = draw.choice(tokens)
        assert native.accept(token)
        assert reference.accept(token)
