"""A rank that fails, wherever it does, makes all ranks raise; none waits, and what can go on does."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
import torch.distributed as dist
from engine_sampler_torch.ranks import BatchShardedScheduler, RankError, VocabularyShards
from engine_sampler_torch.ranks.batch_sharded.answers import Details
from engine_sampler_torch.ranks.batch_sharded.ledger import Ledger
from rank_pool import Place, RankPool

from engine_sampler import BackendError, SamplingParams, Scheduler

VOCAB_SIZE = 40
FAILING = 1
"""The rank that fails, of three."""


class Engine:
    """Six requests on all ranks, and on one scheduler for comparison."""

    def __init__(self, place: Place, **options: Any) -> None:
        self.place = place
        self.shards = VocabularyShards.even(VOCAB_SIZE, place.size)
        self.all_ranks = BatchShardedScheduler(self.shards, group=place.group, **options)
        self.one = Scheduler(VOCAB_SIZE)
        self.rng = np.random.default_rng(0)
        for i in range(6):
            for scheduler in (self.all_ranks, self.one):
                scheduler.add(SamplingParams(seed=i, return_sampling_mask=True), [i], request_id=i)

    @property
    def fails(self) -> bool:
        return self.place.rank == FAILING

    def logits(self) -> Any:
        return self.rng.normal(size=(len(self.all_ranks.request_ids), VOCAB_SIZE)).astype(np.float32)

    def step_zeros(self, scheduler: BatchShardedScheduler) -> None:
        """A step of six equal rows."""
        scheduler.step(self.place.shard(self.shards, np.zeros((6, VOCAB_SIZE), np.float32)))

    def step(self) -> None:
        """A sound step, which is that of one rank."""
        logits = self.logits()
        result = self.all_ranks.step(self.place.shard(self.shards, logits))
        assert result.token_ids.tolist() == self.one.step(logits).token_ids.tolist()


# --- before the logits move ----------------------------------------------------------------------

WRONG_INPUTS: dict[str, tuple[Callable[[torch.Tensor], Any], str]] = {
    "a row less": (lambda x: x[:-1], r"rank 1: ValueError: logits have shape \[5, 14\]"),
    "a column less": (lambda x: x[:, 1:], r"rank 1: ValueError: logits have shape \[6, 13\]"),
    "another type": (lambda x: None, "rank 1: TypeError: logits of type NoneType are not allowed"),
    "a dtype that is not allowed": (lambda x: x.double(), "rank 1: TypeError: logits have dtype"),
    "a dtype of its own": (lambda x: x.half(), "rank 1: its step differs .* torch.float16 .* torch.float32"),
}


def wrong_input(place: Place, name: str) -> str:
    engine = Engine(place)
    engine.step()
    logits = place.shard(engine.shards, engine.logits())
    with pytest.raises(RankError) as raised:
        engine.all_ranks.step(WRONG_INPUTS[name][0](logits) if engine.fails else logits)
    assert raised.value.result is None
    assert list(raised.value.reasons) == [FAILING]
    engine.step()
    return str(raised.value)


@pytest.mark.parametrize("name", WRONG_INPUTS)
def test_wrong_logits_on_one_rank_raise_on_all_and_change_nothing(ranks: RankPool, name: str) -> None:
    (message,) = set(ranks.run(3, wrong_input, name))
    assert re.match(WRONG_INPUTS[name][1], message)


DIFFERENT_CALLS: dict[str, Callable[[Any], Any]] = {
    "add 'own'": lambda s: s.add(SamplingParams(), request_id="own"),
    "remove 3": lambda s: s.remove(3),
    "accept 2": lambda s: s.accept(2, [1]),
    "suspend 2": lambda s: s.suspend(2),
    "fork 2": lambda s: s.fork(2, new_request_id=9),
    "rollback 2": lambda s: s.rollback(2, 1),
}


def different_calls(place: Place, name: str) -> str:
    engine = Engine(place)
    engine.step()
    if engine.fails:
        DIFFERENT_CALLS[name](engine.all_ranks)
    for _ in range(2):
        with pytest.raises(RankError) as raised:
            engine.all_ranks.step(place.shard(engine.shards, engine.logits()))
    with pytest.raises(RankError, match="rank 1: its record differs"):
        engine.all_ranks.record(0)
    return str(raised.value)


@pytest.mark.parametrize("name", DIFFERENT_CALLS)
def test_ranks_that_make_different_calls_are_told_which(ranks: RankPool, name: str) -> None:
    (message,) = set(ranks.run(3, different_calls, name))
    assert "rank 1: its step differs from that of rank 0" in message
    assert f"7 calls have been made, the last of them add 4, add 5, {name}, and there" in message


def different_steps(place: Place) -> list[str]:
    engine = Engine(place)
    logits = place.shard(engine.shards, np.zeros((2, VOCAB_SIZE), np.float32))
    messages = []
    for ids, drafts in (([0, 1], None), ([0], [[1 + engine.fails]])):
        own = [0, 2] if engine.fails and drafts is None else ids
        with pytest.raises(RankError) as raised:
            engine.all_ranks.step(logits, own, drafts)
        messages.append(str(raised.value))
    engine.step()
    return messages


def test_ranks_that_step_different_requests_are_told_which(ranks: RankPool) -> None:
    messages = ranks.run(3, different_steps)
    assert messages[1:] == messages[:-1]
    assert "requests [0, 2]" in messages[0][0]
    assert "requests [0] with 1 drafts" in messages[0][1]


def different_adds(place: Place) -> str:
    engine = Engine(place)
    prompt = [VOCAB_SIZE] if engine.fails else [1]
    if engine.fails:
        with pytest.raises(ValueError, match="prompt_token_ids"):
            engine.all_ranks.add(SamplingParams(), prompt)
    else:
        engine.all_ranks.add(SamplingParams(), prompt)
    with pytest.raises(RankError) as raised:
        engine.all_ranks.step(place.shard(engine.shards, engine.logits()))
    return str(raised.value)


def test_an_add_that_only_one_rank_refuses_raises_on_all(ranks: RankPool) -> None:
    assert all("rank 1: its step differs" in message for message in ranks.run(3, different_adds))


def different_arguments(place: Place) -> str:
    sizes = [20, 20, 0] if place.rank == 2 else [20, 10, 10]
    with pytest.raises(RankError) as raised:
        BatchShardedScheduler(VocabularyShards(sizes), group=place.group)
    with pytest.raises(ValueError, match="3 shards, one for each rank"):
        BatchShardedScheduler(VocabularyShards([40]), group=place.group)
    return str(raised.value)


def test_ranks_with_different_shards_are_told_so(ranks: RankPool) -> None:
    assert all(
        "rank 2: its BatchShardedScheduler(…) differs" in message
        for message in ranks.run(3, different_arguments)
    )


LONE_CALLS: dict[str, Callable[[Any], Any]] = {
    "record": lambda s: s.record(0),
    "best": lambda s: s.best([0]),
    "forced_tokens": lambda s: s.forced_tokens(0),
}


def lone_call(place: Place, name: str, announced: bool = False) -> str:
    """One rank calls alone, and meets the others in their next step, which all may have announced before;
    all of them go on after that."""
    engine = Engine(place)
    engine.step()
    if announced:
        engine.all_ranks.announce()
    call = LONE_CALLS[name] if engine.fails else engine.step_zeros
    with pytest.raises(RankError) as raised:
        call(engine.all_ranks)
    assert raised.value.result is None
    engine.step()
    return str(raised.value)


@pytest.mark.parametrize("name", LONE_CALLS)
def test_a_call_that_one_rank_makes_alone_is_named_on_all(ranks: RankPool, name: str) -> None:
    expected = f"rank 1: it calls {name}, and rank 0 step: every rank makes the same calls"
    assert ranks.run(3, lone_call, name) == [expected] * 3


def lone_call_of_a_failing_rank(place: Place) -> str:
    """The rank that steps alone has wrong logits, too: that is said if nothing else is."""
    engine = Engine(place)
    with pytest.raises(RankError) as raised:
        engine.all_ranks.step(None) if engine.fails else engine.all_ranks.record(0)
    engine.step()
    return str(raised.value)


def test_a_failure_is_told_before_a_lone_call(ranks: RankPool) -> None:
    for message in ranks.run(3, lone_call_of_a_failing_rank):
        assert message.startswith("rank 1: TypeError: logits of type NoneType are not allowed")


# --- while a rank adds ---------------------------------------------------------------------------


def failing_add(place: Place) -> list[str | None]:
    engine = Engine(place)
    engine.step()
    with patch.object(Scheduler, "add", side_effect=MemoryError("no room")):
        request_id = engine.all_ranks.add(SamplingParams(seed=5), request_id="late")
    assert engine.all_ranks.owner_of(request_id) == 0
    logits = engine.logits()
    result = engine.all_ranks.step(place.shard(engine.shards, logits))
    assert result.token_ids.tolist() == [*engine.one.step(logits[:6]).token_ids.tolist(), -1]
    engine.step()
    return result.errors


def test_a_request_that_its_owner_cannot_add_ends_on_all_ranks(ranks: RankPool) -> None:
    assert ranks.run(3, failing_add) == [[None] * 6 + ["no room"]] * 3


# --- while a rank samples ------------------------------------------------------------------------


def failing_samples(place: Place, error: BaseException) -> tuple[str, Any]:
    engine = Engine(place)
    engine.step()
    logits = engine.logits()
    shard = place.shard(engine.shards, logits)
    wanted = engine.one.step(logits).token_ids.tolist()
    broken = patch.object(engine.all_ranks.local, "step", side_effect=error)
    with broken if engine.fails else nullcontext(), pytest.raises(RankError) as raised:
        engine.all_ranks.step(shard)
    result = raised.value.result
    assert result is not None
    expected = [-1 if i % 3 == FAILING else wanted[i] for i in range(6)]
    assert result.token_ids.tolist() == expected
    assert np.isnan(result.sampling_mask.logprobs).tolist() == [token_id < 0 for token_id in expected]
    again = engine.all_ranks.step(shard[[1, 4]], [1, 4])
    assert again.token_ids.tolist() == [wanted[1], wanted[4]]
    engine.step()
    return str(raised.value), result.finish_reasons


@pytest.mark.parametrize("error", [BackendError("it is gone"), MemoryError("no room"), OSError("driver")])
def test_a_rank_that_fails_while_it_samples_leaves_the_others_results(
    ranks: RankPool, error: BaseException
) -> None:
    expected = f"rank 1: {type(error).__name__}: {error}", [None] * 6
    assert ranks.run(3, failing_samples, error) == [expected] * 3


def failing_answers(place: Place) -> list[str]:
    """The rank's requests have advanced, but nobody gets their tokens."""
    engine = Engine(place)
    shard = place.shard(engine.shards, engine.logits())
    broken = patch.object(Details, "packed", side_effect=MemoryError("no room"))
    with (
        broken if engine.fails else nullcontext(),
        pytest.raises(RankError, match="rank 1: MemoryError: no room"),
    ):
        engine.all_ranks.step(shard)
    return raised_by(engine)


