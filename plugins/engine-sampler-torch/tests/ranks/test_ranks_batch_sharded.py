"""A scheduler over several ranks gives the results of one, whatever happens to the requests."""

from __future__ import annotations

import inspect
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch.distributed as dist
from counted import counted
from engine_sampler_torch.ranks import BatchShardedScheduler, VocabularyShards
from random_requests import EOS, SHORT, RandomRequests, facts, live
from rank_pool import Place, RankPool

from engine_sampler import Grammar, ParameterError, RequestError, SamplingParams, Scheduler
from engine_sampler.contract import Param, Rows, Sampler, hookimpl
from engine_sampler.for_backends import default_registry


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_random_requests_are_those_of_one_rank(ranks: RankPool, size: int) -> None:
    rows = 0
    for seed in range(3):
        outcomes = ranks.run(size, live, seed + 10 * size, 60)
        assert len(set(outcomes)) == 1
        rows += outcomes[0][0]
    assert rows > 1000


# --- few tokens, few rows ------------------------------------------------------------------------


def tiny(place: Place, vocab_size: int) -> list[str]:
    """One to three requests over a vocabulary that may have fewer tokens than there are ranks."""
    shards = VocabularyShards.even(vocab_size, place.size)
    all_ranks = BatchShardedScheduler(shards, group=place.group)
    alone = Scheduler(vocab_size)
    rng = np.random.default_rng(vocab_size)
    for step in range(8):
        if step < 3:
            for scheduler in (all_ranks, alone):
                scheduler.add(SamplingParams(seed=step, max_tokens=5, logprobs=1), request_id=step)
        logits = rng.normal(size=(len(alone.request_ids), vocab_size)).astype(np.float32)
        result = all_ranks.step(place.shard(shards, logits))
        assert facts(result) == facts(alone.step(logits))
    assert not all_ranks.request_ids
    assert facts(all_ranks.step(place.shard(shards, logits[:0]))) == facts(alone.step(logits[:0]))
    return [repr(all_ranks.record(i)) for i in range(3)]


@pytest.mark.parametrize("vocab_size", [1, 2, 3, 5])
def test_there_may_be_fewer_tokens_and_rows_than_ranks(ranks: RankPool, vocab_size: int) -> None:
    assert len(set(map(str, ranks.run(4, tiny, vocab_size)))) == 1


def two_groups(place: Place) -> list[str]:
    """The rows move on one group, all else on another."""
    shards = VocabularyShards.even(20, place.size)
    scheduler = BatchShardedScheduler(shards, group=place.group, control_group=dist.group.WORLD)
    scheduler.add(SamplingParams(seed=1))
    with counted(place.group) as messages:
        scheduler.step(place.shard(shards, np.zeros((1, 20), np.float32)))
    return [name for name, _ in messages]


def test_the_short_messages_may_have_a_group_of_their_own(ranks: RankPool) -> None:
    assert ranks.run(4, two_groups) == [["all_to_all_single"]] * 4


def another_group(place: Place) -> None:
    with pytest.raises(ValueError, match="control_group is not allowed: it must have the ranks of the group"):
        BatchShardedScheduler(VocabularyShards([9]), group=place.group, control_group=dist.group.WORLD)


def test_both_groups_have_the_same_ranks(ranks: RankPool) -> None:
    ranks.run(2, another_group)


def thoughts(place: Place) -> int:
    """The steps in which phases are told."""
    requests = RandomRequests(place, 3)
    for i in range(4):
        thinking = {"start": "<", "end": ">", "starts_inside": True}
        params = SamplingParams(seed=i, max_tokens=8, thinking=thinking, thinking_token_budget=i)
        requests.both("add", params, [1], request_id=i)
    told = 0
    while requests.all_ranks.request_ids:
        ids = requests.all_ranks.request_ids
        logits = np.random.default_rng(told).normal(size=(len(ids), requests.vocab_size)).astype(np.float32)
        result = requests.all_ranks.step(place.shard(requests.shards, logits))
        if requests.one is not None:
            assert facts(result) == facts(requests.one.step(logits))
        told += bool(result.phase_tokens)
    return told


def test_every_rank_is_told_of_the_phases(ranks: RankPool) -> None:
    counts = ranks.run(3, thoughts)
    assert counts[0] > 1
    assert len(set(counts)) == 1


