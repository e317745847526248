"""What a debugger shows of grammars, their parts and their matchers."""

from __future__ import annotations

import re

from engine_sampler import Tokenizer
from engine_sampler.grammar import CompiledGrammar, Grammar
from engine_sampler.grammar.program.rules import Rules

from .both_engines import ENGINES


def test_what_a_debugger_shows_says_what_it_is() -> None:
    tokenizer = Tokenizer([*(bytes([byte]) for byte in range(128)), b"<|x|>", b"</s>"], [129], [128])
    assert repr(tokenizer) == "<Tokenizer: 130 tokens, 2 special, EOS 129 '</s>'>"
    assert repr(Tokenizer([b"a"])) == "<Tokenizer: 1 tokens, 0 special, EOS None>"
    grammar = Grammar.from_json_schema({"type": "object", "minProperties": 2})
    assert re.fullmatch(
        r"<Grammar json_schema, <Program [0-9a-f]{8}: \d+ rules, \d+ states, \d+ terminals>>", repr(grammar)
    )
    lalr = Grammar.from_lark('start: "a"', lexer="contextual")
    assert re.search(r": LALR parser of \d+ states, 1 terminals>>$", repr(lalr))
    for engine in ENGINES:
        compiled = CompiledGrammar(grammar.program, tokenizer, engine=engine)
        assert repr(compiled) == f"<CompiledGrammar {grammar.key[:8]} for 130 tokens, {engine}>"
        assert re.match(
            r"<(NativeGrammar: |ReferenceGrammar of <EngineTables: )\d+ ", repr(compiled._compiled)
        )
        matcher = compiled.matcher()
        matcher.accept_bytes(b'{"b": 1, "a"')
        shown = r"<UniqueKeysMatcher of <\w+Matcher after 1 accepted calls.*>, keys so far \['a', 'b'\]>"
        assert re.fullmatch(shown, repr(matcher))
        matcher.accept_bytes(b": 2}")
        matcher.accept(129)
        assert ", ended>, keys so far []" in repr(matcher)


def test_rules_under_construction_say_how_many_they_are() -> None:
    rules = Rules()
    assert repr(rules) == "<Rules: 0 rules, 0 terminals, start None>"
    rules.start = rules.rule("start")
    assert repr(rules) == "<Rules: 1 rules, 0 terminals, start start>"