def test_a_rank_that_cannot_answer_after_it_has_sampled_makes_all_steps_fail(ranks: RankPool) -> None:
    for messages in ranks.run(3, failing_answers):
        assert messages == ["rank 1: RuntimeError: this rank has failed before: MemoryError: no room"] * 2


def failing_everywhere(place: Place) -> None:
    engine = Engine(place)
    shard = place.shard(engine.shards, engine.logits())
    with (
        patch.object(engine.all_ranks.local, "step", side_effect=BackendError("it is gone")),
        pytest.raises(BackendError, match="it is gone"),
    ):
        engine.all_ranks.step(shard)
    assert (engine.all_ranks.step(shard).token_ids >= 0).all()


def test_ranks_that_all_fail_raise_what_one_would(ranks: RankPool) -> None:
    ranks.run(3, failing_everywhere)


def failing_plugin(place: Place) -> Any:
    """A faulty row does not make its rank fail."""
    engine = Engine(place)
    logits = engine.logits()
    logits[2, 7], logits[4] = np.nan, -np.inf
    result = engine.all_ranks.step(place.shard(engine.shards, logits))
    wanted = engine.one.step(logits)
    assert result.errors == wanted.errors
    assert result.token_ids.tolist() == wanted.token_ids.tolist()
    engine.step()


