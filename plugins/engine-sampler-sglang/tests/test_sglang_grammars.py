"""Our grammars as SGLang's grammar backend."""

from __future__ import annotations

from typing import Any

import pytest
from sglang_engine import VOCAB, Batch, SglangEngine, new_request, runtime_context, torch
from transformers import PreTrainedTokenizerFast

grammars = pytest.importorskip("engine_sampler_sglang.grammars")
tokenizers = pytest.importorskip("tokenizers")

from sglang.srt.constrained.base_grammar_backend import (  # noqa: E402
    InvalidGrammarObject,
    create_grammar_backend,
)

TOKENS = ["<end>", "<think>", "</think>", *'0123456789abcdefghij{}[]":, ', "true", "false", '{"', '":']


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    model = tokenizers.models.BPE({text: i for i, text in enumerate(TOKENS)}, [])
    built = tokenizers.Tokenizer(model)
    built.add_special_tokens(["<end>"])
    built.add_tokens(["<think>", "</think>", "true", "false", '{"', '":'])
    built.decoder = tokenizers.decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=built, eos_token="<end>")


def ids_of(text: str) -> list[int]:
    return [TOKENS.index(character) for character in text]


def backend_for(tokenizer: Any) -> Any:
    return create_grammar_backend(None, tokenizer, VOCAB, {0}, think_end_ids=[2])


def grammar_for(backend: Any, kind: str, text: str, thinks: bool = False) -> Any:
    """As SGLang's `GrammarManager` gets one: a copy of what a thread has compiled."""
    value, is_cached = backend.get_cached_or_future_value((kind, text), thinks)
    if not is_cached:
        value = value.result()
        backend.set_cache((kind, text), value.copy())
    return value


def allowed_by(grammar: Any) -> set[str]:
    mask = grammar.allocate_vocab_mask(VOCAB, 1, "cpu")
    grammar.fill_vocab_mask(mask, 0)
    logits = torch.zeros(1, VOCAB)
    grammar.apply_vocab_mask(logits, mask)
    return {TOKENS[i] for i in range(len(TOKENS)) if logits[0, i] == 0}


@pytest.mark.parametrize(
    ("kind", "text", "right", "then"),
    [
        ("json", '{"const": 17}', "1", {"7"}),
        ("json", "$$ANY$$", "[", {*'0123456789[]{" ', "f", "true", "false", '{"', '":'}),
        ("regex", "[ab]+c", "ab", {"a", "b", "c"}),
        ("ebnf", 'root ::= "a" "b"?', "a", {"b", "<end>"}),
        ("ebnf", 'start: "a" "c"', "a", {"c"}),
        (
            "structural_tag",
            '{"structures": [{"begin": "{", "schema": {"type": "boolean"}, "end": "}"}], "triggers": ["{"]}',
            "{",
            {"true", "false", "f"},
        ),
    ],
    ids=["schema", "any JSON", "regex", "EBNF", "Lark", "structural tag"],
)
def test_each_kind_of_grammar_allows_what_may_follow(
    tokenizer: Any, kind: str, text: str, right: str, then: set[str]
) -> None:
    grammar = grammar_for(backend_for(tokenizer), kind, text)
    for token_id in ids_of(right):
        grammar.accept_token(token_id)
    assert allowed_by(grammar) == then


def test_a_grammar_that_cannot_be_compiled_says_why(tokenizer: Any) -> None:
    refused = grammar_for(backend_for(tokenizer), "regex", "(")
    assert isinstance(refused, InvalidGrammarObject)
    assert "(" in refused.error_message


def test_copies_go_their_own_ways_and_ends_are_taken_back(tokenizer: Any) -> None:
    backend = backend_for(tokenizer)
    first, second = (grammar_for(backend, "regex", "ab?") for _ in range(2))
    first.accept_token(ids_of("a")[0])
    assert allowed_by(second) == {"a"}
    first.accept_token(0)
    first.accept_token(7)  # SGLang may have drawn a token more
    assert first.is_terminated()
    first.rollback(2)
    assert not first.is_terminated()
    assert allowed_by(first) == {"b", "<end>"}
    with pytest.raises(ValueError, match="not allowed by the grammar"):
        first.accept_token(5)


def test_what_must_follow_is_jumped_over(tokenizer: Any) -> None:
    grammar = grammar_for(backend_for(tokenizer), "regex", "abc[01]")
    helper = grammar.try_jump_forward(tokenizer)
    text, state = grammar.jump_forward_str_state(helper)
    assert "abc".startswith(text)
    assert text
    grammar.jump_and_retokenize([], ids_of("abc"), state)
    assert allowed_by(grammar) == {"0", "1"}
    assert grammar.try_jump_forward(tokenizer) is None
    grammar.jump_and_retokenize(ids_of("abc"), ids_of("ab"), state)
    assert allowed_by(grammar) == {"c"}


def test_thoughts_are_free_and_the_grammar_begins_after_them(tokenizer: Any) -> None:
    with runtime_context.get_serving().override(reasoning_parser="qwen3"):
        backend = backend_for(tokenizer)
    grammar = grammar_for(backend, "regex", "abc", thinks=True)
    assert allowed_by(grammar) == {*TOKENS}
    for token_id in (*ids_of("jj"), TOKENS.index("</think>")):
        grammar.accept_token(token_id)
    assert allowed_by(grammar) == {"a"}
    grammar.accept_token(ids_of("a")[0])
    grammar.rollback(2)
    assert allowed_by(grammar) == {*TOKENS}
    assert allowed_by(grammar_for(backend, "regex", "abc")) == {"a"}


def test_strict_thinking_keeps_its_budget(tokenizer: Any) -> None:
    with runtime_context.get_serving().override(reasoning_parser="qwen3", enable_strict_thinking=True):
        backend = backend_for(tokenizer)
        backend.max_think_tokens, backend.enable_token_filter = 1, True
        backend._token_filter_fn = backend.grammar_backend.set_token_filter
        grammar = grammar_for(backend, "regex", "abc", thinks=True)
    grammar.accept_token(ids_of("j")[0])
    assert allowed_by(grammar) == {"</think>"}


@pytest.mark.parametrize("is_late", [False, True], ids=["one after the other", "overlapped"])
def test_grammars_hold_in_a_batch_beside_rows_without(tokenizer: Any, is_late: bool) -> None:
    backend, engine = backend_for(tokenizer), SglangEngine()
    engine.is_late = is_late
    kinds = [("regex", "[ab]{30}"), None, ("json", '{"type": "integer"}'), ("regex", "a{40}")]
    requests = [new_request(str(i), [3], sampling_seed=i) for i in range(4)]
    for request, kind in zip(requests, kinds, strict=True):
        request.grammar = None if kind is None else grammar_for(backend, *kind)
    batch, random = Batch(requests), torch.Generator().manual_seed(1)
    texts = ["", "", "", ""]
    for _ in range(12):
        logits = torch.randn(4, VOCAB, generator=random) * 3
        logits[:, len(TOKENS) :] = -50.0
        tokens, _ = engine.draw(batch, logits.numpy())
        for i, token_id in enumerate(tokens):
            texts[i] += TOKENS[token_id]
            if requests[i].grammar:
                requests[i].grammar.accept_token(token_id)  # raises where it does not hold
    assert set(texts[0]) == {"a", "b"}
    assert texts[3] == "a" * 12
