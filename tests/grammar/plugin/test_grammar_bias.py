from __future__ import annotations

import json
import re

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler, process_logits
from engine_sampler.arithmetic import FLT_MAX
from engine_sampler.contract import Vocabulary
from engine_sampler.grammar import Grammar, Limits, prepare
from engine_sampler.grammar.plugin import GrammarBias
from engine_sampler.testing import apply_sampler
from tests.bytewise import (
    EOS,
    TOKENIZER,
    VOCAB,
    allowed,
    every_backend,
    every_engine,
    fresh_tokenizer,
    generate,
    model_row,
    model_rows,
    needs_native_engine,
    tokenizer_for,
)
from tests.engines import registered_plugin


def guided(row, output=(), tokenizer=TOKENIZER, **params):
    return apply_sampler(
        GrammarBias(), row, params, outputs=[list(output)], tokenizer=tokenizer, eos_token_ids=[EOS]
    )


def follow(pattern, output):
    """The tokens that may follow `output`; none if it has left the language."""
    matcher = Grammar.from_regex(pattern).compile(TOKENIZER).matcher()
    return allowed(matcher) if all(matcher.accept(token_id) for token_id in output) else []


@every_engine
@pytest.mark.parametrize("bias", [2.5, -0.1, 1e6])
@pytest.mark.parametrize(
    ("pattern", "output"),
    [
        ("[a-c]+é?", b""),
        ("[a-c]+é?", b"abc"),
        ("(?s:.)*x", b"ab"),
        ("a|bcd", b"a"),
        ("a|bcd", b"d"),
        ("ab", b"abc"),
    ],
)
def test_allowed_tokens_get_exactly_the_float32_sum(pattern, output, bias, engine):
    row = model_row(list(output))
    row[::7] = -np.inf
    expected = row.copy()
    expected[follow(pattern, output)] += np.float32(bias)
    result = guided(row, output, tokenizer_for(engine), regex=pattern, grammar_bias=bias)
    np.testing.assert_array_equal(result.view(np.int32), expected.view(np.int32))


def test_a_bias_may_be_larger_than_float32_can_add():
    row = np.full(VOCAB, FLT_MAX, np.float32)
    np.testing.assert_array_equal(guided(row, regex="a", grammar_bias=1e6), row)


def test_removed_columns_may_be_left_out():
    row = model_row([1])
    row[200:] = -np.inf
    row[ord("b")] = -np.inf
    params = SamplingParams(regex="[a-z]", grammar_bias=3, top_k=20, order=["top_k"])
    left = process_logits(row[None], params, tokenizer=TOKENIZER)[0]
    expected = row.copy()
    expected[[*b"acdefghijklmnopqrstuvwxyz"]] += np.float32(3)
    kept = np.sort(expected)[-20]
    np.testing.assert_array_equal(left, np.where(expected >= kept, expected, -np.inf))


@every_engine
@every_backend
def test_a_text_may_leave_the_language_and_continues_without_guidance(backend, engine):
    params = SamplingParams(regex="a{3}", grammar_bias=4, seed=1)
    scheduler = Scheduler(VOCAB, tokenizer_for(engine), backend=backend)
    scheduler.add(params)
    row = model_row([])

    def favoured():
        processed = scheduler.process(row[None])[0]
        return np.flatnonzero(processed != row).tolist()

    seen = [favoured()]
    for token in b"aazaa":
        scheduler.accept(0, [token])
        seen.append(favoured())
    a = [*b"a"]
    assert seen == [a, a, a, [], [], []]
    scheduler.rollback(0, 2)
    assert favoured() == []
    scheduler.rollback(0, 1)
    assert favoured() == a
    scheduler.accept(0, [*b"a"])
    assert favoured() == [EOS]
    scheduler.fork(0, new_request_id="child")
    scheduler.accept(0, [*b"b"])
    scheduler.rollback("child", 2)
    rows = scheduler.process(np.stack([row, row]))
    assert [np.flatnonzero(left != row).tolist() for left in rows] == [[], a]