def test_what_a_scheduler_offers_is_offered_or_named_as_missing() -> None:
    doc = str(BatchShardedScheduler.__doc__)
    missing = set()
    for name, ours in inspect.getmembers(Scheduler):
        if name.startswith("_") and name != "__init__":
            continue
        theirs = getattr(BatchShardedScheduler, name, None)
        if theirs is None:
            missing.add(name)
        elif callable(ours):
            missing |= inspect.signature(ours).parameters.keys() - inspect.signature(theirs).parameters.keys()
    offered = {"vocab_size"}  # that of the shards
    assert {name for name in missing - offered if f"`{name}`" not in doc} == set()


# --- ownership -----------------------------------------------------------------------------------


def ownership(place: Place) -> Any:
    shards = VocabularyShards.even(EOS + 1, place.size)
    scheduler = BatchShardedScheduler(shards, SHORT, group=place.group)
    for i in range(5):
        scheduler.add(SamplingParams(seed=i), request_id=i)
    group = scheduler.add_group(SamplingParams(n=3, seed=9), request_ids=["a", "b", "c"])
    child = scheduler.fork(2, seed=1)
    scheduler.remove(1)
    late = scheduler.add(SamplingParams(seed=5), request_id="late")
    ids = [*range(5), *group, child, late]
    owners = {i: scheduler.owner_of(i) for i in ids if i != 1}
    local = sorted(map(str, scheduler.local.request_ids))
    assert local == sorted(str(i) for i, owner in owners.items() if owner == place.rank)
    return owners


def test_requests_are_spread_over_the_ranks_and_families_stay_together(ranks: RankPool) -> None:
    first, *others = ranks.run(3, ownership)
    assert all(owners == first for owners in others)
    assert [first[i] for i in (0, 2, 3, 4)] == [0, 2, 0, 1]
    assert first["a"] == first["b"] == first["c"] == 2
    assert first["late"] == 1  # the lowest free slot
    assert first[2] == next(
        owner for i, owner in first.items() if i not in (0, 2, 3, 4, "a", "b", "c", "late")
    )


def compiled_grammars(place: Place) -> int:
    shards = VocabularyShards.even(EOS + 1, place.size)
    scheduler = BatchShardedScheduler(shards, SHORT, group=place.group)
    compiled = []

    def counting(grammar: Grammar, tokenizer: Any, **keywords: Any) -> Any:
        compiled.append(grammar)
        return original(grammar, tokenizer, **keywords)

    original = Grammar.compile
    with patch.object(Grammar, "compile", counting):
        for i in range(6):
            scheduler.add(SamplingParams(seed=i, max_tokens=3, regex=f"[a-c]{{1,{i + 1}}}{place.size}"))
        scheduler.add(SamplingParams(max_tokens=3, seed=1), grammar='start: "x" | "y"')
        scheduler.add(SamplingParams(max_tokens=3, seed=1, choice=["u", "v"], grammar_bias=2.0))
    rng = np.random.default_rng(0)
    while scheduler.request_ids:
        logits = rng.normal(size=(len(scheduler.request_ids), EOS + 1)).astype(np.float32)
        scheduler.step(place.shard(shards, logits))
    assert {scheduler.record(i).error for i in range(8)} == {None}
    return len(compiled)


@pytest.mark.parametrize(("size", "counts"), [(1, [8]), (3, [3, 3, 2]), (4, [2, 2, 2, 2])])
def test_a_grammar_is_compiled_at_its_owner_only(ranks: RankPool, size: int, counts: list[int]) -> None:
    assert ranks.run(size, compiled_grammars) == counts


def random_seeds(place: Place) -> list[int]:
    shards = VocabularyShards.even(50, place.size)
    scheduler = BatchShardedScheduler(shards, group=place.group)
    for _ in range(4):
        scheduler.add(SamplingParams())
    seeds = scheduler.step(place.shard(shards, np.zeros((4, 50), np.float32))).seeds
    assert [scheduler.record(i).seed for i in range(4)] == seeds
    return seeds


def test_seeds_chosen_at_random_are_the_owners(ranks: RankPool) -> None:
    first, *others = ranks.run(3, random_seeds)
    assert all(seeds == first for seeds in others)
    assert len(set(first)) == 4


# --- requests that change ------------------------------------------------------------------------


