"""Requests join, are resumed, and leave; wrong arguments are refused before anything changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, RequestError, SamplingParams, Scheduler, sample
from engine_sampler.contract import Selector

from ..engines import (
    CONFIGURATIONS,
    EOS,
    TOKENIZER,
    VOCAB,
    alone,
    make_scheduler,
    model_row,
    model_step,
    outcome,
    rows_for,
    run_to_end,
    snapshot,
)

LEARNING = ("mirostat", "adaptive_target")
"""Parameters of selectors that learn from their own draws."""


def test_new_requests_get_new_numbers_and_given_ids_are_kept() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(), request_id=1)
    scheduler.add(SamplingParams(), request_id=("user", 7))
    assert [scheduler.add(SamplingParams()) for _ in range(3)] == [0, 2, 3]
    assert scheduler.request_ids == [1, ("user", 7), 0, 2, 3]


def test_an_id_is_taken_until_its_request_is_removed() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(max_tokens=1), request_id="a")
    for _ in range(2):
        with pytest.raises(RequestError, match="request id 'a' is taken"):
            scheduler.add(SamplingParams(), request_id="a")
        run_to_end(scheduler)
    scheduler.remove("a")
    assert scheduler.add(SamplingParams(), request_id="a") == "a"


@pytest.mark.parametrize("configuration", [c for c in CONFIGURATIONS if not c.keys() & set(LEARNING)])
@pytest.mark.parametrize("kept", [0, 1, 5, 7])
def test_a_resumed_request_continues_as_if_it_had_never_stopped(configuration: Any, kept: int) -> None:
    params = SamplingParams(**configuration, seed=21, max_tokens=12)
    expected = alone(params, [1, 2])
    output = expected.token_ids[: min(kept, len(expected.token_ids) - 1)]
    scheduler = make_scheduler()
    request_id = scheduler.add(params, [1, 2], output_token_ids=output)
    run_to_end(scheduler)
    assert outcome(scheduler.record(request_id)) == outcome(expected)


@pytest.mark.parametrize("settings", [{"mirostat": 1}, {"mirostat": 2}, {"adaptive_target": 0.3}])
def test_selectors_that_learn_from_their_draws_start_from_scratch_in_a_resumed_request(settings: Any) -> None:
    scheduler = make_scheduler()
    params = SamplingParams(**settings, seed=1)
    scheduler.add(params)
    scheduler.add(params, output_token_ids=[1, 2, 3])
    states = [scheduler._requests.slots.entries[i].states for i in range(2)]
    selector = next(name for name in states[0] if name.startswith(("mirostat", "adaptive")))
    assert isinstance(scheduler._requests.known[0].chain.selector, Selector)
    assert states[0][selector].now == states[1][selector].now


def test_a_split_character_is_completed_after_resumption() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(logit_bias={5: 200.0}), output_token_ids=[0, 4])
    result = scheduler.step(np.zeros((1, VOCAB), np.float32))
    assert result.text == ["é"]
    assert scheduler.record(0).text == "aé"


def test_draws_continue_from_a_given_position() -> None:
    row = model_row([])
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(seed=3), position=17)
    first, second = (int(scheduler.step(row[None]).token_ids[0]) for _ in range(2))
    drawn = sample(np.stack([row] * 2), SamplingParams(seed=3), positions=[17, 18]).token_ids.tolist()
    assert [first, second] == drawn


def test_tokens_chosen_elsewhere_join_the_history() -> None:
    params = SamplingParams(seed=5, repetition_penalty=1.5, dry_multiplier=1.0, max_tokens=9, min_p=0.01)
    expected = alone(params, [1])
    scheduler = make_scheduler()
    scheduler.add(params, [1])
    model_step(scheduler)
    scheduler.accept(0, expected.token_ids[1:4])
    run_to_end(scheduler)
    assert outcome(scheduler.record(0)) == outcome(expected)


def test_text_of_tokens_chosen_elsewhere_is_in_the_next_result() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(logit_bias={9: 200.0}))
    scheduler.accept(0, [0, 1, 4])
    assert scheduler.step(np.zeros((1, VOCAB), np.float32)).text == ["ab\ufffdde"]


def test_tokens_after_the_one_that_ends_a_request_are_dropped() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(stop_token_ids=[7]))
    scheduler.accept(0, [1, 7, 2])
    record = scheduler.record(0)
    assert (record.token_ids, record.finish_reason, record.stop_reason) == ([1, 7], "stop", 7)
    assert scheduler.request_ids == []


def test_removing_a_live_request_aborts_it_and_flushes_its_text() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(), [1])
    scheduler.accept(0, [0, 4])
    assert scheduler.record(0).text == "a"
    record = scheduler.remove(0)
    assert (record.token_ids, record.text, record.finish_reason) == ([0, 4], "a\ufffd", "abort")
    assert record.prompt_token_ids == [1]
    assert scheduler.request_ids == []
    with pytest.raises(RequestError, match="request 0 is unknown"):
        scheduler.record(0)


def test_a_finished_request_leaves_at_once_and_its_record_stays() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(seed=8, max_tokens=1))
    result = model_step(scheduler)
    assert result.finish_reasons == ["length"]
    assert scheduler.request_ids == []
    assert scheduler.record(0).token_ids == result.token_ids.tolist()
    row = np.zeros((1, VOCAB), np.float32)
    for use in (lambda: scheduler.step(row, [0], strict=True), lambda: scheduler.accept(0, [1]),
                lambda: scheduler.fork(0), lambda: scheduler.rollback(0, 1)):  # fmt: skip
        with pytest.raises(RequestError, match=r"request 0 has finished \(length\)"):
            use()
    assert scheduler.remove(0).finish_reason == "length"


def test_an_unseeded_request_reports_the_seed_that_repeats_it() -> None:
    scheduler = make_scheduler()
    for _ in range(2):
        scheduler.add(SamplingParams(max_tokens=10, temperature=2.0))
    seeds = model_step(scheduler).seeds
    run_to_end(scheduler)
    assert seeds[0] != seeds[1]
    for request_id, seed in enumerate(seeds):
        again = alone(SamplingParams(max_tokens=10, temperature=2.0, seed=seed))
        assert scheduler.record(request_id).seed == seed
        assert again.token_ids == scheduler.record(request_id).token_ids


def test_explain_names_the_groups_and_their_backends() -> None:
    scheduler = make_scheduler(backend="numpy")
    for name, settings in (("a", {"top_k": 5}), ("b", {}), ("c", {"top_k": 9, "temperature": 1.0})):
        scheduler.add(SamplingParams(**settings), request_id=name)
    groups = scheduler.explain()
    assert [g.request_ids for g in groups] == [["a", "c"], ["b"]]
    assert [name for name, _ in groups[0].steps] == ["top_k", "dist"]
    assert {backend for g in groups for _, backend in g.steps} == {"numpy"}


def test_explain_counts_the_rows_of_each_chain_that_bounds_left_open() -> None:
    scheduler = Scheduler(2000, backend="native")
    for settings in ({}, {"top_p": 0.5}, {"top_p": 0.5}, {"top_k": 4}):
        scheduler.add(SamplingParams(**settings, temperature=1.0, seed=1))
    rows = np.zeros((4, 2000), np.float32)
    rows[:2, 7] = 12
    scheduler.step(rows)
    drawn, cut, first = scheduler.explain()
    assert (drawn.decisions, cut.decisions, first.decisions) == ((1, 0), (1, 1), (0, 0))
    assert str(cut).endswith("top_p (native) → dist (native); 1 of 2 decisions took a second pass")
    assert str(first).endswith("dist (native)")


WRONG_ARRAYS: tuple[tuple[Any, type[Exception], str], ...] = (
    (np.zeros(VOCAB, np.float32), ValueError, r"shape \(40,\); allowed is \[rows, vocab\]"),
    (np.zeros((2, VOCAB, 1), np.float32), ValueError, "allowed is"),
    (np.zeros((1, VOCAB), np.float32), ValueError, "logits have 1 rows; the requests and drafts need 2"),
    (np.zeros((3, VOCAB), np.float32), ValueError, "logits have 3 rows"),
    (np.zeros((2, VOCAB - 1), np.float32), ValueError, "39 wide; the vocabulary has 40 tokens"),
    (np.zeros((2, VOCAB), np.float64), TypeError, "dtype float64"),
    (np.zeros((2, VOCAB), np.int32), TypeError, "dtype int32"),
    ("logits", TypeError, "logits"),
)


@pytest.mark.parametrize(("logits", "error", "words"), WRONG_ARRAYS)
@pytest.mark.parametrize("method", ["step", "process"])
def test_wrong_arrays_are_refused_before_anything_changes(
    logits: Any, error: type[Exception], words: str, method: str
) -> None:
    scheduler = make_scheduler()
    for settings in ({"mirostat": 2}, {"frequency_penalty": 0.5}):
        scheduler.add(SamplingParams(**settings, seed=1), [1])
    model_step(scheduler)
    before = snapshot(scheduler)
    with pytest.raises(error, match=words):
        getattr(scheduler, method)(logits)
    assert snapshot(scheduler) == before
    assert (model_step(scheduler).token_ids >= 0).all()


@pytest.mark.parametrize("method", ["step", "process"])
@pytest.mark.parametrize(
    ("request_ids", "words"),
    [
        ([0, 0], "names a request twice"),
        ([0, 9], "request 9 is unknown"),
        ("ab", "='ab' is not allowed: a list"),
    ],
)
def test_unknown_and_repeated_ids_are_refused_before_anything_changes(
    method: str, request_ids: list[int], words: str
) -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(seed=1))
    before = snapshot(scheduler)
    with pytest.raises(RequestError, match=words):
        getattr(scheduler, method)(np.zeros((2, VOCAB), np.float32), request_ids)
    assert snapshot(scheduler) == before


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"prompt_token_ids": [VOCAB]}, f"prompt_token_ids names token id {VOCAB}, allowed are 0 to 39"),
        ({"prompt_token_ids": "ab"}, "prompt_token_ids='ab' is not allowed: a list of token ids"),
        ({"prompt_token_ids": [[1]]}, "a list of token ids"),
        ({"output_token_ids": [-1]}, "output_token_ids names token id -1"),
        ({"position": -1}, "position=-1 is not allowed"),
        ({"stopping_criteria": ["stop"]}, "stopping_criteria holds 'stop', which is not a StoppingCriteria"),
        ({"prompt_token_ids": [1] * 30}, "the prompt has 30 tokens, max_model_len=30 allows fewer"),
        ({"params": SamplingParams(n=2)}, "n=2, best_of=None needs add_group"),
        ({"params": SamplingParams(logit_bias={99: 1.0})}, "logit_bias names token id 99"),
        ({"params": SamplingParams(stop_token_ids=[99])}, "stop_token_ids names token id 99"),
        ({"params": {"top_k": 3}}, "params={'top_k': 3} is not allowed: a SamplingParams"),
    ],
)
def test_a_wrong_request_is_refused_and_nothing_is_added(keywords: dict[str, Any], words: str) -> None:
    scheduler = make_scheduler(max_model_len=30)
    with pytest.raises(ParameterError) as caught:
        scheduler.add(**{"params": SamplingParams(), "request_id": "a", **keywords})
    assert words in str(caught.value)
    assert scheduler.request_ids == []
    assert scheduler.add(SamplingParams(), request_id="a") == "a"


def test_tokens_outside_the_vocabulary_cannot_be_accepted() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams())
    before = snapshot(scheduler)
    with pytest.raises(ParameterError, match="token_ids names token id 40"):
        scheduler.accept(0, [1, 40])
    assert snapshot(scheduler) == before


@pytest.mark.parametrize(
    ("keywords", "error", "words"),
    [
        ({"vocab_size": 0}, ParameterError, "vocab_size=0 is not allowed: an integer of at least 1"),
        ({"vocab_size": 9, "eos_token_ids": [9]}, ParameterError, "eos_token_ids names token id 9"),
        ({"vocab_size": 9, "max_model_len": 0}, ParameterError, "max_model_len=0"),
        ({"vocab_size": 9, "num_threads": 0}, ParameterError, "num_threads=0"),
        ({"vocab_size": 9, "backend": "abacus"}, ValueError, "backend='abacus' is not allowed"),
    ],
)
def test_a_wrong_scheduler_is_refused(keywords: dict[str, Any], error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        Scheduler(**keywords)


def test_the_eos_ids_are_the_tokenizers_unless_given() -> None:
    assert make_scheduler().vocabulary.eos_token_ids == (EOS,)
    assert make_scheduler(eos_token_ids=[3, 4]).vocabulary.eos_token_ids == (3, 4)
    assert Scheduler(VOCAB).vocabulary.eos_token_ids == ()
    assert len(TOKENIZER) == VOCAB == rows_for(make_scheduler(), []).shape[1]


@pytest.mark.parametrize("call", ["record", "remove", "fork", "suspend", "resume", "forced_tokens"])
def test_an_id_is_quoted_in_short(call: str) -> None:
    with pytest.raises(RequestError) as refusal:
        getattr(Scheduler(4), call)("x" * 50_000)
    assert len(str(refusal.value)) < 200
