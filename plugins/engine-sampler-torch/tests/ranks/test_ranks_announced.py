"""Steps that are announced: ranks agree on them during the forward pass, and still fail together."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from counted import counted
from engine_sampler_torch.ranks import RankError
from rank_pool import Place, RankPool
from test_ranks_failures import LONE_CALLS, VOCAB_SIZE, WRONG_INPUTS, Engine, lone_call

from engine_sampler import RequestError, SamplingParams


def announced_life(place: Place) -> list[list[str]]:
    """Steps with requests that join and leave; the collectives of each, behind the announcement."""
    engine, collectives = Engine(place), []
    for number in range(6):
        engine.all_ranks.announce()
        if number == 3:
            for scheduler in (engine.all_ranks, engine.one):
                scheduler.remove(2)
        with counted() as messages:
            engine.step()
        collectives.append([name.split("_into")[0].split("_single")[0] for name, _ in messages])
    return collectives


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_announced_steps_give_the_tokens_of_one_rank(ranks: RankPool, size: int) -> None:
    assert ranks.run(size, announced_life) == [[["all_gather", "all_to_all", "all_gather"]] * 6] * size


def announced_drafts(place: Place) -> bool:
    engine = Engine(place)
    engine.step()
    logits = np.random.default_rng(3).normal(size=(4, VOCAB_SIZE)).astype(np.float32)
    drafts = [[1], [2]]
    engine.all_ranks.announce([4, 1], drafts)
    found = engine.all_ranks.step(place.shard(engine.shards, logits), [4, 1], drafts)
    return found.token_ids.tolist() == engine.one.step(logits, [4, 1], drafts).token_ids.tolist()


def test_drafts_are_announced_with_their_step(ranks: RankPool) -> None:
    assert all(ranks.run(3, announced_drafts))


def order_of_messages(place: Place) -> list[int]:
    """How many collectives a rank has begun after each call, and before it waits for any in the step."""
    engine = Engine(place)
    engine.step()
    with counted() as messages:
        engine.all_ranks.announce()
        begun = [len(messages)]
        engine.step()
        return [*begun, len(messages)]


def test_an_announcement_is_one_message_of_its_own(ranks: RankPool) -> None:
    assert ranks.run(2, order_of_messages) == [[1, 4]] * 2


def wrong_input(place: Place, name: str) -> str:
    engine = Engine(place)
    engine.step()
    logits = place.shard(engine.shards, engine.logits())
    engine.all_ranks.announce()
    with pytest.raises(RankError) as raised:
        engine.all_ranks.step(WRONG_INPUTS[name][0](logits) if engine.fails else logits)
    assert raised.value.result is None
    engine.all_ranks.announce()
    engine.step()
    return str(raised.value)


@pytest.mark.parametrize("name", WRONG_INPUTS)
def test_wrong_logits_on_one_rank_raise_on_all_and_change_nothing(ranks: RankPool, name: str) -> None:
    (message,) = set(ranks.run(3, wrong_input, name))
    if "dtype" in name:  # that rank asks before it sends
        assert re.search("rank 1: (it calls step|TypeError: logits have dtype)", message)
    else:
        assert re.match(WRONG_INPUTS[name][1], message)


@pytest.mark.parametrize("name", LONE_CALLS)
def test_a_call_that_one_rank_makes_in_place_of_the_step_is_named(ranks: RankPool, name: str) -> None:
    (message,) = set(ranks.run(3, lone_call, name, True))
    assert message.startswith(f"rank 1: it calls {name}, and rank 0 step as announced")


def lone_change(place: Place) -> str:
    """After the announcement, one rank changes a request."""
    engine = Engine(place)
    engine.step()
    engine.all_ranks.announce()
    if engine.fails:
        engine.all_ranks.accept(2, [1])
    with pytest.raises(RankError) as raised:
        engine.step_zeros(engine.all_ranks)
    return str(raised.value)


def test_a_change_that_one_rank_makes_after_the_announcement_is_named(ranks: RankPool) -> None:
    (message,) = set(ranks.run(3, lone_change))
    assert message.startswith("rank 1: it calls step, and rank 0 step as announced")


def lone_announcement(place: Place) -> str:
    engine = Engine(place)
    engine.step()
    if engine.fails:
        engine.all_ranks.announce()
    with pytest.raises(RankError) as raised:
        engine.step_zeros(engine.all_ranks)
    engine.step()
    return str(raised.value)


def test_an_announcement_that_one_rank_makes_alone_is_named(ranks: RankPool) -> None:
    (message,) = set(ranks.run(3, lone_announcement))
    assert message.startswith("rank 1: it calls announce, and rank 0 step")


def different_announcements(place: Place) -> str:
    engine = Engine(place)
    engine.step()
    engine.all_ranks.announce([0, 1] if engine.fails else [0, 2])
    with pytest.raises(RankError) as raised:
        engine.step_zeros(engine.all_ranks)
    engine.step()
    return str(raised.value)


def test_ranks_that_announce_different_steps_are_told_which(ranks: RankPool) -> None:
    (message,) = set(ranks.run(3, different_announcements))
    assert "rank 1: its announce differs from that of rank 0: requests [0, 1]" in message


def abandoned(place: Place) -> Any:
    """Announcements that no step follows, or another one, on all ranks."""
    engine = Engine(place)
    engine.step()
    with pytest.raises(RequestError, match="unknown"):
        engine.all_ranks.announce(["none"])
    engine.all_ranks.announce()
    engine.all_ranks.announce([3, 4])
    engine.step()
    engine.all_ranks.announce()
    tokens = len(engine.all_ranks.record(0).token_ids)
    for scheduler in (engine.all_ranks, engine.one):
        scheduler.add(SamplingParams(seed=9), [1], request_id=9)
    engine.step()
    return tokens


def test_an_announcement_binds_nobody(ranks: RankPool) -> None:
    assert ranks.run(3, abandoned) == [2] * 3
