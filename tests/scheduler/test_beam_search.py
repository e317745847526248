"""Beam search on its own: which texts are continued, which are kept, and when the search is over."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler.registry import CORE_PARAMS
from engine_sampler.scheduler.beam_search import BeamSearch, Candidate

VOCAB, EOS, LENGTH = 4, 0, 4


def row_after(text: tuple[int, ...], seed: int) -> np.ndarray:
    """Arbitrary logprobs that depend on the whole text."""
    logits = np.random.default_rng([seed, *text]).normal(0, 1.5, VOCAB)
    return (logits - np.log(np.exp(logits).sum())).astype(np.float32)


def search_all(search: BeamSearch[tuple[int, ...]], seed: int) -> list[tuple[float, tuple[int, ...]]]:
    """Run a search over texts that end at EOS or at LENGTH tokens; returns (score, text) of those kept."""
    texts: list[tuple[int, ...]] = [()] * search.width
    while not search.done:
        candidates = search.candidates([row_after(text, seed) for text in texts])
        grown = [(*texts[c.beam], c.token_id) for c in candidates]
        going = search.advance(candidates, grown, [t[-1] == EOS or len(t) == LENGTH for t in grown])
        texts = [grown[i] for i in going]
    return [(ended.score, ended.text) for ended in search.ended]


def logprob(text: tuple[int, ...], seed: int) -> float:
    return sum(float(row_after(text[:i], seed)[token]) for i, token in enumerate(text))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 1.0, 2.0]))
def test_a_search_that_is_wide_enough_finds_the_best_of_all_texts(seed: int, penalty: float) -> None:
    searched = search_all(BeamSearch(VOCAB**LENGTH, penalty, "never", max_tokens=LENGTH), seed)
    texts = [
        text
        for n in range(1, LENGTH + 1)
        for text in itertools.product(range(VOCAB), repeat=n)
        if EOS not in text[:-1] and (text[-1] == EOS or n == LENGTH)
    ]
    ranked = sorted(((logprob(t, seed) / len(t) ** penalty, t) for t in texts), reverse=True)
    assert [text for _, text in searched] == [text for _, text in ranked]
    np.testing.assert_allclose([s for s, _ in searched], [s for s, _ in ranked], rtol=1e-6, atol=1e-6)


@given(st.integers(0, 10**6))
def test_one_beam_takes_the_best_token_each_time(seed: int) -> None:
    [(_, text)] = search_all(BeamSearch(1, early_stopping=True), seed)
    assert all(token == int(row_after(text[:i], seed).argmax()) for i, token in enumerate(text))


@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([False, True, "never"]))
def test_the_kept_texts_have_ended_and_are_sorted(seed: int, width: int, stopping: bool | str) -> None:
    found = search_all(BeamSearch(width, 1.0, stopping, max_tokens=LENGTH), seed)
    assert 1 <= len(found) <= width
    assert [score for score, _ in found] == sorted((score for score, _ in found), reverse=True)
    for score, text in found:
        assert text[-1] == EOS or len(text) == LENGTH
        assert score == pytest.approx(logprob(text, seed) / len(text), abs=1e-5)


def test_the_first_step_reads_a_single_row() -> None:
    search: BeamSearch[int] = BeamSearch(3)
    candidates = search.candidates([np.log(np.array([0.1, 0.6, 0.3], np.float32))] * 3)
    assert [(c.beam, c.token_id) for c in candidates] == [(0, 1), (0, 2), (0, 0)]


def test_equal_scores_are_ordered_by_text_and_then_by_token() -> None:
    search: BeamSearch[int] = BeamSearch(2)
    search.scores = [0.0, 0.0]
    assert [(c.beam, c.token_id) for c in search.candidates([np.zeros(2, np.float32)] * 2)] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]


def test_removed_tokens_and_lost_rows_give_no_candidates() -> None:
    search: BeamSearch[int] = BeamSearch(2)
    search.scores = [0.0, 0.0]
    row = np.array([-np.inf, -1.0], np.float32)
    assert [(c.beam, c.token_id) for c in search.candidates([None, row])] == [(1, 1)]


def by_definition(
    scores: list[float], rows: list[np.ndarray], stops: list[list[int]], width: int, eos_count: int
) -> list[tuple[int, int]]:
    """(text, token) of the candidates that count: all in order, but for stop tokens beyond `width`."""
    every = sorted(
        (-(score + float(logprob)), beam, token)
        for beam, (score, row) in enumerate(zip(scores, rows, strict=True))
        for token, logprob in enumerate(row)
        if score > -math.inf and logprob > -math.inf
    )
    pairs = [(beam, token) for _, beam, token in every]
    left = max(2, 1 + eos_count) * width
    counted = []
    for rank, (beam, token) in enumerate(pairs):
        is_stop = token in stops[beam]
        if (is_stop and rank < width) or (not is_stop and left):
            counted.append((beam, token))
            left -= not is_stop
    return counted


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_candidates_are_those_of_the_definition(data: st.DataObject) -> None:
    width, size = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 40))
    random = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    rows = [random.integers(-6, 0, size).astype(np.float32) / 2 for _ in range(width)]
    for row in rows:
        row[random.random(size) < 0.2] = -np.inf
    stops = [np.unique(random.integers(0, size, int(random.integers(0, size + 1)))) for _ in rows]
    search: BeamSearch[int] = BeamSearch(width, eos_count=data.draw(st.integers(0, 3)))
    search.scores = [0.0, *(-float(n) / 2 for n in random.integers(0, 5, width - 1))]
    found = search.candidates(rows, stops)
    expected = by_definition(search.scores, rows, [s.tolist() for s in stops], width, search.eos_count)
    assert [(c.beam, c.token_id) for c in found] == expected
    assert all(c.score == search.scores[c.beam] + c.logprob for c in found)
    assert all(c.logprob == float(rows[c.beam][c.token_id]) for c in found)


def test_no_length_penalty_that_is_allowed_overflows() -> None:
    for sign in (-1.0, 1.0):
        penalty = sign * CORE_PARAMS["length_penalty"].high
        search: BeamSearch[str] = BeamSearch(1, penalty, "never", max_tokens=2**63 - 1)
        search.length = 2**62
        search.advance([Candidate(0, 1, -1.0, -1e6)], ["a"], [True])
        assert math.isfinite(search.ended[0].score)


def test_surplus_rows_repeat_a_text_and_are_not_continued() -> None:
    search: BeamSearch[str] = BeamSearch(3)
    candidates = search.candidates([np.array([-np.inf, -0.5], np.float32)] * 3)
    assert search.advance(candidates, ["a"], [False]) == [0, 0, 0]
    assert search.scores == [-0.5, -math.inf, -math.inf]


@pytest.mark.parametrize(
    ("early_stopping", "penalty", "best_left", "is_over"),
    [
        (True, 1.0, -0.1, True),
        (False, 1.0, -1.9, False),  # -1.9 / 1 beats -2 / 1
        (False, 1.0, -2.1, True),
        ("never", 1.0, -7.0, False),  # at 4 tokens it could have -7 / 4, which beats -2
        ("never", 1.0, -8.1, True),
        ("never", -1.0, -1.9, False),  # a longer text only loses then
        ("never", -1.0, -2.1, True),
    ],
)
def test_a_search_is_over_when_no_text_can_beat_those_that_have_ended(
    early_stopping: bool | str, penalty: float, best_left: float, is_over: bool
) -> None:
    search: BeamSearch[str] = BeamSearch(1, penalty, early_stopping, max_tokens=LENGTH)
    candidates = [Candidate(0, EOS, -2.0, -2.0), Candidate(0, 1, best_left, best_left)]
    assert search.advance(candidates, ["ended", "left"], [True, False]) == [1]
    assert search.done is is_over


def test_a_search_without_any_candidate_is_over() -> None:
    search: BeamSearch[str] = BeamSearch(2)
    assert search.advance(search.candidates([None, None]), [], []) == []
    assert search.done
    assert search.ended == []


@pytest.mark.parametrize("value", [0, 1, None, "always", 2.5])
def test_early_stopping_is_a_bool_or_never(value: object) -> None:
    with pytest.raises(ValueError, match="never"):
        CORE_PARAMS["early_stopping"].check(value)