def moves(place: Place) -> None:
    """accept, rollback, suspend, resume, fork: after each, the tokens are those of one rank."""
    requests = RandomRequests(place, 7)
    for i in range(4):
        requests.both("add", SamplingParams(seed=i, temperature=1.1, ignore_eos=True), [i], request_id=i)
    requests.step(faulty=0)
    requests.both("accept", 1, [40, 41, 42], [-0.5, -0.25, -1.0])
    requests.step(faulty=0)
    requests.both("rollback", 1, 4)
    requests.both("suspend", 2)
    requests.step(faulty=0)
    requests.both("fork", 0, new_request_id="child", seed=99)
    requests.both("resume", 2)
    requests.step(faulty=0)
    requests.both("record", "child")
    requests.both("record", 1)
    with pytest.raises(RequestError, match="n=99 is not allowed: request 1 has"):
        requests.all_ranks.rollback(1, 99)


def test_requests_go_on_after_moves(ranks: RankPool) -> None:
    ranks.run(3, moves)


def ended_by_accept(place: Place) -> Any:
    requests = RandomRequests(place, 4)
    scheduler = requests.all_ranks
    for i in range(3):
        scheduler.add(SamplingParams(seed=i, stop=["q"]), request_id=i)
    scheduler.accept(1, [SHORT.token_bytes.index(b"q")])
    scheduler.accept(1, [5])
    scheduler.suspend(1)
    scheduler.resume(1)
    assert scheduler.request_ids == [0, 2, 1]
    logits = np.zeros((3, requests.vocab_size), np.float32)
    result = scheduler.step(place.shard(requests.shards, logits))
    assert scheduler.request_ids == [0, 2]
    assert scheduler.forced_tokens(1) == []
    with pytest.raises(RequestError, match="request 1 has finished"):
        scheduler.accept(1, [5])
    return result.finish_reasons, result.stop_reasons, list(result.skipped), result.token_ids[2].item()


def test_an_end_by_accept_is_reported_by_the_next_step(ranks: RankPool) -> None:
    expected = ([None, None, "stop"], [None, None, "q"], [2], -1)
    assert ranks.run(3, ended_by_accept) == [expected] * 3


def removed_beams(place: Place) -> None:
    requests = RandomRequests(place, 2)
    beams = SamplingParams(use_beam_search=True, beam_width=3, max_tokens=9, seed=4)
    requests.both("add_group", beams, [1], request_ids=["g0", "g1", "g2"])
    requests.both("add_group", SamplingParams(n=2, seed=1, ignore_eos=True), [1], request_ids=["a", "b"])
    requests.step(faulty=0)
    requests.both("remove", "g1")
    requests.both("remove", "a")
    assert requests.all_ranks.request_ids == ["b"]
    requests.both("record", "g0")
    requests.step(faulty=0)
    requests.both("remove", "g0")
    requests.step(faulty=0)


def test_a_beam_search_ends_with_one_of_its_requests_and_other_siblings_do_not(ranks: RankPool) -> None:
    ranks.run(3, removed_beams)


# --- plugins -------------------------------------------------------------------------------------


class RankShift(Sampler):
    """Add `rank_shift` to the logit of the token that comes after the last one; fail above 9."""

    name = "rank_shift"
    params = (Param("rank_shift", float, neutral=0.0),)

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        for i, row in enumerate(logits):
            history = rows.token_ids(i)
            if rows["rank_shift"][i] > 9:
                raise OSError("too much")
            columns, _ = rows.columns(i, (history[-1:] + 1) % rows.vocabulary.size)
            row[columns] += np.float32(rows["rank_shift"][i])


class Registration:
    @hookimpl
    def register_samplers(self, register: Any) -> None:
        register(RankShift())


def with_plugins(place: Place) -> Any:
    registry = default_registry()
    if "rank_shift" not in registry.catalogue.samplers:
        registry.register(Registration(), "rank_shift")
    requests = RandomRequests(place, 3)
    ends_with_a = lambda ids, scores: np.array([ids[0, -1] % 5 == 0])  # noqa: E731
    for i in range(5):
        own: dict[str, Any] = {"rank_shift": float(i * 2.5)}
        requests.both(
            "add", SamplingParams(seed=i, **own), [i], request_id=i, stopping_criteria=[ends_with_a]
        )
    errors = []
    for _ in range(6):
        ids = requests.all_ranks.request_ids
        logits = requests.rng.normal(size=(len(ids), requests.vocab_size)).astype(np.float32)
        result = requests.all_ranks.step(place.shard(requests.shards, logits))
        errors += [error for error in result.errors if error]
        if requests.one is not None:
            assert facts(result) == facts(requests.one.step(logits))
    return errors


def test_plugins_work_and_their_faults_are_their_requests(ranks: RankPool) -> None:
    assert ranks.run(4, with_plugins) == [["rank_shift failed: OSError: too much"]] * 4


