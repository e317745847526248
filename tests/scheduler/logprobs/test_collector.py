"""Logprobs in step results: which requests get them, how many, and of which distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import Logprobs, RequestLimits, SamplingParams

from ...engines import EOS, VOCAB, ToyMatcher, make_scheduler, model_row, model_step
from ...reference import order, softmax
from ...stateful.workload import BACKENDS

ROW = model_row([1, 2])


def logprobs_of(*requests: SamplingParams, **keywords: Any) -> tuple[Any, np.ndarray]:
    """The logprobs of one step in which every request has the row `ROW`, and its tokens."""
    scheduler = make_scheduler(limits=RequestLimits(logprobs=VOCAB))
    for params in requests:
        scheduler.add(params, [1, 2, 2], **keywords)
    result = scheduler.step(np.stack([ROW] * len(requests)))
    return result.logprobs, result.token_ids


def expect_row(logprobs: Logprobs, row: int, logits: np.ndarray, token_id: int, top_n: int) -> None:
    """Row `row` holds the logprobs of `token_id` and of the best `top_n` under `logits`."""
    with np.errstate(divide="ignore"):
        expected = np.log(softmax(logits))
    best = order(logits)[:top_n]
    assert logprobs.token_ids[row].tolist()[: 1 + len(best)] == [token_id, *best]
    np.testing.assert_allclose(
        logprobs.logprobs[row][: 1 + len(best)], expected[[token_id, *best]], rtol=1e-5, atol=1e-6
    )
    assert logprobs.ranks[row] == order(logits).tolist().index(token_id) + 1


def test_without_a_request_there_are_none() -> None:
    assert logprobs_of(SamplingParams(seed=1))[0] is None


@pytest.mark.parametrize("top_n", [0, 1, 5])
def test_raw_logprobs_are_of_the_row_as_given(top_n: int) -> None:
    settings = {"temperature": 0.5, "top_k": 3, "frequency_penalty": 2.0}
    logprobs, tokens = logprobs_of(SamplingParams(seed=3, logprobs=top_n, **settings))
    assert logprobs.token_ids.shape == (1, 1 + top_n)
    assert logprobs.logprobs.dtype == np.float32
    expect_row(logprobs, 0, ROW, int(tokens[0]), top_n)


def test_minus_one_lists_the_whole_vocabulary() -> None:
    logprobs, tokens = logprobs_of(SamplingParams(seed=3, logprobs=-1))
    assert logprobs.token_ids.shape == (1, 1 + VOCAB)
    expect_row(logprobs, 0, ROW, int(tokens[0]), VOCAB)


def test_penalized_logprobs_come_after_masks_biases_and_penalties() -> None:
    params = SamplingParams(
        seed=3, logprobs=4, logprobs_mode="penalized", temperature=0.3, top_k=2, min_tokens=1,
        logit_bias={5: 1.5, 6: -np.inf}, presence_penalty=1.0, penalty_scope="all",
    )  # fmt: skip
    expected = ROW.copy()
    expected[[5, 1, 2]] += np.float32([1.5, -1.0, -1.0])
    expected[[6, EOS]] = -np.inf
    logprobs, tokens = logprobs_of(params)
    expect_row(logprobs, 0, expected, int(tokens[0]), 4)


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_processed_logprobs_are_of_the_distribution_that_is_drawn_from(temperature: float) -> None:
    settings = {"temperature": temperature, "top_k": 3, "seed": 3}
    logprobs, tokens = logprobs_of(SamplingParams(logprobs=5, logprobs_mode="processed", **settings))
    expected = np.full(VOCAB, -np.inf)
    left = order(ROW)[: 3 if temperature else 1]
    expected[left] = ROW[left] / (temperature or 1.0)
    expect_row(logprobs, 0, expected, int(tokens[0]), 5)
    assert (logprobs.token_ids[0, 1 + len(left) :] == -1).all()
    assert np.isnan(logprobs.logprobs[0, 1 + len(left) :]).all()


def test_several_modes_come_beside_the_first() -> None:
    modes = ("raw", "processed")
    both, tokens = logprobs_of(SamplingParams(seed=3, top_k=3, logprobs=2, logprobs_mode=modes))
    assert set(both.modes) == set(modes)
    assert both.token_ids.tolist() == both.modes["raw"].token_ids.tolist()
    for mode in modes:
        single, same = logprobs_of(SamplingParams(seed=3, top_k=3, logprobs=2, logprobs_mode=mode))
        assert same[0] == tokens[0]
        assert single.logprobs.tobytes() == both.modes[mode].logprobs.tobytes()
        assert single.token_ids.tolist() == both.modes[mode].token_ids.tolist()


def test_each_row_gets_as_many_as_it_requested_and_others_are_empty() -> None:
    logprobs, tokens = logprobs_of(
        SamplingParams(seed=1), SamplingParams(seed=2, logprobs=3), SamplingParams(seed=3, logprobs=1)
    )
    assert logprobs.token_ids.shape == (3, 4)
    assert logprobs.token_ids[0].tolist() == [-1] * 4
    assert np.isnan(logprobs.logprobs[0]).all()
    assert logprobs.ranks[0] == 0
    expect_row(logprobs, 1, ROW, int(tokens[1]), 3)
    expect_row(logprobs, 2, ROW, int(tokens[2]), 1)
    assert logprobs.token_ids[2, 2:].tolist() == [-1, -1]


@pytest.mark.parametrize("mode", ["raw", "penalized", "processed"])
def test_requesting_logprobs_changes_no_token(mode: str) -> None:
    for seed in range(20):
        params = SamplingParams(seed=seed, top_p=0.9, temperature=1.2, repetition_penalty=1.2)
        _, plain = logprobs_of(params)
        _, requested = logprobs_of(params.replace(logprobs=3, logprobs_mode=mode))
        assert plain.tolist() == requested.tolist()


def test_the_grammars_mask_counts_as_processed_and_penalized_but_not_as_raw() -> None:
    grammar = {"start": {1: "start", 2: "start"}}
    params = SamplingParams(seed=1, logprobs=-1, logprobs_mode=("raw", "penalized", "processed"))
    logprobs, _ = logprobs_of(params, grammar=ToyMatcher(grammar))
    finite = {mode: int(np.isfinite(rows.logprobs[0, 1:]).sum()) for mode, rows in logprobs.modes.items()}
    assert finite == {"raw": VOCAB, "penalized": 2, "processed": 2}


def test_every_accepted_draft_has_its_logprobs() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(temperature=0, logprobs=0), [1])
    first = int(np.argmax(model_row([1])))
    wrong = (int(np.argmax(model_row([1, first]))) + 1) % VOCAB
    result = model_step(scheduler, None, [[first, wrong, 0]])
    assert isinstance(result.logprobs, Logprobs)
    assert result.logprobs.token_ids[:, 0].tolist() == result.token_ids.tolist()
    assert result.logprobs.ranks.tolist() == [1, 1, 0, 0]
    expect_row(result.logprobs, 1, model_row([1, first]), int(result.token_ids[1]), 0)


def test_a_faulty_row_has_no_logprobs() -> None:
    scheduler = make_scheduler()
    for _ in range(2):
        scheduler.add(SamplingParams(logprobs=1))
    result = scheduler.step(np.stack([np.full(VOCAB, np.nan, np.float32), ROW]))
    assert isinstance(result.logprobs, Logprobs)
    assert result.logprobs.ranks[0] == 0
    assert np.isnan(result.logprobs.logprobs[0]).all()
    assert np.isfinite(result.logprobs.logprobs[1]).all()


# --- rows of different lengths -------------------------------------------------------------------


def test_a_row_is_as_long_as_it_needs_whatever_others_request() -> None:
    logprobs, tokens = logprobs_of(
        SamplingParams(seed=1, logprobs=1), SamplingParams(seed=2, logprobs=-1), SamplingParams(seed=3)
    )
    assert np.diff(logprobs.starts).tolist() == [2, 1 + VOCAB, 1]
    assert len(logprobs.entry_token_ids) == len(logprobs.entry_logprobs) == 2 + 1 + VOCAB + 1
    alone, _ = logprobs_of(SamplingParams(seed=1, logprobs=1))
    assert logprobs.row(0).token_ids.tolist() == alone.row(0).token_ids.tolist()
    assert logprobs.row(0).logprobs.tobytes() == alone.row(0).logprobs.tobytes()
    assert logprobs.row(1).token_ids.tolist() == [tokens[1], *order(ROW)]
    assert (len(logprobs.row(2).token_ids), logprobs.row(2).rank) == (0, 0)
    assert logprobs.token_ids.shape == logprobs.logprobs.shape == (3, 1 + VOCAB)
    assert logprobs.token_ids[0, 2:].tolist() == [-1] * (VOCAB - 1)


def test_rows_of_different_lengths_and_modes_come_in_one_table() -> None:
    settings = {"top_k": 3, "temperature": 0.5}
    logprobs, tokens = logprobs_of(
        SamplingParams(seed=1, logprobs=2, logprobs_mode="processed", **settings),
        SamplingParams(seed=2, logprobs=-1, logprobs_mode="raw", **settings),
        SamplingParams(seed=3, logprobs=-1, logprobs_mode="processed", **settings),
    )
    assert np.diff(logprobs.starts).tolist() == [3, 1 + VOCAB, 4]
    expect_row(logprobs, 1, ROW, int(tokens[1]), VOCAB)
    assert logprobs.row(2).token_ids.tolist() == [tokens[2], *order(ROW)[:3]]


def test_drafts_have_the_lengths_of_their_requests() -> None:
    scheduler = make_scheduler(limits=RequestLimits(logprobs=VOCAB))
    scheduler.add(SamplingParams(temperature=0, logprobs=1), [1])
    scheduler.add(SamplingParams(temperature=0, logprobs=-1), [2])
    first = int(np.argmax(model_row([1])))
    result = model_step(scheduler, None, [[first], []])
    assert isinstance(result.logprobs, Logprobs)
    assert np.diff(result.logprobs.starts).tolist() == [2, 2, 1 + VOCAB]
    expect_row(result.logprobs, 1, model_row([1, first]), int(result.token_ids[1]), 1)
    expect_row(result.logprobs, 2, model_row([2]), int(result.token_ids[2]), VOCAB)


def test_results_can_be_compared_and_hashed() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(logprobs=1), [1])
    first, second = scheduler.step(ROW[None]), scheduler.step(ROW[None])
    assert first == first
    assert first != second
    assert first.logprobs != second.logprobs
    assert len({first, second, first.logprobs, second.logprobs}) == 4


def test_rows_have_the_first_mode_of_their_requests_where_some_have_several() -> None:
    scheduler = make_scheduler()
    modes = [("raw", "processed"), "processed", ("penalized", "processed"), None]
    for mode in modes:
        asked = {} if mode is None else {"logprobs": 2, "logprobs_mode": mode}
        scheduler.add(SamplingParams(temperature=0.5, seed=1, repetition_penalty=1.5, **asked), [1, 2])
    result = model_step(scheduler)
    tables = result.logprobs
    assert isinstance(tables, Logprobs)
    assert sorted(tables.modes) == ["penalized", "processed", "raw"]
    for row, mode in enumerate(["raw", "processed", "penalized"]):
        shown, expected = tables.row(row), tables.modes[mode].row(row)
        assert shown.token_ids.tolist() == expected.token_ids.tolist()
        assert shown.logprobs.tolist() == expected.logprobs.tolist()
        assert shown.rank == expected.rank
        assert shown.token_ids[0] == result.token_ids[row]
    assert len(tables.row(3).token_ids) == 0


def test_one_mode_is_the_table_itself() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(logprobs=1), [1])
    tables = model_step(scheduler).logprobs
    assert isinstance(tables, Logprobs)
    assert tables.modes == {}
    assert tables.by_mode[""] is tables


FORCED = [{"tokens": 0, "force": [7, 8], "then": 1}, {}]


@pytest.mark.parametrize("mode", ["raw", "processed", ("penalized", "processed")])
@pytest.mark.parametrize("drafts", [None, [[7, 8, 3]]])
@pytest.mark.parametrize("begins", [False, True])
def test_logprobs_of_forced_tokens_do_not_depend_on_the_backend(mode: Any, drafts: Any, begins: bool) -> None:
    rows = np.tile(model_row([1]), (1 if drafts is None else 4, 1))
    told = []
    for backend in BACKENDS:
        scheduler = make_scheduler(backend=backend)
        scheduler.add(SamplingParams(phases=FORCED, logprobs=3, logprobs_mode=mode, seed=1), [1])
        begun = scheduler.begin(rows, None, drafts) if begins else None
        result = scheduler.step(rows, None, drafts) if begun is None else begun.finish()
        assert result.token_ids[0] == 7
        assert result.logprobs is not None
        tables = result.logprobs.by_mode.values()
        told.append(
            [(t.entry_token_ids.tolist(), t.entry_logprobs.tobytes(), t.ranks.tolist()) for t in tables]
        )
        if mode == "processed":
            assert result.logprobs.row(0).token_ids.tolist() == [7, 7]
            assert result.logprobs.row(0).logprobs.tolist() == [0, 0]
    assert all(one == told[0] for one in told)
