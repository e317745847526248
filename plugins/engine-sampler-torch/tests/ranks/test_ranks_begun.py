"""Steps in two halves: all ranks have the tokens on the device before the host knows any."""

from __future__ import annotations

import hashlib
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
import torch.distributed as dist
from counting_device import CountingDevice
from engine_sampler_torch.ranks import BatchShardedScheduler, VocabularyShards
from engine_sampler_torch.ranks.batch_sharded import device_tokens
from random_requests import RandomRequests
from rank_pool import Place, RankPool
from test_ranks_failures import FAILING, Engine

from engine_sampler import BegunStep, RequestError, SamplingParams

# --- tokens --------------------------------------------------------------------------------------


class RequestsInHalves(RandomRequests):
    """Steps that are begun, go on with what may happen between, and are finished."""

    def __init__(self, place: Place, seed: int) -> None:
        super().__init__(place, seed, backend="torch")
        self.named: list[Any] = []
        """The requests of the pass that was under way when the last step was finished."""
        self.gathered = 0

    def step(self, faulty: float = 0.1) -> None:
        """A step with the requests of the last pass, some of which have left, or with all; in halves, or at
        once; announced, or not."""
        ids = self.all_ranks.request_ids
        if self.rng.random() < 0.6:
            held = [*self.all_ranks._ledger.suspended]
            ids = [r for r in self.named if r not in held]
        inputs = self.inputs(ids, faulty)
        if inputs is None:
            return
        whole, named, drafts = inputs
        named = named or ids
        shard = self.place.shard(self.shards, whole)
        if self.rng.random() < 0.4:
            self.all_ranks.announce(named, **drafts)
        if self.rng.random() < 0.3:
            result = self.all_ranks.step(shard, named, **drafts)
            self.check(result, None if self.one is None else self.one.step(whole, named, **drafts))
            return
        begun = self.all_ranks.begin(shard, named, **drafts)
        alone = None if self.one is None else self.one.begin(whole, named, **drafts)
        self.named = self.all_ranks.request_ids
        for _ in range(int(self.rng.integers(0, 3))):
            self.change_between()
        result = begun.finish()
        self.check(result, None if alone is None else alone.finish())
        tokens = begun.token_ids_on_device
        self.results.append(str(tokens.tolist()))
        if result.token_ids_on_device is not None:
            assert result.token_ids_on_device is tokens
            assert tokens.tolist() == result.token_ids.tolist()
            self.gathered += 1

    def change_between(self) -> None:
        """What is possible while a step has begun."""
        rng, ids = self.rng, self.all_ranks.request_ids
        kind = rng.choice(["add", "remove", "record", "announce"])
        if kind == "add":
            params = SamplingParams(seed=int(rng.integers(2**63)), max_tokens=int(rng.integers(1, 9)))
            tag = f"between {len(self.results)}.{self.all_ranks._ledger.calls}"
            self.both("add", params, [1, 2], request_id=tag)
        elif kind == "remove" and ids:
            self.both("remove", ids[int(rng.integers(len(ids)))])
        elif kind == "record" and ids:
            self.both("record", ids[int(rng.integers(len(ids)))])
        elif kind == "announce":
            self.all_ranks.announce()


def live_in_halves(place: Place, seed: int, steps: int) -> tuple[int, int, str]:
    """Requests at random; their rows, the steps with tokens on the device, and a digest of all results."""
    requests = RequestsInHalves(place, seed)
    for _ in range(steps):
        for _ in range(int(requests.rng.integers(0, 4))):
            requests.change()
        requests.step()
    return requests.rows, requests.gathered, hashlib.sha256("".join(requests.results).encode()).hexdigest()


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_random_requests_in_halves_are_those_of_one_rank(ranks: RankPool, size: int) -> None:
    (outcome,) = set(ranks.run(size, live_in_halves, 10 * size, 22))
    rows, gathered, _ = outcome
    assert rows > 60
    assert gathered > 3


class Halves(Engine):
    """Steps in halves."""

    def __init__(self, place: Place, backend: str = "torch") -> None:
        super().__init__(place, backend=backend)

    def both(self, method: str, *arguments: Any) -> None:
        """Call a method of both schedulers."""
        for scheduler in (self.all_ranks, self.one):
            getattr(scheduler, method)(*arguments)

    def begin(self, logits: np.ndarray, ids: Any = None, drafts: Any = None) -> BegunStep:
        """The first half of a step with whole rows."""
        return self.all_ranks.begin(self.place.shard(self.shards, logits), ids, drafts)

    def step(self) -> None:
        """A sound step, which is that of one rank."""
        logits = self.logits()
        begun = self.begin(logits)
        wanted = self.one.step(logits).token_ids.tolist()
        assert begun.token_ids_on_device.tolist() == wanted
        assert begun.finish().token_ids.tolist() == wanted