# --- errors of requests --------------------------------------------------------------------------


def refused(place: Place) -> list[str]:
    shards = VocabularyShards.even(EOS + 1, place.size)
    scheduler = BatchShardedScheduler(shards, SHORT, group=place.group, max_model_len=8)
    scheduler.add(SamplingParams(seed=1), request_id="first")
    beam = scheduler.add_group(SamplingParams(use_beam_search=True, beam_width=2, max_tokens=3))
    logits = place.shard(shards, np.zeros((1, EOS + 1), np.float32))
    trials = [
        (ParameterError, lambda: scheduler.add({"temperature": 1})),
        (ParameterError, lambda: scheduler.add(SamplingParams(n=2))),
        (ParameterError, lambda: scheduler.add(SamplingParams(prompt_logprobs=0))),
        (ParameterError, lambda: scheduler.add_group(SamplingParams(n=2, prompt_logprob_token_ids=[1]))),
        (ParameterError, lambda: scheduler.add(SamplingParams(logprob_token_ids=[EOS + 1]))),
        (ParameterError, lambda: scheduler.add(SamplingParams(), [EOS + 1])),
        (ParameterError, lambda: scheduler.add(SamplingParams(), [1] * 8)),
        (ParameterError, lambda: scheduler.add(SamplingParams(), position=-1)),
        (ParameterError, lambda: scheduler.add(SamplingParams(logit_bias={EOS + 1: 1.0}))),
        (ParameterError, lambda: scheduler.add(SamplingParams(bad_words=["\x00"]))),
        (ParameterError, lambda: scheduler.add(SamplingParams(logprobs=EOS + 2**20))),
        (ParameterError, lambda: scheduler.add(SamplingParams(regex="a"), grammar="start: /a/")),
        (RequestError, lambda: scheduler.add(SamplingParams(), request_id="first")),
        (RequestError, lambda: scheduler.add_group(SamplingParams(n=2), request_ids=["x"])),
        (RequestError, lambda: scheduler.accept(beam[0], [1])),
        (RequestError, lambda: scheduler.resume("first")),
        (RequestError, lambda: scheduler.remove("nobody")),
        (RequestError, lambda: scheduler.step(logits, ["nobody"])),
        (RequestError, lambda: scheduler.step(logits, beam[:1])),
        (RequestError, lambda: scheduler.step(logits, ["first"], {"nobody": [1]})),
        (ParameterError, lambda: scheduler.step(logits, ["first"], [[EOS + 1]])),
        (ParameterError, lambda: scheduler.step(logits, ["first"], draft_trees=[([1], [0])])),
        (RequestError, lambda: scheduler.step(logits, ["first"], [[1]], draft_trees=[([1], [-1])])),
        (RequestError, lambda: scheduler.step(logits, beam, draft_trees=[None, ([1], [-1])])),
        (RequestError, lambda: scheduler.draft(["nobody"])),
        (ParameterError, lambda: scheduler.draft(max_tokens=0)),
        (ValueError, lambda: scheduler.step(logits[:, :-1], ["first"])),
        (TypeError, lambda: scheduler.step(logits.double(), ["first"])),
        (TypeError, lambda: scheduler.step(logits.numpy(), ["first"])),
    ]
    messages = []
    for kind, trial in trials:
        with pytest.raises(kind) as raised:
            trial()
        messages.append(f"{type(raised.value).__name__}: {raised.value}")
    assert scheduler.request_ids == ["first", *beam]
    assert scheduler.step(logits, ["first"]).token_ids.tolist()[0] >= 0
    return messages


def test_what_is_not_allowed_raises_on_all_ranks_alike_and_changes_nothing(ranks: RankPool) -> None:
    first, second = ranks.run(2, refused)
    assert [m for m in first if "rank 0 needs" not in m] == [m for m in second if "rank 1 needs" not in m]


DETAILED: dict[str, Any] = {"return_sampling_mask": True, "logprob_token_ids": [3, 1]}


