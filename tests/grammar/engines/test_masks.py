"""Every engine allows exactly the tokens that it would accept."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from engine_sampler.grammar.errors import GrammarLimitError
from engine_sampler.grammar.program import expression as e
from engine_sampler.grammar.program.rules import Rules, alternatives, repeated, sequence

from .. import random_grammars
from ..both_engines import ENGINES, Engine, allowed, every_engine, tried
from ..random_grammars import (
    ALPHABET,
    Grammar,
    bounded_work,
    compiled_or_none,
    free,
    grammars,
    guarded,
    quick,
)

TOKENS = [b"", *(bytes(some) for size in (1, 2, 3) for some in product(ALPHABET, repeat=size)), b"ab", b"x"]
"""All short texts, one of them twice, and one that no grammar allows."""

choices = st.lists(st.integers(0, 1000), max_size=5)


def masks_are_exact(compiled: Any, chosen: Sequence[int]) -> None:
    """Follow random tokens, and compare the mask of each state with the tokens that a fork accepts."""
    matcher = compiled.matcher()
    try:
        with bounded_work():
            for choice in chosen:
                token_ids = allowed(matcher, len(TOKENS))
                assert token_ids == tried(matcher, len(TOKENS))
                if not token_ids:
                    break
                assert matcher.accept(sorted(token_ids)[choice % len(token_ids)])
            assert allowed(matcher, len(TOKENS)) == tried(matcher, len(TOKENS))
    except GrammarLimitError:  # a random grammar by which a text can be read in too many ways
        reject()


@every_engine
@quick
@given(grammar=grammars(guarded.filter(lambda part: not e.nullable(part)), ignore=True), chosen=choices)
def test_a_mask_allows_exactly_the_tokens_that_can_be_accepted(
    engine: Engine, grammar: Grammar, chosen: list[int]
) -> None:
    if (compiled := compiled_or_none(engine, grammar, TOKENS)) is not None:
        masks_are_exact(compiled, chosen)


def test_a_random_grammar_that_needs_much_work_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_grammars, "MOST_WORK", 5)
    rules = Rules()
    rules.start = rules.rule("start")
    rules.define(rules.start, repeated(rules.terminal("A", e.literal(b"a")), 1, None))
    matcher = ENGINES["reference"](rules.program(), TOKENS).matcher()
    with pytest.raises(GrammarLimitError, match="more than 5 steps together"), bounded_work():
        tried(matcher, len(TOKENS))


@every_engine
@quick
@given(grammar=grammars(registers=True), chosen=choices)
def test_a_mask_under_registers_is_exact(engine: Engine, grammar: Grammar, chosen: list[int]) -> None:
    if (compiled := compiled_or_none(engine, grammar, TOKENS)) is not None:
        masks_are_exact(compiled, chosen)


@every_engine
@quick
@given(grammar=grammars(free), chosen=choices)
def test_a_text_that_can_be_begun_can_be_ended(engine: Engine, grammar: Grammar, chosen: list[int]) -> None:
    """Without guards and registers no token leads to a dead end."""
    compiled = compiled_or_none(engine, grammar, [bytes((byte,)) for byte in range(256)])
    if compiled is None:
        return
    matcher = compiled.matcher()
    for choice in chosen:
        token_ids = sorted(allowed(matcher, 256))
        if not token_ids:
            break
        assert matcher.accept(token_ids[choice % len(token_ids)])
    assert allowed(matcher, 256) or matcher.is_accepting()


def with_special_tokens() -> Rules:
    """A tool call between two special tokens, or text."""
    rules = Rules()
    call, end = rules.special("call", [5]), rules.special("end", [6, 7])
    word = rules.terminal("WORD", e.repeat(e.byte_range(97, 122), 1, None))
    rules.ignore = [rules.terminal("WS", e.literal(b" "))]
    rules.start = rules.rule("start")
    rules.define(rules.start, alternatives(word, sequence(call, word, end)))
    return rules


SPECIAL_TOKENS = [b"a", b" ", b"b a", b"c ", b"<eos>", b"call", b"end", b"</end>", b"other", b"eos"]


@every_engine
def test_special_tokens_are_allowed_where_rules_name_them(engine: Engine) -> None:
    grammar = engine(with_special_tokens().program(), SPECIAL_TOKENS, [4, 9], [5, 6, 7, 8])
    matcher = grammar.matcher()
    assert allowed(matcher, 10) == tried(matcher, 10) == {0, 1, 3, 5}
    assert not matcher.accept(8)
    assert matcher.accept(5)
    assert allowed(matcher, 10) == tried(matcher, 10) == {0, 1, 3}
    assert matcher.accept(3)
    assert allowed(matcher, 10) == tried(matcher, 10) == {1, 6, 7}
    assert matcher.accept(1)
    assert matcher.accept(7)
    assert matcher.is_accepting()
    assert allowed(matcher, 10) == tried(matcher, 10) == {1, 4, 9}


@every_engine
def test_the_name_of_a_special_token_is_not_text(engine: Engine) -> None:
    matcher = engine(with_special_tokens().program(), SPECIAL_TOKENS, [4, 9], [5, 6, 7, 8]).matcher()
    assert matcher.accept_bytes(b"call")
    assert matcher.is_accepting()
    assert 6 not in allowed(matcher, 10)


@every_engine
def test_a_token_may_span_many_terminals(engine: Engine) -> None:
    rules = Rules()
    marks = [rules.terminal(mark, e.literal(mark.encode())) for mark in "[],1"]
    rules.start = value = rules.rule("value")
    opening, closing, comma, one = marks
    items = sequence(value, repeated(sequence(comma, value)))
    rules.define(value, alternatives(one, sequence(opening, alternatives(sequence(), items), closing)))
    tokens = [b"[1,1", b"],[", b"]]", b"1]", b"1]]", b"[[[", b"[]],", b"11", b",]", b"]],1"]
    matcher = engine(rules.program(), tokens).matcher()
    assert allowed(matcher, len(tokens)) == tried(matcher, len(tokens)) == {0, 5}
    assert matcher.accept(5)
    assert allowed(matcher, len(tokens)) == tried(matcher, len(tokens)) == {0, 1, 2, 3, 4, 5, 6, 9}


@every_engine
@pytest.mark.parametrize(
    ("tail", "last"), [(e.union(e.literal(b"."), e.literal(b"!!")), {4, 5}), (e.EPSILON, set())]
)
def test_a_mask_respects_the_rest_of_a_long_repetition(
    engine: Engine, tail: e.Expression, last: set[int]
) -> None:
    rules = Rules()
    rules.start = rules.rule("start")
    part = e.repeat(e.byte_range(97, 98), 10, 20)
    rules.define(rules.start, rules.terminal("T", e.concat(part, tail)))
    tokens = [b"a", b"ab", b"aba", b"ba.", b".", b"!", b"a!!", b"aaaa!", b"babab"]
    matcher = engine(rules.program(), tokens).matcher()
    for _ in range(20):
        assert allowed(matcher, len(tokens)) == tried(matcher, len(tokens))
        assert matcher.accept(0)
    assert allowed(matcher, len(tokens)) == last


@every_engine
def test_a_token_may_contain_part_of_a_character(engine: Engine) -> None:
    rules = Rules()
    rules.start = rules.rule("start")
    rules.define(rules.start, rules.terminal("E", e.literal("€".encode())))
    tokens = [b"\xe2", b"\x82", b"\xac", b"\xe2\x82", b"\xac\xe2", "€".encode()]
    matcher = engine(rules.program(), tokens).matcher()
    assert allowed(matcher, 6) == {0, 3, 5}
    assert matcher.accept(3)
    assert allowed(matcher, 6) == {2}
