"""Untrusted input has bounded cost: every limit has a name, and a matcher that exceeds one reports it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from engine_sampler.grammar.cache import Cache
from engine_sampler.grammar.engines.reference import ReferenceGrammar, ReferenceVocabulary
from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.program import expression as e
from engine_sampler.grammar.program.rules import Rules, alternatives, repeated, sequence

LIMITS = "engine_sampler.grammar.derivatives.limits."


def letters(tokens: Sequence[bytes] = ()) -> ReferenceGrammar:
    """A grammar for any number of the letter a."""
    rules = Rules()
    rules.start = rules.rule("start")
    rules.define(rules.start, repeated(rules.terminal("A", e.literal(b"a"))))
    return ReferenceGrammar(rules.program(), tokens)


def test_a_call_that_costs_too_much_fails_and_so_does_every_later_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matcher = letters().matcher()
    other = matcher.fork()
    monkeypatch.setattr(LIMITS + "WORK_PER_CALL", 3)
    with pytest.raises(GrammarLimitError, match="3 steps in one call"):
        matcher.accept_bytes(b"a" * 100)
    monkeypatch.undo()
    for call in (matcher.is_accepting, matcher.fork, matcher.forced_tokens, lambda: matcher.rollback(0)):
        with pytest.raises(GrammarLimitError, match=r"failed before: .*3 steps"):
            call()
    assert other.accept_bytes(b"a" * 100)


def test_full_tables_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = Rules()
    nested = rules.start = rules.rule("nested")
    opening = rules.terminal("(", e.literal(b"("))
    rules.define(
        nested, sequence(opening, alternatives(sequence(), nested), rules.terminal(")", e.literal(b")")))
    )
    matcher = ReferenceGrammar(rules.program(), ()).matcher()
    monkeypatch.setattr(LIMITS + "MAX_STATES", 100)
    with pytest.raises(GrammarLimitError, match="100 states"):
        matcher.accept_bytes(b"(" * 1000)


def test_large_tables_are_not_given_to_new_matchers(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = letters([b"a"])
    old = grammar.matcher()
    assert old.accept(0)
    monkeypatch.setattr("engine_sampler.grammar.engines.reference.matcher.MAX_SHARED_STATES", 1)
    new = grammar.matcher()
    assert new.accept(0)
    assert old.accept(0)
    assert new._tables is not old._tables


def test_a_text_with_too_many_threads_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = Rules()
    rules.start = rules.rule("start")
    words = [rules.terminal(f"T{i}", e.literal(b"a" * i + b"b")) for i in range(1, 20)]
    rules.define(rules.start, alternatives(*words))
    matcher = ReferenceGrammar(rules.program(), ()).matcher()
    monkeypatch.setattr("engine_sampler.grammar.engines.reference.configurations.MAX_THREADS", 10)
    with pytest.raises(GrammarLimitError, match="10 ways"):
        matcher.accept_bytes(b"a")


def test_an_endless_chain_of_look_aheads_is_refused() -> None:
    rules = Rules()
    rules.start = rules.rule("start")
    empty = rules.terminal("E", e.guard(e.EPSILON, e.literal(b"b")))
    rules.define(
        rules.start, alternatives(rules.terminal("A", e.literal(b"a")), sequence(empty, rules.start))
    )
    with pytest.raises(GrammarLimitError, match="64 look-aheads"):
        ReferenceGrammar(rules.program(), ())


def test_a_rule_with_too_many_empty_terminals_in_a_row_is_refused() -> None:
    rules = Rules()
    rules.start = rules.rule("start")
    rules.define(rules.start, repeated(rules.terminal("A", e.repeat(e.literal(b"a"))), 3, 10**6))
    with pytest.raises(GrammarLimitError, match="positions with no text between them"):
        ReferenceGrammar(rules.program(), ())


def test_an_expression_that_ends_under_too_many_guards_is_refused() -> None:
    parts = [e.guard(e.EPSILON, e.literal(b"%d" % i)) for i in range(100)]
    rules = Rules()
    rules.start = rules.rule("start")
    rules.define(rules.start, rules.terminal("A", e.union(*parts)))
    with pytest.raises(GrammarLimitError, match="64 guards"):
        ReferenceGrammar(rules.program(), ())


def test_a_terminal_that_cannot_be_ignored_is_refused() -> None:
    rules = Rules()
    rules.start = rules.rule("start")
    rules.define(rules.start, rules.terminal("A", e.literal(b"a")))
    rules.ignore = [rules.terminal("B", e.guard(e.literal(b"b"), e.literal(b"bc")))]
    with pytest.raises(GrammarError, match="look-ahead"):
        ReferenceGrammar(rules.program(), ())
    rules.ignore = [rules.special("C", [0])]
    with pytest.raises(GrammarError, match="special"):
        ReferenceGrammar(rules.program(), [b"c"])


def test_token_ids_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(ValueError, match="no token 3"):
        ReferenceVocabulary([b"a"], [3])
    rules = Rules()
    rules.start = rules.rule("start")
    rules.define(rules.start, rules.special("S", [7]))
    with pytest.raises(GrammarError, match="special token 7"):
        ReferenceGrammar(rules.program(), [b"a"])


def test_a_vocabulary_may_be_shared() -> None:
    vocabulary = ReferenceVocabulary([b"a", b"aa"])
    rules = Rules()
    rules.start = rules.rule("start")
    rules.define(rules.start, rules.terminal("A", e.literal(b"a")))
    bitmask = np.zeros((1, 1), np.int32)
    ReferenceGrammar(rules.program(), vocabulary).matcher().fill_bitmask(bitmask)
    assert bitmask.tolist() == [[1]]


def test_the_least_recently_used_entry_is_evicted_first() -> None:
    cache: Cache[int] = Cache(10, 10, lambda value: 4)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.find("a") == 1
    cache.put("c", 3)
    assert [cache.find(key) for key in "abc"] == [1, None, 3]
