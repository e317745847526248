"""Grammars of an engine's requests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import Grammar, ParameterError, Tokenizer
from engine_sampler.contract import unpack_bitmask
from engine_sampler.for_bridges import GrammarText, fill_texts, structured_grammar

TOKENS = [b"a", b"b", b"ab", b"1", b"", b""]
END, STOP = 4, 5
TOKENIZER = Tokenizer(TOKENS, eos_token_ids=[END], special_token_ids=[END, STOP])


def text_of(pattern: str, ends: Any = None) -> GrammarText:
    return GrammarText(Grammar.from_regex(pattern).compile(TOKENIZER), ends)


def allowed(text: GrammarText) -> list[int]:
    mask = np.zeros((2, 1), np.int32)
    text.fill(mask, 1)
    return np.flatnonzero(unpack_bitmask(mask[1], len(TOKENS))).tolist()


@pytest.mark.parametrize(
    ("kind", "value", "right", "wrong"),
    [
        ("json", '{"type": "integer"}', "12", "a"),
        ("json_object", "", '{"a": 1}', "1"),
        ("regex", "a+", "aa", "b"),
        ("choice", '["a", "b1"]', "b1", "b"),
        ("grammar", 'start: "a" "1"', "a1", "a"),
        ("grammar", 'root ::= "a" "1"', "a1", "a"),
        ("structural_tag", '{"format": {"type": "const_string", "value": "ab"}}', "ab", "b"),
    ],
    ids=["json", "json_object", "regex", "choice", "lark", "gbnf", "structural_tag"],
)
def test_each_kind_of_constraint_becomes_a_grammar(kind: str, value: str, right: str, wrong: str) -> None:
    grammar = structured_grammar(kind, value)
    assert grammar.check(right).valid
    assert not grammar.check(wrong).valid


def test_options_of_json_hold() -> None:
    schema = '{"type": "object", "properties": {"a": {"type": "integer"}}}'
    grammar = structured_grammar("json", schema, whitespace=0, closes_objects=True)
    assert grammar.check('{"a":1}').valid
    assert not grammar.check('{"a": 1}').valid
    assert not grammar.check('{"b":1}').valid


def test_another_kind_is_refused() -> None:
    with pytest.raises(ParameterError, match="kind='ebnf' is not allowed"):
        structured_grammar("ebnf", "")


@pytest.mark.parametrize("ends", [None, [END], [STOP], [END, STOP]], ids=str)
def test_ends_may_come_where_the_text_may_end(ends: list[int] | None) -> None:
    text, end = text_of("(ab)+", ends), END if ends is None else ends[-1]
    assert not set(allowed(text)) & {end}
    assert not text.accept([end])
    assert text.accept([0, 1])
    assert end in allowed(text)
    assert text.count_valid([2, end, 0]) == 2
    assert text.accept([end, 0])  # what comes behind the end only counts
    assert text.is_terminated()
    assert allowed(text) == [*range(len(TOKENS))]
    text.rollback(2)
    assert not text.is_terminated()
    assert {2, end} <= set(allowed(text))


def test_a_refused_token_leaves_the_text_as_it_was() -> None:
    text = text_of("ab1")
    assert text.count_valid([0, 1, -1, 3]) == 2
    assert not text.accept([0, 3])
    assert allowed(text) == [1]
    text.reset()
    assert allowed(text) == [0, 2]


def test_forks_go_their_own_ways() -> None:
    text = text_of("a(b|1)")
    text.accept([0])
    other = text.fork()
    assert other.accept([1])
    assert other.count_valid([END]) == 1
    assert allowed(text) == [1, 3]


class BeyondItsLimits:
    """A matcher that has reached its limit."""

    def is_terminated(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        def give_up(*arguments: Any) -> Any:
            raise ValueError("the limit of work is reached")

        return give_up


def test_a_grammar_that_gives_up_concerns_its_own_text_alone(caplog: pytest.LogCaptureFixture) -> None:
    texts = [text_of("ab"), text_of("ab", [STOP]), text_of("1")]
    texts[1].matcher = BeyondItsLimits()
    mask = np.zeros((4, 2), np.int32)
    fill_texts(texts, mask, [3, 0, 2])
    bits = [unpack_bitmask(row, len(TOKENS)).tolist() for row in mask]
    assert bits[0] == [True] * len(TOKENS)
    assert [i for i, bit in enumerate(bits[3]) if bit] == [0, 2]
    assert [i for i, bit in enumerate(bits[2]) if bit] == [3]
    assert not mask[1].any()
    assert not texts[1].accept([0])
    assert texts[1].count_valid([0]) == 0
    assert texts[0].accept([0])
    assert "the limit of work is reached" in caplog.text


def test_a_grammar_that_gives_up_while_tokens_come_refuses_them() -> None:
    text = text_of("ab")
    text.matcher = BeyondItsLimits()
    assert text.count_valid([0]) == 0
    assert text.fault == "the limit of work is reached"
    assert not text.accept([0])
    text.rollback(1)
