from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, RequestLimits, SamplingParams, Scheduler
from engine_sampler.stopping import DeepConfCriteria

from ..bytewise import BACKENDS

VOCAB, WINDOW, TOP_K = 300, 5, 20


def rows_of(seed: int, count: int = 40) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (random.normal(size=(count, VOCAB)) * random.uniform(0.5, 4, (count, 1))).astype(np.float32)


def confidences(rows: np.ndarray, top_k: int = TOP_K) -> np.ndarray:
    """Of each row, in float64."""
    logits = rows.astype(np.float64)
    logprobs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return -np.sort(logprobs, axis=1)[:, -top_k:].mean(axis=1)


def means_of(values: np.ndarray) -> np.ndarray:
    return np.convolve(values, np.ones(WINDOW) / WINDOW, "valid")


def params_for(threshold: float, **more: Any) -> SamplingParams:
    given = {"deepconf_threshold": threshold, "deepconf_window_size": WINDOW, "seed": 1, **more}
    return SamplingParams(**given)


def threshold_for(rows: np.ndarray) -> float:
    """One between the third and the fourth of the means."""
    return float(np.sort(means_of(confidences(rows)))[2:4].mean())


def end_of(rows: np.ndarray, threshold: float) -> int:
    """The number of tokens with which an output ends."""
    return int(np.flatnonzero(means_of(confidences(rows)) < threshold)[0]) + WINDOW


def steps_until_the_end(scheduler: Scheduler, rows: np.ndarray) -> int:
    for number, row in enumerate(rows, 1):
        result = scheduler.step(row[None])
        if result.finish_reasons != [None]:
            assert (result.finish_reasons, result.stop_reasons) == (["stop"], ["deepconf"])
            return number
    return 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", range(5))
def test_a_request_ends_where_the_mean_over_the_window_is_below_the_threshold(
    backend: str, seed: int
) -> None:
    rows = rows_of(seed)
    threshold = threshold_for(rows)
    scheduler = Scheduler(VOCAB, backend=backend)
    scheduler.add(params_for(threshold))
    assert steps_until_the_end(scheduler, rows) == end_of(rows, threshold)


@pytest.mark.parametrize("backend", BACKENDS)
def test_backends_record_the_same_confidences(backend: str) -> None:
    scheduler = Scheduler(VOCAB, backend=backend)
    scheduler.add(params_for(0.1, top_k=7, repetition_penalty=1.3), request_id="a")
    rows = rows_of(3, 8)
    for row in rows:
        scheduler.step(row[None])
    recorded = scheduler.export("a")["confidences"]
    reference = Scheduler(VOCAB, backend="numpy")
    reference.add(params_for(0.1, temperature=0), request_id="a")
    for row in rows:
        reference.step(row[None])
    assert recorded == reference.export("a")["confidences"]
    np.testing.assert_allclose(recorded, confidences(rows), rtol=1e-6)


def test_an_output_shorter_than_the_window_goes_on() -> None:
    scheduler = Scheduler(VOCAB)
    scheduler.add(params_for(100))
    assert steps_until_the_end(scheduler, rows_of(0)) == WINDOW


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["raw", "processed", ["raw", "processed"], "penalized"])
@pytest.mark.parametrize("others", [0, None, 30, -1])
def test_reported_logprobs_stay_as_they_are(backend: str, mode: Any, others: int | None) -> None:
    def reported(**more: Any) -> list[list[Any]]:
        scheduler = Scheduler(VOCAB, backend=backend, limits=RequestLimits(logprobs=None))
        asked = {"logprobs_mode": mode, "seed": 2, "top_k": 50}
        scheduler.add(SamplingParams(logprobs=3, **asked, **more))
        scheduler.add(SamplingParams(logprobs=others, **asked))
        logprobs = scheduler.step(rows_of(1, 2)).logprobs
        assert logprobs is not None
        return [
            [table.row(row).token_ids.tolist(), table.row(row).logprobs.tolist(), table.ranks.tolist()]
            for table in logprobs.by_mode.values()
            for row in range(2)
        ]

    assert reported(deepconf_threshold=0.1) == reported()


def test_no_logprobs_are_reported_unless_they_are_asked_for() -> None:
    scheduler = Scheduler(VOCAB)
    scheduler.add(params_for(0.1))
    assert scheduler.step(rows_of(0, 1)).logprobs is None


def test_drafts_and_trees_of_guesses_change_nothing() -> None:
    rows = rows_of(2)
    threshold = threshold_for(rows)
    end = end_of(rows, threshold)
    best = rows.argmax(axis=1).tolist()
    for trees in (False, True):
        scheduler = Scheduler(VOCAB)
        scheduler.add(params_for(threshold, temperature=0), request_id="a")
        done = 0
        while scheduler.request_ids:
            guesses = best[done : done + 3]
            drafts: dict[str, Any] = {"draft_token_ids": [guesses]}
            logits = rows[done : done + 4]
            if trees:  # each guess beside a wrong one
                guesses = [t for guess in guesses for t in ((guess + 1) % VOCAB, guess)]
                drafts = {"draft_trees": [(guesses, [-1, -1, 1, 1, 3, 3])]}
                logits = rows[done + np.array([0, 1, 1, 2, 2, 3, 3])]
            result = scheduler.step(logits, **drafts)
            done += len(result.tokens(0))
        assert (done, result.stop_reasons) == (end, ["deepconf"])