def test_a_strong_bias_stays_in_the_language_and_a_weak_one_need_not():
    strong, weak = (
        generate(
            [
                SamplingParams(regex="[ab]{4}x", grammar_bias=bias, seed=seed, max_tokens=30)
                for seed in range(12)
            ]
        )
        for bias in (60, 0.5)
    )
    assert all(re.fullmatch("[ab]{4}x", str(record.text)) for record in strong)
    assert {record.finish_reason for record in strong} == {"stop"}
    assert not all(re.fullmatch("[ab]{4}x", str(record.text)) for record in weak)
    assert {record.error for record in weak} == {None}


@pytest.mark.parametrize(
    "given",
    [
        {"json_schema": {"type": "array", "items": {"type": "boolean"}}},
        {"regex": r"\[(true)*\]"},
        {"choice": ["[]", "[true]"]},
        {"grammar": 'start: "[" "true"* "]"'},
        {"json_object": True},
        {"structural_tag": {"format": {"type": "const_string", "value": "[1]"}}},
    ],
)
def test_any_structured_parameter_determines_which_tokens_are_favoured(given):
    (record,) = generate(SamplingParams(**given, grammar_bias=80, seed=4, max_tokens=400))
    assert record.finish_reason == "stop"
    json.loads(str(record.text).replace("truetrue", "true"))


@every_engine
def test_backends_and_drafts_do_not_change_tokens(engine):
    many = [
        SamplingParams(regex="(ab|red)*x", grammar_bias=bias, seed=seed, max_tokens=12, top_p=0.95)
        for seed, bias in enumerate((0.5, 3, 6, 9))
    ]
    expected = generate(many, backend="numpy")
    assert [r.token_ids for r in generate(many, tokenizer_for(engine))] == [r.token_ids for r in expected]
    scheduler = Scheduler(VOCAB, tokenizer_for(engine))
    for params in many:
        scheduler.add(params)
    while scheduler.request_ids:
        drafts = []
        for request_id in scheduler.request_ids:
            have = len(scheduler.record(request_id).token_ids)
            drafts.append([*expected[request_id].token_ids[have : have + 2], ord("!")])
        scheduler.step(model_rows(scheduler, drafts), None, drafts)
    assert [scheduler.record(i).token_ids for i in range(4)] == [r.token_ids for r in expected]


def test_a_bias_of_zero_still_masks_nothing():
    params = SamplingParams(regex="a", grammar_bias=0, seed=1)
    row = model_row([])
    np.testing.assert_array_equal(process_logits(row[None], params, tokenizer=TOKENIZER)[0], row)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"grammar_bias": 1}, "grammar_bias=1.0 is not allowed alone: it needs one of json_schema, regex"),
        ({"grammar_bias": float("inf"), "regex": "a"}, "grammar_bias=inf is not allowed: a finite number"),
        ({"grammar_bias": 1e7, "regex": "a"}, "at most 1e"),
    ],
)
def test_values_that_are_not_allowed_are_refused(given, message):
    with pytest.raises(ParameterError, match=message):
        SamplingParams(**given)


def test_it_needs_a_tokenizer():
    params = SamplingParams(grammar_bias=1, regex="a")
    with pytest.raises(ParameterError, match="regex is given as text, which needs a tokenizer"):
        GrammarBias().resolve(params, Vocabulary(VOCAB, (EOS,)))


@needs_native_engine
def test_exceeding_a_limit_ends_the_request_with_the_reason():
    class Limited:
        from engine_sampler.contract import hookimpl

        @hookimpl
        def register_grammars(self, register):
            grammar = Grammar.from_regex("[^a-y][^b]*|(?s:.*)x")
            register("limited", grammar.compile(tokenizer, limits=Limits(work=2_000)))

    tokenizer = fresh_tokenizer()
    prepare(tokenizer)
    with registered_plugin(Limited()):
        scheduler = Scheduler(VOCAB, tokenizer)
        scheduler.add(SamplingParams(grammar="limited", grammar_bias=2))
        scheduler.add(SamplingParams(regex="a", grammar_bias=2))
        result = scheduler.step(model_rows(scheduler))
    assert str(result.errors[0]).startswith("grammar_bias failed: GrammarLimitError: the limit of work")
    assert result.errors[1] is None