def test_faulty_rows_end_their_requests_only(ranks: RankPool) -> None:
    ranks.run(3, failing_plugin)


# --- afterwards, and in between ------------------------------------------------------------------


def failing_afterwards(place: Place) -> list[str]:
    engine = Engine(place)
    shard = place.shard(engine.shards, engine.logits())
    if engine.fails:
        with (
            patch.object(Ledger, "follow", side_effect=OSError("late")),
            pytest.raises(OSError, match="late"),
        ):
            engine.all_ranks.step(shard)
    else:
        engine.all_ranks.step(shard)
    return raised_by(engine)


def failing_between(place: Place, method: str) -> list[str]:
    engine = Engine(place)
    engine.step()
    broken = patch.object(Scheduler, method, side_effect=OSError("no memory"))
    arguments: dict[str, Any] = {"accept": ([1],), "rollback": (1,), "suspend": (), "remove": ()}
    with broken:
        call = getattr(engine.all_ranks, method)
        if engine.all_ranks.owner_of(4) == place.rank:
            with pytest.raises(OSError, match="no memory"):
                call(4, *arguments[method])
        else:
            call(4, *arguments[method])
    return raised_by(engine)


def raised_by(engine: Engine) -> list[str]:
    """What the next two steps raise."""
    messages = []
    for _ in range(2):
        with pytest.raises(RankError) as raised:
            engine.all_ranks.step(engine.place.shard(engine.shards, engine.logits()))
        messages.append(str(raised.value))
    return messages


