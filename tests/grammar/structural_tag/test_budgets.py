"""`max_tokens` of free text in structural tags."""

from __future__ import annotations

import logging
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler, Tokenizer
from engine_sampler.grammar import Grammar, Limits, allocate_bitmask
from engine_sampler.grammar.compiled import bound_program
from engine_sampler.grammar.engines.reference import ReferenceGrammar
from engine_sampler.grammar.errors import GrammarError

from ...engines import VOCAB, alone, make_scheduler, model_step
from .test_structural_tag import TEXT, const, tag

TOKENS = ["<think>", "a", "b", "c", "de", "ä", "a</", "</", "think>", "</think>", "<thi", "nk>a", "x", "xx"]
TOKENS += ["</think><think>", "</think><think>a", "<", "/", "<eos>"]
EOS = len(TOKENS) - 1
VOCABULARY = [*(token.encode() for token in TOKENS[:-1]), b"\xc3", b"\xa4", b"<eos>"]
HALF, REST = EOS, EOS + 1
TOKENIZER = Tokenizer(VOCABULARY, [EOS + 2])
SPECIAL = Tokenizer(VOCABULARY, [EOS + 2], [TOKENS.index("<think>"), TOKENS.index("</think>")])
ENDS = {"</", "</think>", "<"}
"""What begins with the end of thoughts, and nothing else."""


def think(content: dict[str, Any]) -> dict[str, Any]:
    return tag("<think>", {**TEXT, **content}, "</think>")


@pytest.fixture(params=["native", "reference"])
def matcher(request: Any) -> Any:
    """A function that gives a matcher for a format after some tokens, on each engine."""

    def new(given: Any, *tokens: str, tokenizer: Tokenizer = TOKENIZER) -> Any:
        compiled = Grammar.from_structural_tag({"format": given}).compile(tokenizer)
        tag_matcher = compiled.matcher()
        if request.param == "reference":
            bound = bound_program(compiled.program, tokenizer, compiled.special_names)
            special = sorted(tokenizer.special_token_ids)
            tag_matcher = ReferenceGrammar(bound, VOCABULARY, tokenizer.eos_token_ids, special).matcher()
        for token in tokens:
            assert tag_matcher.accept(TOKENS.index(token)), token
        return tag_matcher

    return new