def accepted_between(place: Place) -> tuple[list[int], list[int]]:
    """A token is accepted while a step has begun; the request's tokens, and those of one scheduler."""
    engine = Halves(place)
    logits = engine.logits()
    begun, alone = engine.begin(logits), engine.one.begin(logits)
    engine.both("accept", 2, [7])
    begun.finish(), alone.finish()
    return engine.all_ranks.record(2).token_ids, engine.one.record(2).token_ids


def test_a_token_accepted_between_follows_that_of_the_step(ranks: RankPool) -> None:
    for found, wanted in ranks.run(3, accepted_between):
        assert found == wanted
        assert found[1:] == [7]


REFUSED: dict[str, Any] = {
    "step": lambda engine: engine.all_ranks.step(engine.place.shard(engine.shards, engine.logits())),
    "begin": lambda engine: engine.begin(engine.logits()),
    "forced_tokens": lambda engine: engine.all_ranks.forced_tokens(0),
    "fork": lambda engine: engine.all_ranks.fork(0),
    "suspend": lambda engine: engine.all_ranks.suspend(0),
    "rollback": lambda engine: engine.all_ranks.rollback(0, 0),
    "prepare": lambda engine: engine.all_ranks.prepare(),
}


def refused_between(place: Place) -> None:
    engine = Halves(place)
    engine.step()
    logits = engine.logits()
    begun = engine.begin(logits)
    for call in REFUSED.values():
        with pytest.raises(RuntimeError, match="a step has begun, and is not finished: only add"):
            call(engine)
    with pytest.raises(RequestError, match="request 'nobody' is unknown"):
        engine.all_ranks.record("nobody")
    engine.rng = np.random.default_rng(1)
    assert begun.finish().token_ids.tolist() == engine.one.step(logits).token_ids.tolist()
    with pytest.raises(RuntimeError, match="the step is over: it can be finished once"):
        begun.finish()
    engine.step()


def test_what_all_ranks_must_not_call_between_changes_nothing(ranks: RankPool) -> None:
    ranks.run(3, refused_between)


def given_up(place: Place) -> None:
    """All ranks give a step up, or drop it, and step with the same logits."""
    engine = Halves(place)
    engine.step()
    logits = engine.logits()
    engine.begin(logits).give_up()
    engine.begin(logits)
    engine.all_ranks.announce()
    engine.begin(logits).give_up()
    again = engine.all_ranks.step(place.shard(engine.shards, logits))
    assert again.token_ids.tolist() == engine.one.step(logits).token_ids.tolist()


def test_a_step_that_all_give_up_has_not_been_done(ranks: RankPool) -> None:
    ranks.run(3, given_up)


# --- rows that the host draws --------------------------------------------------------------------


def rows_of_the_host(place: Place) -> tuple[list[bool], bool]:
    """One rank has a backend of the host: which tokens are on the device, and whether the result has them."""
    engine = Halves(place, backend="numpy" if place.rank == FAILING else "torch")
    logits = engine.logits()
    begun = engine.begin(logits)
    there = begun.token_ids_on_device
    result = begun.finish()
    wanted = engine.one.step(logits).token_ids
    assert result.token_ids.tolist() == wanted.tolist()
    assert all(token in (-1, right) for token, right in zip(there.tolist(), wanted.tolist(), strict=True))
    return (there >= 0).tolist(), result.token_ids_on_device is not None


def test_rows_that_a_host_draws_are_known_when_the_step_is_finished(ranks: RankPool) -> None:
    assert ranks.run(3, rows_of_the_host) == [([i % 3 != FAILING for i in range(6)], False)] * 3


# --- waits ---------------------------------------------------------------------------------------


def waits_of_halves(place: Place) -> list[tuple[int, int]]:
    """How often the host waits for the device in each half of steps with rows in any order."""
    scheduler = BatchShardedScheduler(VocabularyShards([300]), backend="torch", group=place.group)
    for i in range(4):
        scheduler.add(SamplingParams(seed=i, top_k=20), [i], request_id=i)
    logits = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 300)).astype(np.float32))
    waits = []
    with (
        CountingDevice() as device,
        patch.object(dist, "all_to_all_single", _copied),
        patch.object(device_tokens, "all_gather", _copied),
    ):
        for ids in (None, [0, 1, 2, 3], [2, 0, 1, 3], [3, 1]):
            there = device.place(logits[: 4 if ids is None else len(ids)])
            device.reset()
            begun = scheduler.begin(there, ids)
            first = device.synchronisations
            result = begun.finish()
            waits.append((first, device.synchronisations - first))
            assert begun.token_ids_on_device.cpu().tolist() == result.token_ids.tolist()
    return waits[1:]  # the first step prepares


def _copied(received: torch.Tensor, sent: torch.Tensor, *_: Any, **__: Any) -> None:
    received.copy_(sent)


def test_the_host_waits_for_the_device_in_the_second_half_alone(ranks: RankPool) -> None:
    assert ranks.run(1, waits_of_halves) == [[(0, 1)] * 3]