def test_a_failure_after_the_last_message_reaches_all_with_the_next_step(ranks: RankPool) -> None:
    for messages in ranks.run(3, failing_afterwards):
        assert messages == ["rank 1: RuntimeError: this rank has failed before: OSError: late"] * 2


@pytest.mark.parametrize("method", ["accept", "rollback", "suspend", "remove"])
def test_a_failure_between_steps_reaches_all_with_the_next_step(ranks: RankPool, method: str) -> None:
    for messages in ranks.run(3, failing_between, method):
        assert messages == ["rank 1: RuntimeError: this rank has failed before: OSError: no memory"] * 2


def failing_question(place: Place) -> None:
    engine = Engine(place)
    with (
        patch.object(Scheduler, "record", side_effect=OSError("lost")),
        pytest.raises(RankError, match="rank 1: OSError: lost"),
    ):
        engine.all_ranks.record(1)
    assert engine.all_ranks.record(1).seed == 1
    engine.step()


def test_a_question_that_cannot_be_answered_raises_on_all(ranks: RankPool) -> None:
    ranks.run(3, failing_question)


# --- a rank that is gone -------------------------------------------------------------------------


def gone(place: Place) -> str:
    engine = Engine(place)
    if engine.fails:
        os._exit(3)
    try:
        engine.step()
    except (RuntimeError, dist.DistError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def test_a_rank_that_is_gone_is_reported_by_torch(ranks: RankPool) -> None:
    with RankPool(2, timeout=10) as pool:
        (succeeded, message), (survived, _) = pool.outcomes(2, gone)
    assert succeeded
    assert not survived
    assert "RankError" not in message
    assert message != "nothing"
