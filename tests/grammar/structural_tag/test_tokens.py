"""Tokens in structural tags: those that strings name, and formats that count tokens instead of characters."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from engine_sampler import Tokenizer
from engine_sampler.grammar import allocate_bitmask
from engine_sampler.grammar.compiled import bound_program
from engine_sampler.grammar.engines.reference import ReferenceGrammar
from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.grammar import Grammar
from engine_sampler.grammar.program.special_names import MAX_TOKEN_SETS

from .test_structural_tag import TEXT, const, tag, triggered

TOKENS = ["a", "b", "ab", "</", "think", ">", "</think>", "!", "<eos>", "<call>", "<end>"]
A, B, AB, OPEN, WORD, CLOSE, THINK, MARK, EOS, CALL, END = range(len(TOKENS))
TOKENIZER = Tokenizer([token.encode() for token in TOKENS], [EOS], [CALL, END])


@pytest.fixture(params=["native", "reference"])
def matcher(request: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that gives a matcher for a format, on each engine."""

    def new(given: Any) -> Any:
        compiled = Grammar.from_structural_tag({"format": given}).compile(TOKENIZER)
        if request.param == "native":
            return compiled.matcher()
        bound = bound_program(compiled.program, TOKENIZER, compiled.special_names)
        return ReferenceGrammar(bound, TOKENIZER.token_bytes, [EOS], [CALL, END]).matcher()

    return new


