"""A mask explained: its tokens, the readings of the text, and what the other engine says."""

from __future__ import annotations

import numpy as np
import pytest

from engine_sampler import Tokenizer
from engine_sampler.explain.masks import explain_mask
from engine_sampler.grammar import Grammar, GrammarError
from engine_sampler.grammar.engines import native
from engine_sampler.grammar.engines.reference import ReferenceMatcher

from ..grammar.both_engines import ENGINES

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
    "additionalProperties": False,
}
PIECES = [*(bytes([byte]) for byte in range(128)), b'": "', b"Kim", b'Kim"}', b'",', b"</s>"]
KIM, KIM_END, COMMA, EOS = range(129, 133)

needs_both = pytest.mark.skipif(len(ENGINES) < 2, reason="the native library is missing")


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer(PIECES, [EOS])


def test_the_mask_is_that_of_the_grammars_matcher(tokenizer: Tokenizer) -> None:
    grammar = Grammar.from_json_schema(SCHEMA)
    for text in (b"", b'{"na', b'{"name": "', b'{"name": "K"', b'{"name": "K"}'):
        explained = explain_mask(grammar, tokenizer, text)
        matcher = grammar.compile(tokenizer).matcher()
        assert matcher.accept_bytes(text) or not text
        assert (explained.text, explained.refused, explained.differences) == (text, None, ())
        allowed = {token for token in range(len(tokenizer)) if matcher.fork().accept(token)}
        assert set(np.flatnonzero(explained.allowed).tolist()) == allowed
        assert (explained.next_bytes, explained.may_end) == (matcher.next_bytes(), matcher.is_accepting())
        assert explained.forced == matcher.forced_bytes()
        assert explained.readings.threads


@pytest.mark.parametrize("engine", ENGINES)
def test_either_engine_can_be_asked(engine: str, tokenizer: Tokenizer) -> None:
    found = explain_mask(Grammar.from_json_schema(SCHEMA), tokenizer, b'{"name": "K', engine)
    assert (found.engine, found.differences) == (engine, ())
    assert {found.engine, found.compared} - {None} == set(ENGINES)
    assert found.allowed[KIM_END]
    assert not found.allowed[ord("\n")]


def test_a_text_is_read_as_far_as_it_can_be(tokenizer: Tokenizer) -> None:
    found = explain_mask(Grammar.from_json_schema(SCHEMA), tokenizer, b'{"nam": 1}')
    assert (found.text, found.refused) == (b'{"nam', ord('"'))
    assert found.forced == b'e"'


@pytest.mark.parametrize("engine", ENGINES)
def test_keys_that_must_not_repeat_are_followed(engine: str, tokenizer: Tokenizer) -> None:
    grammar = Grammar.from_json_schema({"type": "object", "minProperties": 2})
    found = explain_mask(grammar, tokenizer, b'{"a": 1, "a', engine)
    assert found.differences == ()
    assert not found.allowed[ord('"')]


def test_special_tokens_are_those_of_the_tokenizer() -> None:
    tokenizer = Tokenizer([b"a", b"<|x|>"], [], [1])
    found = explain_mask(Grammar.from_lark('start: "a" <|x|>'), tokenizer, b"a")
    assert found.allowed.tolist() == [False, True]
    with pytest.raises(GrammarError, match=r"names the special token '<\|y\|>'"):
        explain_mask(Grammar.from_lark("start: <|y|>"), tokenizer, b"")


@needs_both
def test_the_bytes_that_one_engine_alone_allows_are_named(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReferenceMatcher, "next_bytes", lambda self: b'"x')
    found = explain_mask(Grammar.from_json_schema(SCHEMA), tokenizer, b'{"name', "native")
    assert found.text == b""
    assert found.differences == (
        r"after 0 bytes, native alone allows the bytes b'\t\n\r {'",
        "after 0 bytes, reference alone allows the bytes b'\"x'",
    )


@needs_both
def test_an_end_that_one_engine_alone_allows_is_named(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native.NativeMatcher, "is_accepting", lambda self: False)
    found = explain_mask(Grammar.from_regex("ab*"), tokenizer, b"abb", "reference")
    assert found.differences == ("after 1 bytes, reference alone lets the text end",)


@needs_both
def test_the_tokens_that_one_engine_alone_allows_are_named(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(self: object, bitmask: np.ndarray, row: int = 0) -> None:
        bitmask[row] = 0
        bitmask[row, EOS >> 5] = 1 << (EOS & 31)

    monkeypatch.setattr(ReferenceMatcher, "fill_bitmask", fill)
    found = explain_mask(Grammar.from_regex("[a-z]+"), tokenizer, b"", "native")
    ids = [*range(ord("a"), ord("k"))]
    assert found.differences == (
        f"native alone allows the tokens {ids} and 16 more",
        f"reference alone allows the tokens [{EOS}]",
    )


def test_an_engine_that_is_missing_is_an_error(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "load_library", lambda: None)
    with pytest.raises(GrammarError, match="there is no native grammar engine"):
        explain_mask(Grammar.from_regex("a"), tokenizer, b"", "native")
    found = explain_mask(Grammar.from_regex("a"), tokenizer, b"")
    assert (found.engine, found.compared) == ("reference", None)
