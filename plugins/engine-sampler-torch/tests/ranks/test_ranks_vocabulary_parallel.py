"""Vocabulary-parallel sampling gives the tokens of `sample` with whole rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from counted import counted
from engine_sampler_torch.ranks import VocabularyParallelSampler, VocabularyShards
from random_rows import masked_rows, random_rows
from rank_pool import Place, RankPool

from engine_sampler import ParameterError, SamplingParams, Scheduler, sample


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_random_rows_have_the_tokens_and_errors_of_whole_rows(ranks: RankPool, size: int) -> None:
    first, *others = ranks.run(size, random_rows, size, 24, 64)
    assert all(tokens == first for tokens in others)
    assert first[0] >= 1500


@pytest.mark.parametrize("share", [0.01, 0.5, 1.0])
def test_masks_apply_where_the_tokens_are(ranks: RankPool, share: float) -> None:
    first, *others = ranks.run(4, masked_rows, share)
    assert all(tokens == first for tokens in others)


def extremes(place: Place) -> list[int]:
    """Logits and biases at the limits of float32; the first row's best token counts as removed."""
    shards = VocabularyShards.even(6, place.size)
    sampler = VocabularyParallelSampler(shards, group=place.group)
    params = [
        SamplingParams(seed=1, logit_bias={0: 3e38}),
        SamplingParams(seed=2, logit_bias={0: 3e38, 4: -3e38}, temperature=1e-3),
        SamplingParams(seed=3, frequency_penalty=1e39, logit_bias={1: 1e38}, min_p=0.5),
        SamplingParams(seed=4, repetition_penalty=1e39, temperature=0.5),
    ]
    logits = np.array([[-3e38, -1.0, -2.0, 0.0, -0.0, 1e-45]] * 4, np.float32)
    logits[1:, 0] = 1e30
    outputs = [[0], [1], [0, 1, 2, 3, 4], [0, 3]]
    result = sampler.sample(place.shard(shards, logits), sampler.rows(params, output_token_ids=outputs))
    assert result.token_ids.tolist() == sample(logits, params, output_token_ids=outputs).token_ids.tolist()
    return result.token_ids.tolist()


@pytest.mark.parametrize("size", [1, 4])
def test_logits_at_the_limits_of_float32_are_those_of_whole_rows(ranks: RankPool, size: int) -> None:
    first, *others = ranks.run(size, extremes)
    assert all(tokens == first for tokens in others)
    assert first[0] != 0


# --- top_p ---------------------------------------------------------------------------------------


def shares(place: Place, kind: str) -> int:
    """top_p over rows of one kind, in both orders and by all rules; returns how many needed histograms."""
    vocab_size = 4000
    shards = VocabularyShards([4000] if place.size == 1 else [0, 3970, 30])
    sampler = VocabularyParallelSampler(shards, group=place.group)
    rng = np.random.default_rng(1)
    rows = {
        "flat": rng.normal(size=(18, vocab_size)) / 100,
        "peaked": rng.normal(size=(18, vocab_size)) * 12,
        "equal": np.zeros((18, vocab_size)),
        "two levels": np.where(rng.random((18, vocab_size)) < 0.3, 0.0, -1.0),
        "negative zeros": np.where(rng.random((18, vocab_size)) < 0.3, 0.0, -0.0),
    }[kind].astype(np.float32)
    params = [
        SamplingParams(seed=i, top_p=p, top_p_cut=cut, order=order, temperature=0.7)
        for i, (p, cut, order) in enumerate(
            (p, cut, order)
            for p in (1e-9, 0.5, 0.9995)
            for cut in ("reach", "exceed", "below")
            for order in ("llama.cpp", "vllm")
        )
    ]
    with counted() as messages:
        result = sampler.sample(place.shard(shards, rows), sampler.rows(params))
    assert result.token_ids.tolist() == sample(rows, params).token_ids.tolist()
    return max(0, len(messages) - 6)


@pytest.mark.parametrize(
    ("kind", "histograms"),
    [("flat", True), ("peaked", False), ("equal", True), ("two levels", True), ("negative zeros", True)],
)
@pytest.mark.parametrize("size", [1, 3])
def test_top_p_is_exact_by_candidates_and_by_histograms(
    ranks: RankPool, size: int, kind: str, histograms: bool
) -> None:
    assert all((more > 0) == histograms for more in ranks.run(size, shares, kind))