def allowed(matcher: Any) -> set[int]:
    """The tokens that the mask allows."""
    mask = allocate_bitmask(1, len(TOKENS))
    matcher.fill_bitmask(mask)
    return {i for i in range(len(TOKENS)) if mask[0, i // 32] >> i % 32 & 1}


def masks(matcher: Any, *tokens: int) -> list[set[int]]:
    """The masks before, between and after some tokens."""
    found = [allowed(matcher)]
    for token in tokens:
        assert (token in found[-1]) is matcher.accept(token)
        found.append(allowed(matcher))
    return found


ORDINARY = {A, B, AB, OPEN, WORD, CLOSE, THINK, MARK}
EVERY = ORDINARY | {CALL, END}


def test_a_special_token_stands_for_its_name_in_strings(matcher: Any) -> None:
    given = {"type": "sequence", "elements": [tag("<call>", TEXT, "!<end>"), const("b")]}
    assert masks(matcher(given), CALL, A, MARK, END, B) == [
        {CALL},
        ORDINARY,
        ORDINARY,
        ORDINARY | {END},
        {B},
        {EOS},
    ]


def test_special_tokens_in_triggers_interrupt_free_text(matcher: Any) -> None:
    given = triggered(tag("<call>a", const("!"), "<end>"), triggers=["<call>"])
    assert masks(matcher(given), B, CALL, A, MARK, END, B) == [
        ORDINARY | {CALL, EOS},
        ORDINARY | {CALL, EOS},
        {A},
        {MARK},
        {END},
        ORDINARY | {CALL, EOS},
        ORDINARY | {CALL, EOS},
    ]


def test_a_name_that_is_no_special_token_is_text(matcher: Any) -> None:
    text_tag = tag("", TEXT, "</think>")
    assert masks(matcher(text_tag), A, OPEN, WORD, CLOSE) == [
        ORDINARY,
        ORDINARY,
        ORDINARY,
        ORDINARY,
        {EOS},
    ]
    assert masks(matcher(text_tag), THINK)[-1] == {EOS}


def test_a_token_that_ends_texts_is_not_part_of_one(matcher: Any) -> None:
    assert masks(matcher(tag("a", TEXT, ["!", ""])), A)[-1] == ORDINARY | {EOS}
    with pytest.raises(GrammarError, match="lacks"):
        matcher({"type": "token", "token": "<none>"})


def test_an_ordinary_token_can_be_requested_as_such(matcher: Any) -> None:
    given = {"type": "sequence", "elements": [{"type": "token", "token": "</think>"}, const("a")]}
    assert masks(matcher(given), THINK, A) == [{THINK}, {A}, {EOS}]


def test_any_tokens_are_all_but_the_excluded_ones(matcher: Any) -> None:
    given = {"type": "any_tokens", "exclude_tokens": ["</think>", END]}
    followed = {"type": "sequence", "elements": [given, const("</think>")]}
    everything = EVERY - {THINK, END}
    assert masks(matcher(given), A, CALL, B)[-1] == everything | {EOS}
    assert masks(matcher(followed), OPEN, WORD, CLOSE) == [
        everything | {THINK},
        everything | {THINK},
        everything | {THINK},
        everything | {THINK, EOS},
    ]
    assert masks(matcher(followed), A, THINK)[-1] == {EOS}


def test_any_tokens_can_be_limited_in_number(matcher: Any) -> None:
    given = tag("a", {"type": "any_tokens", "max_tokens": 2, "exclude_tokens": ["<end>"]}, "<end>")
    found = masks(matcher(given), A, AB, CALL, END)  # "ab" is not the string "a" and a token
    assert found == [{A}, EVERY, EVERY, {END}, {EOS}]
    none = {"type": "sequence", "elements": [{"type": "any_tokens", "max_tokens": 0}, const("b")]}
    assert masks(matcher(none), B) == [{B}, {EOS}]


def test_one_token_may_be_any_but_some(matcher: Any) -> None:
    given = {"type": "sequence", "elements": [{"type": "exclude_token", "exclude_tokens": ["a"]}, const("b")]}
    assert masks(matcher(given), AB, B) == [EVERY - {A}, {B}, {EOS}]
    assert masks(matcher(given), CALL, B)[-1] == {EOS}


def test_a_token_that_ends_a_tag_is_not_among_the_tokens_in_it(matcher: Any) -> None:
    given = tag({"token": "<call>"}, {"type": "any_tokens", "exclude_tokens": ["a"]}, {"token": "!"})
    assert masks(matcher(given), CALL, B, MARK) == [{CALL}, EVERY - {A}, EVERY - {A}, {EOS}]
    given = tag({"token": "<call>"}, {"type": "exclude_token"}, {"token": "!"})
    assert masks(matcher(given), CALL, B, MARK) == [{CALL}, EVERY - {MARK}, {MARK}, {EOS}]


def test_tokens_can_interrupt_any_tokens(matcher: Any) -> None:
    dispatch = {
        "type": "token_dispatch",
        "rules": [["<call>", const("a")], ["</think>", const("b")]],
        "exclude_tokens": ["!"],
    }
    free = EVERY - {MARK} | {EOS}
    assert masks(matcher(dispatch), A, CALL, A, THINK, B, OPEN, WORD) == [
        *(free, free, {A}, free, {B}),
        *(free, free, free),
    ]
    once = masks(matcher({**dispatch, "loop": False}), CALL, A)
    assert once == [free, {A}, {EOS}]


def test_excluded_tokens_do_not_occur_between_tags(matcher: Any) -> None:
    calls = {
        "type": "token_triggered_tags",
        "trigger_tokens": ["<call>"],
        "tags": [{"begin": {"token": "<call>"}, "content": const("a"), "end": {"token": "<end>"}}],
    }
    free = ORDINARY | {CALL, EOS}
    assert masks(matcher({**calls, "exclude_tokens": ["<end>"]}), A, CALL, A, END)[::4] == [free, free]
    without = masks(matcher({**calls, "exclude_tokens": ["</think>"]}), OPEN, WORD, CLOSE, CALL, A, END)
    assert without == [*[free - {THINK}] * 4, {A}, {END}, free - {THINK}]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"type": "any_tokens", "max_tokens": -1}, r"format\.max_tokens=-1 is not allowed"),
        ({"type": "any_tokens", "exclude_tokens": [True]}, r"format\.exclude_tokens is not a token"),
        ({"type": "exclude_token", "exclude_tokens": [-3]}, "which is not a token id"),
        ({"type": "token_dispatch", "rules": [["<call>"]]}, r"format\.rules\[0\] is not a pair"),
    ],
)
def test_invalid_tokens_are_rejected_with_their_path(given: Any, words: str) -> None:
    with pytest.raises(GrammarError, match=words):
        Grammar.from_structural_tag({"format": given}).compile(TOKENIZER)


def test_sets_of_excluded_tokens_are_limited_in_number() -> None:
    formats = [{"type": "exclude_token", "exclude_tokens": [number]} for number in range(MAX_TOKEN_SETS + 1)]
    same = {"type": "sequence", "elements": formats[:MAX_TOKEN_SETS] * 20}
    assert Grammar.from_structural_tag({"format": same}).special_names
    with pytest.raises(GrammarLimitError, match="more than 16 different sets of tokens"):
        Grammar.from_structural_tag({"format": {"type": "sequence", "elements": formats}})


def test_what_a_vocabulary_makes_of_names_is_saved(tmp_path: Path) -> None:
    given = tag("<call>", {"type": "any_tokens", "exclude_tokens": ["<end>"]}, "<end>")
    grammar = Grammar.from_structural_tag({"format": given})
    grammar.save(tmp_path / "tag.grammar")
    for same in (Grammar.load(tmp_path / "tag.grammar"), pickle.loads(pickle.dumps(grammar))):
        assert same == grammar
        compiled = pickle.loads(pickle.dumps(same.compile(TOKENIZER)))
        assert masks(compiled.matcher(), CALL, B, END) == [{CALL}, EVERY, EVERY, {EOS}]
