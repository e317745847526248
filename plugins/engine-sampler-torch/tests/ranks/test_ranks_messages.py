"""How many bytes a rank gives in a step: counted, and as documented."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from counted import counted
from engine_sampler_torch.ranks import BatchShardedScheduler, VocabularyParallelSampler, VocabularyShards
from rank_pool import Place, RankPool

from engine_sampler import SamplingParams

ROWS, VOCAB_SIZE, RANKS = 64, 4096, 4


def sharded(place: Place, **params: Any) -> list[int]:
    """Bytes of the messages of a step with bfloat16 rows."""
    shards = VocabularyShards.even(VOCAB_SIZE, place.size)
    scheduler = BatchShardedScheduler(shards, group=place.group)
    for i in range(ROWS):
        scheduler.add(SamplingParams(seed=i, **params))
    logits = place.shard(shards, np.zeros((ROWS, VOCAB_SIZE), np.float32)).bfloat16()
    with counted() as messages:
        scheduler.step(logits)
    return [size for _, size in messages]


def test_a_batch_sharded_step_moves_each_row_once(ranks: RankPool) -> None:
    shard = ROWS * VOCAB_SIZE * 2 // RANKS  # of which a quarter stays
    answer = 24 + 16 * ROWS // RANKS + 64
    assert ranks.run(RANKS, sharded) == [[40, shard, answer]] * RANKS


def listed(place: Place) -> list[int]:
    return sharded(place, logprobs=5)


def test_logprobs_travel_with_the_tokens(ranks: RankPool) -> None:
    for agreement, _, answer in ranks.run(RANKS, listed):
        assert agreement == 40
        assert answer <= 24 + ROWS // RANKS * (16 + 64 + 16 + 8 * 5) + 72


def parallel(place: Place, scale: float, params: dict[str, Any]) -> list[int]:
    shards = VocabularyShards.even(VOCAB_SIZE, place.size)
    sampler = VocabularyParallelSampler(shards, group=place.group)
    rows = sampler.rows([SamplingParams(seed=i, **params) for i in range(ROWS)])
    logits = np.random.default_rng(0).normal(size=(ROWS, VOCAB_SIZE)).astype(np.float32) * scale
    shard = place.shard(shards, logits)
    with counted() as messages:
        sampler.sample(shard, rows)
    return [size for _, size in messages]


AGREE, MAXIMA, DRAW = [32], [24 * ROWS + 8], [8 * ROWS + 8] * 2
SHARE = [(8 + 8 * 128) * ROWS + 8]
HISTOGRAMS = [8 * 256 * ROWS + 8] * 4 + [8 * ROWS + 8]


@pytest.mark.parametrize(
    ("scale", "params", "expected"),
    [
        (1, {"temperature": 0}, AGREE + MAXIMA),
        (1, {"temperature": 0.7}, AGREE + MAXIMA + DRAW),
        (1, {"temperature": 0.7, "min_p": 0.1}, AGREE + MAXIMA + DRAW),
        (1, {"top_k": 40, "top_p": 0.95, "min_p": 0.05}, AGREE + MAXIMA + [8 * 40 * ROWS + 8]),
        (9, {"top_p": 0.95}, AGREE + MAXIMA + SHARE + DRAW),
        (0.01, {"top_p": 0.95}, AGREE + MAXIMA + SHARE + HISTOGRAMS + DRAW),
    ],
)
def test_a_parallel_step_exchanges_what_its_samplers_need(
    ranks: RankPool, scale: float, params: dict[str, Any], expected: list[int]
) -> None:
    assert ranks.run(RANKS, parallel, scale, params) == [expected] * RANKS