def test_rollback_and_fork_take_the_confidences_along() -> None:
    rows = rows_of(4)
    threshold = threshold_for(rows)
    end = end_of(rows, threshold)
    scheduler = Scheduler(VOCAB)
    scheduler.add(params_for(threshold), request_id="a")
    for row in rows[: end - 1]:
        scheduler.step(row[None])
    scheduler.rollback("a", 3)
    certain = np.zeros((3, VOCAB), np.float32)
    certain[:, 0] = 90
    for row in certain:
        scheduler.step(row[None])
    scheduler.rollback("a", 3)
    scheduler.fork("a", new_request_id="b")
    for row in rows[end - 4 : end - 1]:
        assert scheduler.step(np.stack([row, row])).stop_reasons == [None, None]
    assert scheduler.step(np.stack([rows[end - 1], certain[0]])).stop_reasons == ["deepconf", None]


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_exported_request_ends_where_it_would_have(backend: str) -> None:
    rows = rows_of(1)
    threshold = threshold_for(rows)
    end = end_of(rows, threshold)
    scheduler = Scheduler(VOCAB, backend="numpy")
    scheduler.add(params_for(threshold), [1, 2], request_id="a")
    for row in rows[: end - 2]:
        scheduler.step(row[None])
    state = json.loads(json.dumps(scheduler.export("a")))
    other = Scheduler(VOCAB, backend=backend)
    other.add_exported(state)
    assert other.export("a") == state
    assert steps_until_the_end(other, rows[end - 2 :]) == 2


@pytest.mark.parametrize("wrong", [["x"], [1.0, 2.0], 3])
def test_confidences_of_another_kind_are_refused(wrong: Any) -> None:
    scheduler = Scheduler(VOCAB)
    scheduler.add(params_for(1), request_id="a")
    scheduler.step(rows_of(0, 1))
    state = {**scheduler.export("a"), "confidences": wrong}
    with pytest.raises(ParameterError, match=r"state\['confidences'\].* is not allowed"):
        scheduler.add_exported(state, request_id="b")


def test_tokens_chosen_elsewhere_do_not_count() -> None:
    scheduler = Scheduler(VOCAB)
    scheduler.add(params_for(100), [1], output_token_ids=[2, 3, 4, 5, 6, 7], request_id="a")
    scheduler.accept("a", [8, 9])
    scheduler.step(rows_of(0, 1))
    scheduler.accept("a", [8, 9], [-3.0, -4.0])
    scheduler.rollback("a", 1)
    assert [c is None for c in scheduler.export("a")["confidences"]] == [*[True] * 8, False, True]
    assert steps_until_the_end(scheduler, rows_of(1)) == WINDOW - 1


def test_a_token_of_probability_one_counts() -> None:
    row: np.ndarray = np.full((1, VOCAB), -np.inf, np.float32)
    row[0, 7] = 0
    scheduler = Scheduler(VOCAB)
    scheduler.add(params_for(1), request_id="a")
    scheduler.step(row)
    state = json.loads(json.dumps(scheduler.export("a"), allow_nan=False))
    assert state["confidences"] == [0.95e9]


def test_a_small_vocabulary_counts_whole() -> None:
    scheduler = Scheduler(4)
    scheduler.add(params_for(1), request_id="a")
    scheduler.step(np.zeros((1, 4), np.float32))
    assert scheduler.export("a")["confidences"] == pytest.approx([np.log(4)])


def test_siblings_have_their_own_windows() -> None:
    rows = rows_of(0)
    threshold = threshold_for(rows)
    end = end_of(rows, threshold)
    scheduler = Scheduler(VOCAB)
    scheduler.add_group(params_for(threshold, n=1, best_of=2), [1])
    certain: np.ndarray = np.zeros(VOCAB, np.float32)
    certain[0] = 90
    reasons = [scheduler.step(np.stack([row, certain])).stop_reasons for row in rows[:end]]
    assert reasons[-1] == ["deepconf", None]


def ends(criteria: Sequence[DeepConfCriteria], **params: Any) -> int:
    scheduler = Scheduler(VOCAB)
    scheduler.add(SamplingParams(**params), stopping_criteria=criteria)
    return steps_until_the_end(scheduler, rows_of(0, 10))


def test_a_criterion_may_have_settings_of_its_own() -> None:
    assert ends([DeepConfCriteria(100, 3)]) == 3
    assert ends([DeepConfCriteria(100, 3, 5)], deepconf_threshold=100, deepconf_top_k=5) == 3
    assert ends([DeepConfCriteria(100, 4)], deepconf_threshold=100, deepconf_window_size=2) == 2


def test_different_top_k_are_refused_together() -> None:
    with pytest.raises(
        ParameterError, match=r"different top_k are not allowed together: deepconf 20, deepconf 5"
    ):
        ends([DeepConfCriteria(3, 2, 5)], deepconf_threshold=3)


def test_beam_searches_are_refused() -> None:
    params = SamplingParams(use_beam_search=True, beam_width=2, deepconf_threshold=3)
    with pytest.raises(ParameterError, match="deepconf and use_beam_search are not allowed together"):
        Scheduler(VOCAB).add_group(params, [1])


def test_it_cannot_be_called_with_scores() -> None:
    with pytest.raises(NotImplementedError, match="follows the steps of a Scheduler"):
        DeepConfCriteria(3)(np.zeros((1, 1), np.int64), np.zeros((1, 4), np.float32))


@pytest.mark.parametrize(
    ("name", "value"),
    [("deepconf_threshold", -1), ("deepconf_window_size", 0), ("deepconf_top_k", 129), ("deepconf_top_k", 0)],
)
def test_values_out_of_bounds_are_refused(name: str, value: int) -> None:
    with pytest.raises(ParameterError, match=f"{name}={value}"):
        SamplingParams(**{name: value})
    with pytest.raises(ParameterError, match=f"{name}={value}"):
        DeepConfCriteria(**{name: value})