def allowed(matcher: Any) -> set[str]:
    """The tokens that may follow."""
    mask = allocate_bitmask(1, len(VOCABULARY))
    matcher.fill_bitmask(mask)
    names = [*TOKENS[:-1], "half", "rest", "<eos>"]
    return {name for i, name in enumerate(names) if mask[0, i // 32] >> i % 32 & 1}


def test_after_so_many_tokens_only_the_end_may_follow(matcher: Any) -> None:
    given = think({"max_tokens": 2, "excludes": ["</think>"]})
    assert {"a", "de", "a</", "</"} <= allowed(matcher(given, "<think>", "a"))
    assert allowed(matcher(given, "<think>", "a", "de")) == ENDS
    assert allowed(matcher(given, "<think>", "a", "de", "</")) == {"think>"}
    assert allowed(matcher(given, "<think>", "a", "de", "</think>")) == {"<eos>"}
    assert allowed(matcher(given, "<think>", "a", "a</")) == ENDS | {"think>"}  # "</" may also be thought


def test_a_budget_of_nothing_leaves_nothing(matcher: Any) -> None:
    assert allowed(matcher(think({"max_tokens": 0}), "<think>")) == ENDS


def test_the_token_in_which_a_text_begins_does_not_count(matcher: Any) -> None:
    given = think({"max_tokens": 1})
    assert {"a", "de"} <= allowed(matcher(given, "<thi", "nk>a"))
    assert allowed(matcher(given, "<thi", "nk>a", "a")) == ENDS


def test_each_occurrence_has_a_budget_of_its_own(matcher: Any) -> None:
    given = {"type": "star", "content": think({"max_tokens": 1})}
    again = {"</think><think>", "</think><think>a"}
    assert allowed(matcher(given, "<think>", "a")) == ENDS | again
    assert {"a", "de"} <= allowed(matcher(given, "<think>", "a", "</think><think>"))
    assert {"a", "de"} <= allowed(matcher(given, "<think>", "a", "</think><think>a"))
    assert allowed(matcher(given, "<think>", "a", "</think><think>a", "b")) == ENDS | again
    both = {"type": "sequence", "elements": [think({"max_tokens": 1}), think({"max_tokens": 2})]}
    assert {"a", "de"} <= allowed(matcher(both, "<think>", "a", "</think>", "<think>", "a"))
    assert allowed(matcher(both, "<think>", "a", "</think>", "<think>", "a", "b")) == ENDS


def test_bounds_on_tokens_and_characters_combine(matcher: Any) -> None:
    given = think({"max_tokens": 2, "max_chars": 3})
    assert allowed(matcher(given, "<think>", "de", "a")) == ENDS
    assert allowed(matcher(given, "<think>", "a", "b")) == ENDS
    assert "de" not in allowed(matcher(given, "<think>", "de"))


def test_special_tokens_end_a_text_too(matcher: Any) -> None:
    given = think({"max_tokens": 2})
    assert "</think>" in allowed(matcher(given, "<think>", "a", tokenizer=SPECIAL))
    assert allowed(matcher(given, "<think>", "a", "</", tokenizer=SPECIAL)) == {"</think>"}


def test_free_text_at_the_end_of_a_text_has_a_budget(matcher: Any) -> None:
    given = {"type": "sequence", "elements": [const("x"), {**TEXT, "max_tokens": 2}]}
    assert {"a", "<eos>"} <= allowed(matcher(given, "x", "a"))
    assert allowed(matcher(given, "x", "a", "b")) == {"<eos>"}
    assert allowed(matcher(given, "xx", "a", "b")) == {"<eos>"}


def test_the_first_end_ends_a_text_even_if_ends_overlap(matcher: Any) -> None:
    given = tag("a", {**TEXT, "max_tokens": 3}, ["xx", "bx"])
    assert allowed(matcher(given, "a", "x", "x")) == {"<eos>"}
    assert allowed(matcher(given, "a", "c", "b", "x")) == {"<eos>"}
    assert allowed(matcher(given, "a", "b", "b", "c")) == {"b", "x", "xx"}
    assert "xx" not in allowed(matcher(given, "a", "c", "x"))  # its first half would end the text
    assert allowed(matcher(given, "a", "c", "c", "x")) == {"b", "x"}


def test_a_character_is_never_cut(matcher: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "engine_sampler"):
        tag_matcher = matcher(think({"max_tokens": 1}), "<think>")
        assert caplog.messages == []
        assert tag_matcher.accept(HALF)
    assert ["exceeds max_tokens" in message for message in caplog.messages] == [True]
    assert allowed(tag_matcher) == {"rest"}
    assert tag_matcher.accept(REST)
    assert allowed(tag_matcher) == ENDS


@pytest.mark.parametrize("most", [10**9, 2**31 - 2])
def test_a_large_budget_costs_no_more_than_a_text_is_long(most: int) -> None:
    compiled = Grammar.from_structural_tag({"format": think({"max_tokens": most})}).compile(TOKENIZER)
    tag_matcher = compiled.matcher()
    assert tag_matcher.accept(0)
    before = compiled.statistics()
    for _ in range(2_000):
        assert tag_matcher.accept(1)
    after = compiled.statistics()
    assert after["states"] <= before["states"] + 2
    assert after["memory"] - before["memory"] < 2_000 * 100
    assert "a" in allowed(tag_matcher)


def test_a_thousand_budgets_at_once_are_counted() -> None:
    texts = [{**TEXT, "max_tokens": 1 + i // 200, "max_chars": 100 + i} for i in range(1_000)]
    compiled = Grammar.from_structural_tag({"format": {"type": "or", "elements": texts}}).compile(TOKENIZER)
    found = compiled.matcher()
    for _ in range(4):
        assert found.accept(1)
    assert "a" in allowed(found)
    assert found.accept(1)
    assert allowed(found) == {"<eos>"}


def test_long_tokens_under_many_budgets_are_counted_bit_by_bit() -> None:
    texts = [{**TEXT, "max_tokens": 1 + i // 150, "excludes": [f"q{i}"]} for i in range(300)]
    tokenizer = Tokenizer([b"a" * 200, b"b", b"<eos>"], [2])
    scheduler = Scheduler(3, tokenizer=tokenizer)
    params = SamplingParams(structural_tag={"format": {"type": "or", "elements": texts}}, temperature=0)
    name = scheduler.add(params)
    for _ in range(500):
        if scheduler.request_ids:
            scheduler.step(np.array([[2, 1, 0]], np.float32))
    assert scheduler.record(name).token_ids == [0, 0, 2]


def test_the_count_is_kept_while_tables_are_built_anew() -> None:
    large = [{"type": "regex", "pattern": f"{letter}{{2,9000}}"} for letter in "bcdx"]
    given = {"type": "or", "elements": [think({"max_tokens": 50}), *large]}
    grammar = Grammar.from_structural_tag({"format": given})
    compiled = grammar.compile(TOKENIZER, limits=Limits(memory=2 << 20))
    tag_matcher = compiled.matcher()
    for token in (0, *[1] * 49):
        assert tag_matcher.accept(token)
    for letter in b"bcdx":
        assert compiled.matcher().accept_bytes(bytes([letter]) * 9_000)
    assert compiled.statistics()["rebuilt"]
    assert tag_matcher.accept(1)
    assert allowed(tag_matcher) == ENDS


def test_budgets_are_saved_with_a_grammar_and_sent_between_processes(tmp_path: Path) -> None:
    grammar = Grammar.from_structural_tag({"format": think({"max_tokens": 1})})
    other = Grammar.from_structural_tag({"format": think({"max_tokens": 3})})
    assert grammar.program.key != other.program.key
    grammar.save(tmp_path / "think.grammar")
    for given in (Grammar.load(tmp_path / "think.grammar"), pickle.loads(pickle.dumps(grammar))):
        found = given.compile(TOKENIZER).matcher()
        assert found.accept(0)
        assert found.accept(1)
        assert allowed(found) == ENDS


def test_texts_without_tokens_know_no_budgets() -> None:
    grammar = Grammar.from_structural_tag({"format": think({"max_tokens": 1})})
    assert grammar.check("<think>abcabc</think>").valid


@pytest.mark.parametrize("seed", range(4))
def test_drafts_do_not_change_where_a_budget_ends(seed: int) -> None:
    calls = tag("<10>", {**TEXT, "max_tokens": 3, "excludes": ["b"]}, "<11>")
    whole = {"type": "repeat", "min": 3, "max": 3, "content": calls}
    late = dict.fromkeys((4, 6, 11), -100.0)  # parts of characters, and the end
    params = SamplingParams(structural_tag={"format": whole}, logit_bias=late, seed=seed, max_tokens=20)
    expected, guess = alone(params).token_ids, random.Random(seed)
    assert [i for i, token in enumerate(expected) if token == 11] == [4, 9, 14]
    scheduler = make_scheduler()
    name = scheduler.add(params)
    while scheduler.request_ids:
        rest = expected[len(scheduler.record(name).token_ids) :]
        draft = [token if guess.random() < 0.8 else guess.randrange(VOCAB) for token in rest[:4]]
        model_step(scheduler, None, [draft])
    assert scheduler.record(name).token_ids == expected


@pytest.mark.parametrize("most", [-1, 2**31])
def test_other_bounds_are_refused(most: int) -> None:
    with pytest.raises(GrammarError, match=rf"format\.max_tokens={most} is not allowed: 0 to 2147483647"):
        Grammar.from_structural_tag({"format": {**TEXT, "max_tokens": most}})