# --- a batch over several steps ------------------------------------------------------------------


def several_steps(place: Place) -> None:
    """`accept` keeps positions and penalties up to date."""
    vocab_size = 90
    shards = VocabularyShards.even(vocab_size, place.size, 16)
    sampler = VocabularyParallelSampler(shards, group=place.group)
    params = [
        SamplingParams(seed=1, repetition_penalty=1.5, frequency_penalty=0.5, penalty_last_n=3),
        SamplingParams(seed=2, temperature=0.7, presence_penalty=2.0, penalty_scope="all"),
        SamplingParams(temperature=0),
    ]
    alone = Scheduler(vocab_size)
    prompts = [[1, 2], [3], []]
    for own, prompt in zip(params, prompts, strict=True):
        alone.add(own, prompt)
    rows = sampler.rows(params, prompt_token_ids=prompts)
    rng = np.random.default_rng(0)
    for _ in range(12):
        logits = rng.normal(size=(3, vocab_size)).astype(np.float32)
        result = sampler.sample(place.shard(shards, logits), rows)
        assert result.token_ids.tolist() == alone.step(logits).token_ids.tolist()
        rows.accept(result.token_ids)
    with pytest.raises(ValueError, match=r"token_ids have shape \(2,\); allowed is \[3\]"):
        rows.accept([1, 2])
    with pytest.raises(ParameterError, match="token_ids"):
        rows.accept([1, 2, vocab_size])


def test_a_batch_goes_on_with_the_tokens_it_is_given(ranks: RankPool) -> None:
    ranks.run(3, several_steps)


def random_seeds(place: Place) -> Any:
    shards = VocabularyShards.even(64, place.size)
    sampler = VocabularyParallelSampler(shards, group=place.group)
    rows = sampler.rows([SamplingParams()] * 6)
    return rows.seeds.tolist(), sampler.sample(
        place.shard(shards, np.zeros((6, 64))).float(), rows
    ).token_ids.tolist()


def test_requests_without_a_seed_get_the_same_on_all_ranks(ranks: RankPool) -> None:
    first, *others = ranks.run(3, random_seeds)
    assert others == [first, first]
    assert len(set(first[0])) == 6


# --- what it does not know -----------------------------------------------------------------------

REFUSED = {
    "n=2": "several siblings",
    "use_beam_search=True": "several siblings, or a beam search",
    "top_k=129": "top_k=129 is not allowed in vocabulary-parallel sampling: at most 128",
    "typical_p=0.5": "the sampler typical_p",
    "mirostat=2": "the selector mirostat_v2",
    "dynatemp_range=0.5": "dynatemp_range=0.5",
    "min_keep=2, top_p=0.5": "min_keep=2",
    "repetition_penalty=1.2, repetition_penalty_range=9, repetition_penalty_slope=1.0": "slope=1.0",
    "logprobs=1": "logprobs=1",
    "regex='a'": "regex='a' is not allowed in vocabulary-parallel sampling: give its masks as `bitmask`",
    "min_tokens=3": "the sampler min_tokens",
    "order=['temperature', 'penalties'], temperature=2.0, presence_penalty=1.0": "with penalties after",
}


def refusals(place: Place) -> list[str]:
    sampler = VocabularyParallelSampler(VocabularyShards([300]), group=place.group, eos_token_ids=[0])
    messages = []
    for given in REFUSED:
        with pytest.raises(ParameterError) as raised:
            sampler.rows([eval(f"SamplingParams({given})", {"SamplingParams": SamplingParams})])
        messages.append(str(raised.value))
    for keywords in ({"positions": [1, 2]}, {"prompt_token_ids": [[1], [2]]}):
        with pytest.raises(ValueError, match="has 2 entries for 1 rows"):
            sampler.rows([SamplingParams()], **keywords)
    with pytest.raises(ParameterError, match="output_token_ids"):
        sampler.rows([SamplingParams()], output_token_ids=[[300]])
    assert sampler.sample(torch.empty(0, 300), sampler.rows([])).token_ids.tolist() == []
    return messages


def test_what_needs_whole_rows_is_refused_by_its_name(ranks: RankPool) -> None:
    (messages,) = ranks.run(1, refusals)
    for message, expected in zip(messages, REFUSED.values(), strict=True):
        assert expected in message
        assert "BatchShardedScheduler" in message
