"""How many bytes a rank gives in a step: counted, and as documented."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch.distributed as dist
from counted import counted
from engine_sampler_torch.ranks import BatchShardedScheduler, VocabularyShards
from engine_sampler_torch.ranks.exchange import Agreement
from rank_pool import Place, RankPool

from engine_sampler import SamplingParams

ROWS, VOCAB_SIZE, RANKS = 64, 4096, 4
AGREE, WAIT = 48, 0


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
    assert ranks.run(RANKS, sharded) == [[48, shard, answer]] * RANKS


def in_halves(place: Place, is_announced: bool) -> list[list[int]]:
    """Bytes of the messages of both halves of a step, in order; 0 where the host waits for one of them."""
    shards = VocabularyShards.even(VOCAB_SIZE, place.size)
    scheduler = BatchShardedScheduler(shards, group=place.group)
    for i in range(ROWS):
        scheduler.add(SamplingParams(seed=i))
    logits = place.shard(shards, np.zeros((ROWS, VOCAB_SIZE), np.float32)).bfloat16()
    scheduler.begin(logits).finish()
    if is_announced:
        scheduler.announce()
    original = Agreement.settle

    def settle(*arguments: Any) -> None:
        messages.append(("wait", WAIT))
        original(*arguments)

    with counted() as messages, patch.object(Agreement, "settle", settle):
        begun = scheduler.begin(logits)
        first = [size for _, size in messages]
        begun.finish()
    return [first, [size for _, size in messages][len(first) :]]


@pytest.mark.parametrize(("is_announced", "agreement"), [(False, [AGREE, WAIT]), (True, [WAIT, AGREE])])
def test_no_message_of_the_host_is_waited_for_between_the_logits_and_the_tokens_on_the_device(
    ranks: RankPool, is_announced: bool, agreement: list[int]
) -> None:
    shard, tokens = ROWS * VOCAB_SIZE * 2 // RANKS, 8 * ROWS // RANKS
    answer = 24 + 16 * ROWS // RANKS + 64
    halves = [[*agreement, shard, tokens], [*[WAIT] * is_announced, AGREE, WAIT, answer]]
    assert ranks.run(RANKS, in_halves, is_announced) == [halves] * RANKS


def listed(place: Place) -> list[int]:
    return sharded(place, logprobs=5)


def test_logprobs_travel_with_the_tokens(ranks: RankPool) -> None:
    for agreement, _, answer in ranks.run(RANKS, listed):
        assert agreement == 48
        assert answer <= 24 + ROWS // RANKS * (16 + 64 + 16 + 8 * 5) + 72


def peaked(place: Place) -> list[int]:
    return sharded(place, return_sampling_mask=True, logprob_token_ids=[7, 5], top_k=3)


def test_masks_and_named_logprobs_travel_with_the_tokens(ranks: RankPool) -> None:
    assert [len(messages) for messages in ranks.run(RANKS, peaked)] == [3] * RANKS


def sent_as_they_lie(place: Place) -> list[bool]:
    """Whether a step packs its rows: in the order of arrival, and in that of the owners."""
    shards = VocabularyShards.even(VOCAB_SIZE, place.size)
    scheduler = BatchShardedScheduler(shards, group=place.group)
    for i in range(ROWS):
        scheduler.add(SamplingParams(seed=i))
    logits = place.shard(shards, np.random.default_rng(0).normal(size=(ROWS, VOCAB_SIZE)).astype(np.float32))
    found = []
    for ids in (None, scheduler.request_ids_by_owner):
        with patch.object(dist, "all_to_all_single", wraps=dist.all_to_all_single) as moved:
            scheduler.step(logits, ids)
        found.append(moved.call_args.args[1].data_ptr() == logits.data_ptr())
    return found


def test_rows_in_the_order_of_their_owners_are_sent_from_where_they_lie(ranks: RankPool) -> None:
    assert ranks.run(RANKS, sent_as_they_lie) == [[False, True]] * RANKS


def kept_room(place: Place) -> bool:
    """Whether three steps use the same memory."""
    shards = VocabularyShards.even(VOCAB_SIZE - 1, place.size)
    scheduler = BatchShardedScheduler(shards, group=place.group)
    for i in range(ROWS):
        scheduler.add(SamplingParams(seed=i))
    logits = place.shard(shards, np.zeros((ROWS, VOCAB_SIZE - 1), np.float32))
    places = set()
    for _ in range(3):
        with patch.object(dist, "all_to_all_single", wraps=dist.all_to_all_single) as moved:
            scheduler.step(logits)
        places.add(tuple(tensor.data_ptr() for tensor in moved.call_args.args[:2]))
    return len(places) == 1


def test_steps_use_the_same_memory_again(ranks: RankPool) -> None:
    assert all(ranks.run(RANKS, kept_room))


def told_on_device(place: Place) -> bool:
    shards = VocabularyShards.even(VOCAB_SIZE, place.size)
    scheduler = BatchShardedScheduler(shards, group=place.group)
    for i in range(ROWS):
        scheduler.add(SamplingParams(seed=i))
    logits = place.shard(shards, np.random.default_rng(0).normal(size=(ROWS, VOCAB_SIZE)).astype(np.float32))
    result = scheduler.step(logits)
    there = result.token_ids_on_device
    return there.device == logits.device and there.tolist() == result.token_ids.tolist()


def test_every_rank_has_the_tokens_beside_its_logits(ranks: RankPool) -> None:
    assert all(ranks.run(RANKS, told_on_device))