def broken_grammars(place: Place) -> Any:
    requests = RandomRequests(place, 6)
    scheduler = requests.all_ranks
    scheduler.add(SamplingParams(seed=1), request_id="sound")
    scheduler.add(SamplingParams(seed=2), request_id="broken", grammar="start: missing")
    scheduler.add(SamplingParams(seed=3, regex="(", logprobs=2), request_id="regex")
    scheduler.add(SamplingParams(seed=4, logprobs=1, **DETAILED), request_id="listed")
    scheduler.add_group(SamplingParams(n=2, seed=3, regex="("), request_ids=["g0", "g1"])
    scheduler.fork("broken", new_request_id="child")
    scheduler.accept("broken", [1])
    scheduler.prepare()
    assert len(scheduler.request_ids) == 7
    logits = np.zeros((7, requests.vocab_size), np.float32)
    result = scheduler.step(place.shard(requests.shards, logits))
    assert scheduler.request_ids == ["sound", "listed"]
    assert result.finish_reasons == [None, "error", "error", None, "error", "error", "error"]
    assert (result.token_ids >= 0).tolist() == [True, False, False, True, False, False, False]
    assert scheduler.record("regex").error == result.errors[2]
    one = Scheduler(requests.vocab_size, SHORT)
    one.add(SamplingParams(seed=4, logprobs=1, **DETAILED))
    alone = one.step(logits[:1])
    assert result.logprobs.row(3).token_ids.tolist() == alone.logprobs.row(0).token_ids.tolist()
    assert not len(result.logprobs.row(1).token_ids)
    assert result.sampling_mask.rows([3]).to_dict() == alone.sampling_mask.to_dict()
    assert not result.sampling_mask.is_whole[:3].any()
    assert result.given_logprobs.row(3).logprobs.tolist() == alone.given_logprobs.logprobs.tolist()
    for request_id in ("broken", "child", "sound"):
        scheduler.remove(request_id)
    return result.errors


@pytest.mark.parametrize("size", [1, 3])
def test_a_grammar_that_does_not_compile_ends_its_request_on_all_ranks(ranks: RankPool, size: int) -> None:
    first, *others = ranks.run(size, broken_grammars)
    assert all(errors == first for errors in others)
    assert "missing" in first[1]
    assert first[2].startswith("regex: ")
    assert first[4] == first[5] == first[2]
    assert first[6] == first[1]


def skipped(place: Place) -> Any:
    """Steps that name requests which have left: ended, removed, and refused by their owner."""
    requests = RandomRequests(place, 6)
    scheduler = requests.all_ranks
    scheduler.add(SamplingParams(seed=1, ignore_eos=True), request_id="sound")
    scheduler.add(SamplingParams(seed=2), request_id="broken", grammar="start: missing")
    scheduler.add(SamplingParams(seed=3, max_tokens=1), request_id="ended")
    scheduler.add(SamplingParams(seed=4), request_id="removed")
    ids, logits = scheduler.request_ids, np.zeros((4, requests.vocab_size), np.float32)
    outcomes = []
    for leaving in ("removed", "broken"):
        scheduler.step(place.shard(requests.shards, logits), ids)
        scheduler.remove(leaving)
        result = scheduler.step(place.shard(requests.shards, logits), ids)
        outcomes.append((result.finish_reasons, result.skipped, (result.token_ids >= 0).tolist()))
    with pytest.raises(RequestError, match="request 'sound' is suspended"):
        scheduler.suspend("sound") or scheduler.step(place.shard(requests.shards, logits), ids)
    return outcomes


@pytest.mark.parametrize("size", [1, 3])
def test_rows_of_requests_that_have_left_are_skipped(ranks: RankPool, size: int) -> None:
    alone = [True, False, False, False]
    first = [None, "error", "length", "abort"], [1, 2, 3], alone
    second = [None, "abort", "length", "abort"], [1, 2, 3], alone
    assert ranks.run(size, skipped) == [[first, second]] * size


# --- long texts ---------------------------------------------------------------------------------


def long_texts(place: Place) -> tuple[int, int]:
    """A text that is held back until the end; returns its length, and the messages of the last step."""
    requests = RandomRequests(place, 8, max_model_len=400)
    requests.both("add", SamplingParams(seed=1, stop=["x" * 300]), request_id="text")
    requests.both("add", SamplingParams(seed=1, logprobs=0, ignore_eos=True), request_id="listed")
    x = SHORT.token_bytes.index(b"x")
    for step in range(200):
        logits = np.zeros((2, requests.vocab_size), np.float32)
        logits[0, x if step < 199 else EOS] = 50.0
        with counted() as messages:
            result = requests.all_ranks.step(place.shard(requests.shards, logits))
        if requests.one is not None:
            assert facts(result) == facts(requests.one.step(logits))
    return len(result.text[0]), len(messages)


def test_details_of_any_length_arrive(ranks: RankPool) -> None:
    assert ranks.run(2, long_texts) == [(199, 4)] * 2
