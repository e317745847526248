"""One request: its parts change together."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingParams
from engine_sampler.contract import Vocabulary
from engine_sampler.registry import default_registry
from engine_sampler.requests.budget import Budget
from engine_sampler.requests.history import History
from engine_sampler.requests.parts import RecordedLogprobs
from engine_sampler.requests.request import Request
from engine_sampler.requests.slots import Slots
from engine_sampler.scheduler.masks import GrammarMasks

from ..engines import EOS, TOKENIZER, VOCAB, ToyMatcher

VOCABULARY = Vocabulary(VOCAB, (EOS,), TOKENIZER)
LOOP = {"start": {0: "start", 1: "start", 4: "start", 5: "start"}}


@pytest.fixture
def slots() -> Slots:
    return Slots(VOCABULARY, default_registry().catalogue.params)


def make_request(output: Any = (), vocabulary: Vocabulary = VOCABULARY, **keywords: Any) -> Request:
    params = keywords.pop("params", SamplingParams(seed=1))
    return Request("r", params, History([2], output), vocabulary, **keywords)


def request_in_slot(slots: Slots, **keywords: Any) -> Request:
    request = make_request(**keywords)
    request.slot = slots.put(request.state, request.params.given, request.seed)
    return request


def test_accept_reaches_history_grammar_text_and_position(slots: Slots) -> None:
    matcher = ToyMatcher(LOOP)
    request = request_in_slot(slots, matcher=matcher)
    for token_id in (0, 4, 5):
        assert request.accept(slots, token_id)
    assert request.record().token_ids == [0, 4, 5]
    assert request.text.take() == "aé"
    assert len(matcher.states) == 4
    assert slots.positions[request.slot] == 4


def test_text_is_taken_once(slots: Slots) -> None:
    request = request_in_slot(slots)
    request.accept(slots, 0)
    assert [request.text.take(), request.text.take()] == ["a", ""]


def test_without_a_tokenizer_there_is_no_text() -> None:
    request = make_request(vocabulary=Vocabulary(VOCAB, (EOS,)))
    assert request.text is None
    assert request.record().text is None


def test_the_end_flushes_half_a_character(slots: Slots) -> None:
    request = request_in_slot(slots)
    request.accept(slots, 4)
    assert request.text.take() == ""
    request.finish("abort")
    assert request.text.take() == "\ufffd"
    assert request.record().text == "\ufffd"
    assert not request.live


def test_a_refused_token_changes_only_the_verdict(slots: Slots) -> None:
    request = request_in_slot(slots, matcher=ToyMatcher(LOOP))
    assert not request.accept(slots, 7)
    assert request.record().token_ids == []
    assert (request.finish_reason, request.error) == ("error", "the grammar refuses token 7")


def test_the_mask_is_that_of_the_next_token(slots: Slots) -> None:
    request = request_in_slot(
        slots, matcher=ToyMatcher({"start": {0: "then", 5: "then"}, "then": {33: "start"}})
    )
    masks = []
    for change in (lambda: None, lambda: request.accept(slots, 0), lambda: request.rollback(slots, 1)):
        change()
        mask = request.grammar.mask()
        assert mask is not None
        masks.append(mask.tolist())
    assert masks == [[0b100001, 0], [0, 0b10], [0b100001, 0]]


def test_a_filled_mask_is_ready_until_the_next_token(slots: Slots) -> None:
    matcher = ToyMatcher(LOOP)
    request = request_in_slot(slots, matcher=matcher)
    masks, requests = GrammarMasks(slots, Budget(VOCAB)), [request_in_slot(slots), request]
    ready = [request.grammar.mask_ready]
    for change in (lambda: request.accept(slots, 0), lambda: request.rollback(slots, 1)):
        bitmask = masks.fill(requests, [1])
        ready.append(request.grammar.mask_ready)
        change()
        ready.append(request.grammar.mask_ready)
    assert ready == [False, True, False, True, False]
    assert bitmask.tolist() == [[0, 0], [0b110011, 0]]
    assert matcher.fills == 2


def test_a_fork_has_no_mask_ready(slots: Slots) -> None:
    request = request_in_slot(slots, matcher=ToyMatcher(LOOP))
    GrammarMasks(slots, Budget(VOCAB)).fill([request], [0])
    assert not request.fork("child", None).grammar.mask_ready
    assert request.grammar.mask_ready


def test_a_grammar_that_cannot_fill_its_mask_ends_the_request_and_allows_nothing(slots: Slots) -> None:
    class Failing(ToyMatcher):
        def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
            raise RuntimeError("lost its place")

    request = request_in_slot(slots, matcher=Failing(LOOP))
    bitmask = GrammarMasks(slots, Budget(VOCAB)).fill([request], [0])
    assert not bitmask.any()
    assert not request.grammar.mask_ready
    assert request.error == "the grammar failed: RuntimeError: lost its place"
    with pytest.raises(RuntimeError, match="lost its place"):
        request.grammar.mask()


def test_without_a_grammar_there_is_no_mask() -> None:
    assert make_request().grammar is None


def test_the_seed_is_the_given_one_or_random() -> None:
    assert make_request(params=SamplingParams(seed=5)).seed == 5
    assert make_request(params=SamplingParams(seed=5), seed=6).seed == 6
    seeds = {make_request(params=SamplingParams()).seed for _ in range(8)}
    assert len(seeds) == 8
    assert all(0 <= seed < 2**64 for seed in seeds)


def test_output_to_resume_from_reaches_grammar_text_and_criteria(slots: Slots) -> None:
    matcher = ToyMatcher(LOOP)
    request = request_in_slot(slots, output=[0, 4], matcher=matcher, params=SamplingParams(max_tokens=3))
    assert len(matcher.states) == 3
    request.accept(slots, 5)
    assert request.text.take() == "é"
    assert request.record().text == "aé"
    assert request.stop_reason == "max_tokens"


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_rollback_restores_every_part(slots: Slots, n: int) -> None:
    params = SamplingParams(seed=1, max_tokens=9, frequency_penalty=0.5, mirostat=2)
    request = request_in_slot(slots, matcher=ToyMatcher(LOOP), params=params)
    for token_id in (0, 4):
        request.accept(slots, token_id, 2.5)
    before = (
        request.record(),
        copy.deepcopy(request.stop_checks.criteria[-1][1]),
        list(request.grammar.matcher.states),
    )
    mu = list(request.state.states["mirostat_v2"].values)
    for token_id in (5, 1, 4)[:n]:
        request.accept(slots, token_id, 7.5)
    request.rollback(slots, n)
    assert (request.record(), request.stop_checks.criteria[-1][1], request.grammar.matcher.states) == before
    assert request.state.states["mirostat_v2"].values == mu
    request.accept(slots, 5)
    assert request.text.take() == "aé"


def test_a_fork_shares_nothing_that_changes(slots: Slots) -> None:
    params = SamplingParams(seed=1, max_tokens=3, frequency_penalty=0.5)
    parent = request_in_slot(slots, matcher=ToyMatcher(LOOP), params=params)
    parent.accept(slots, 4)
    child = parent.fork("child", 8)
    child.slot = slots.put(child.state, child.params.given, child.seed)
    for token_id in (5, 1):
        child.accept(slots, token_id)
    assert (child.record().text, child.finish_reason, child.seed) == ("éb", "length", 8)
    assert (parent.record().token_ids, parent.finish_reason, parent.seed) == ([4], None, 1)
    parent.accept(slots, 0)
    assert parent.text.take() == "\ufffda"
    assert parent.live


def test_raw_logprobs_add_up_if_they_are_recorded(slots: Slots) -> None:
    request = request_in_slot(slots)
    request.accept(slots, 0, None, -1.5)
    assert request.cumulative_logprob is None
    request.raw_logprobs = RecordedLogprobs([0.0])
    for logprob in (-0.25, None, -2.0):
        request.accept(slots, 0, None, logprob)
    assert request.cumulative_logprob == -2.25
    child = request.fork("child", None)
    request.rollback(slots, 1)
    assert (request.cumulative_logprob, child.cumulative_logprob) == (-0.25, -2.25)


@pytest.mark.parametrize(
    ("settings", "modes"),
    [
        ({}, ()),
        ({"logprobs": 0}, ("raw",)),
        ({"logprobs": 2, "logprobs_mode": "penalized"}, ("penalized",)),
        ({"logprobs": 2, "logprobs_mode": ("raw", "processed")}, ("raw", "processed")),
        ({"logprobs_mode": "processed"}, ()),
    ],
)
def test_the_modes_are_those_requested(settings: Any, modes: tuple[str, ...]) -> None:
    assert make_request(params=SamplingParams(**settings)).logprobs_modes == modes


def test_a_value_that_is_not_a_criterion_is_refused() -> None:
    with pytest.raises(ParameterError, match="stopping_criteria holds 7"):
        make_request(stopping_criteria=[7])


def test_siblings_share_the_tokens_after_which_they_are_checked() -> None:
    request = make_request(params=SamplingParams(seed=1, stop_token_ids=[0, 3]))
    siblings = [request, request.fork("s", 2)]
    first, second = (one.check_trigger().token_ids for one in siblings)
    assert first is second
    assert set(first.tolist()) >= {0, 3}
