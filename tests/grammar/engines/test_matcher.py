"""The interface of matchers, for every engine."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_sampler import Tokenizer
from engine_sampler.grammar import Grammar
from engine_sampler.grammar.compiled import CompiledGrammar
from engine_sampler.grammar.program import expression as e
from engine_sampler.grammar.program.rules import Rules, alternatives, repeated, sequence

from ..both_engines import Engine, allowed, every_engine
from ..random_grammars import quick

TOKENS = [b"a", b"b", b"ab", b"(", b")", b"((", b"", b"<eos>", b"<other>"]
EOS, OTHER = 7, 8


def nested(engine: Engine) -> Any:
    """A matcher of brackets around a letter."""
    rules = Rules()
    letter = rules.terminal("L", e.byte_range(97, 98))
    rules.start = value = rules.rule("value")
    opening, closing = rules.terminal("(", e.literal(b"(")), rules.terminal(")", e.literal(b")"))
    rules.define(value, alternatives(letter, sequence(opening, value, closing)))
    return engine(rules.program(), TOKENS, [EOS], [OTHER]).matcher()


def phrase(engine: Engine, text: bytes, tokens: list[bytes], more: bool = False) -> Any:
    """A matcher of "x" or "y", then a fixed text; `more`: then any letters."""
    rules = Rules()
    first = rules.terminal("XY", e.byte_range(120, 121))
    rules.start = rules.rule("start")
    tail = [rules.terminal("MORE", e.repeat(e.byte_range(97, 122), 1, None))] if more else []
    rules.define(rules.start, sequence(first, rules.terminal("TEXT", e.literal(text)), *tail))
    return engine(rules.program(), tokens, [len(tokens) - 1]).matcher()


@every_engine
def test_a_refused_token_changes_nothing(engine: Engine) -> None:
    matcher = nested(engine)
    assert matcher.accept(5)
    before = allowed(matcher, len(TOKENS))
    for token in (4, 2, 6, EOS, OTHER, -1, len(TOKENS), 10**6, 2**31, -(2**63)):
        assert not matcher.accept(token)
    assert not matcher.accept_bytes(b"a)))")
    assert allowed(matcher, len(TOKENS)) == before


@every_engine
def test_eos_is_allowed_exactly_where_the_text_is_in_the_language(engine: Engine) -> None:
    matcher = nested(engine)
    assert not matcher.accept(EOS)
    assert matcher.accept(0)
    assert matcher.is_accepting()
    assert allowed(matcher, len(TOKENS)) == {EOS}
    assert matcher.accept(EOS)
    assert matcher.is_terminated()


@every_engine
def test_after_the_end_nothing_is_accepted(engine: Engine) -> None:
    matcher = nested(engine)
    assert matcher.accept(0)
    assert matcher.accept(EOS)
    assert allowed(matcher, len(TOKENS)) == {EOS}
    assert not any(matcher.accept(token) for token in range(len(TOKENS)))
    assert not matcher.accept_bytes(b"a")
    assert matcher.forced_tokens() == []
    assert matcher.validate([EOS]) == 0
    matcher.rollback(1)
    assert not matcher.is_terminated()
    assert matcher.accept(EOS)


@every_engine
@quick
@given(steps=st.lists(st.integers(0, len(TOKENS) - 1), max_size=12), back=st.integers(0, 12))
def test_a_rollback_restores_an_earlier_state(engine: Engine, steps: list[int], back: int) -> None:
    matcher = nested(engine)
    masks = [allowed(matcher, len(TOKENS))]
    for token in steps:
        if matcher.accept(token):
            masks.append(allowed(matcher, len(TOKENS)))
    back = min(back, len(masks) - 1)
    matcher.rollback(back)
    assert allowed(matcher, len(TOKENS)) == masks[-1 - back]


@every_engine
def test_the_error_of_a_rollback_past_the_start_names_the_limit(engine: Engine) -> None:
    matcher = nested(engine)
    assert matcher.accept(3)
    assert matcher.accept_bytes(b"((")
    with pytest.raises(ValueError, match=r"3.*2"):
        matcher.rollback(3)
    with pytest.raises(ValueError, match="-1"):
        matcher.rollback(-1)
    matcher.rollback(2)
    assert matcher.accept(0)


@every_engine
def test_forks_are_independent(engine: Engine) -> None:
    matcher = nested(engine)
    assert matcher.accept(3)
    other = matcher.fork()
    assert other.accept(0)
    assert other.accept(4)
    assert other.is_accepting()
    assert not matcher.is_accepting()
    other.rollback(3)
    assert matcher.accept(1)


@every_engine
@pytest.mark.parametrize(
    ("tokens", "count"),
    [
        ([], 0),
        ([3, 0, 4, EOS], 4),
        ([3, 0, 4, EOS, EOS], 4),
        ([3, 4], 1),
        ([0, EOS, 0], 2),
        ([5, 0, 4, 4, 4], 4),
        ([99], 0),
    ],
)
def test_validate_counts_the_tokens_that_could_be_accepted(
    engine: Engine, tokens: list[int], count: int
) -> None:
    matcher = nested(engine)
    assert matcher.validate(tokens) == count
    assert matcher.accept(0)


@every_engine
def test_a_bitmask_of_the_wrong_kind_is_refused(engine: Engine) -> None:
    matcher = nested(engine)
    for wrong in (np.zeros((1, 1), np.int64), np.zeros((1, 1), np.float32), [[0]]):
        with pytest.raises(TypeError, match="int32"):
            matcher.fill_bitmask(wrong)
    for shape in ((1,), (1, 0), (1, 1, 1)):
        with pytest.raises(TypeError, match="rows"):
            matcher.fill_bitmask(np.zeros(shape, np.int32))
    for row in (-1, 2):
        with pytest.raises(IndexError, match="row"):
            matcher.fill_bitmask(np.zeros((2, 1), np.int32), row)


@every_engine
def test_a_wider_bitmask_is_filled_with_zeros(engine: Engine) -> None:
    bitmask = np.full((1, 4), -1, np.int32)
    nested(engine).fill_bitmask(bitmask)
    assert bitmask.tolist() == [[0b101011, 0, 0, 0]]


@every_engine
def test_forced_tokens_are_the_longest_ones(engine: Engine) -> None:
    tokens = [b"x", b"y", b"h", b"he", b"hello", b" ", b" w", b"w", b"orld", b"o", b"l", b""]
    matcher = phrase(engine, b"hello world", tokens)
    assert matcher.forced_tokens() == []
    assert matcher.accept(0)
    assert matcher.forced_tokens() == [4, 6, 8]
    for token in matcher.forced_tokens():
        assert matcher.accept(token)
    assert matcher.is_accepting()
    assert matcher.forced_tokens() == []


@every_engine
def test_a_forced_token_that_a_longer_one_might_replace_is_left_out(engine: Engine) -> None:
    tokens = [b"x", b"y", b"hello", b" w", b" wo", b"o", b" world", b""]
    matcher = phrase(engine, b"hello w", tokens, more=True)
    assert matcher.accept(0)
    assert matcher.forced_tokens() == [2]
    matcher = phrase(engine, b"hello w", [*tokens[:4], b"o", b" w.", b" +", b""], more=True)
    assert matcher.accept(0)
    assert matcher.forced_tokens() == [2, 3]


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_forced_text_is_divided_as_the_tokenizer_divides_it(engine: str) -> None:
    pieces = [*(bytes([i]) for i in range(256)), b"<t", b"ool", b"<", b"tool", b"_call", b"_calls", b"<eos>"]
    names = [b"<", b"tool", b"_call", b"_calls"]

    def encode(text: str) -> list[int]:
        """As by pretokens: words and what joins them."""
        parts = re.findall(r"_calls|_call|tool|.", text, re.DOTALL)
        return [
            i
            for part in parts
            for i in ([pieces.index(part.encode())] if part.encode() in names else part.encode())
        ]

    tokenizer = Tokenizer(pieces, [len(pieces) - 1], encode=encode)
    for pattern, forced in (
        ("<tool_call>", names[:3]),
        ("<tool_call>[a-z]", names[:3]),
        ("<tool_call[s>]", names[:2]),
    ):
        matcher = CompiledGrammar(Grammar.from_regex(pattern).program, tokenizer, engine=engine).matcher()
        ids = matcher.forced_tokens()
        assert [pieces[i] for i in ids[:3]] == forced
        assert matcher.validate(ids) == len(ids)
    without = Tokenizer(pieces, [len(pieces) - 1])
    matcher = CompiledGrammar(Grammar.from_regex("<tool_call>").program, without, engine=engine).matcher()
    assert [pieces[i] for i in matcher.forced_tokens()] == [b"<t", b"ool", b"_call", b">"]


@every_engine
def test_next_bytes_are_the_bytes_that_may_follow(engine: Engine) -> None:
    matcher = nested(engine)
    assert matcher.next_bytes() == b"(ab"
    assert matcher.forced_bytes() == b""
    assert matcher.accept_bytes(b"((a")
    assert matcher.next_bytes() == b")"
    assert matcher.forced_bytes() == b"))"
    assert matcher.forced_bytes(1) == b")"
    assert len(matcher.forced_tokens(1)) == 1


@every_engine
def test_nothing_is_forced_if_the_text_may_end(engine: Engine) -> None:
    rules = Rules()
    a = rules.terminal("A", e.literal(b"a"))
    rules.start = rules.rule("start")
    rules.define(rules.start, repeated(a))
    assert engine(rules.program(), [b"a", b""], [1]).matcher().forced_tokens() == []


@every_engine
def test_matchers_of_one_grammar_may_be_used_by_many_os_threads(engine: Engine) -> None:
    first = nested(engine)
    failures: list[BaseException] = []

    def use() -> None:
        try:
            matcher = first.fork()
            for depth in range(30):
                assert matcher.accept(3)
                assert not matcher.accept(4), depth
            assert matcher.accept(1)
            for _ in range(30):
                assert allowed(matcher, len(TOKENS)) == {4}
                assert matcher.accept(4)
            assert matcher.is_accepting()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
