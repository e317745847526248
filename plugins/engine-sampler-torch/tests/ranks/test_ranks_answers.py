"""What ranks answer: a field that somebody adds to the results arrives like those that are there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from engine_sampler_torch.ranks.batch_sharded.answers import AnswerLayout, RankAnswer, blank_result
from engine_sampler_torch.ranks.batch_sharded.ledger import Ledger, LedgerEntry, StepPlan
from engine_sampler_torch.ranks.batch_sharded.merging import merged

from engine_sampler import SamplingParams, StepResult
from engine_sampler.contract import Vocabulary
from engine_sampler.for_backends import PerRow, entries_of, put_entry

VOCAB_SIZE, RANKS = 50, 2
LIKE = entries_of(StepResult)


@dataclass(eq=False)
class Longer(StepResult):
    """A result with a field of every kind more."""

    moods: list[Any] = field(metadata={"entries": LIKE["phase_tokens"]}, default_factory=list)
    friends: list[Any] = field(metadata={"entries": LIKE["parent_ids"]}, default_factory=list)
    weights: list[float] = field(metadata={"entries": PerRow(0.0)}, default_factory=list)


def plan_of(request_ids: list[str]) -> StepPlan:
    ledger = Ledger(RANKS, Vocabulary(VOCAB_SIZE, (), None))
    for request_id in request_ids:
        ledger.join([LedgerEntry(request_id, SamplingParams(), -1, 0)])
    return ledger.plan(None, None)


def own_result(plan: StepPlan, rank: int) -> Longer:
    """What the scheduler of a rank says of its requests."""
    ids = [plan.entries[i].id for i in plan.by_owner[rank].tolist()]
    result = blank_result(Longer, ids, len(ids), np.arange(len(ids)), [""] * len(ids))
    result.token_ids[:] = range(10 * rank, 10 * rank + len(ids))
    result.text[-1], result.finish_reasons[0] = "so", "stop"
    put_entry(result, "phase_tokens", 0, {"thinking": 4})
    put_entry(result, "moods", 1, f"glad {rank}")
    put_entry(result, "friends", 0, ids[1])
    put_entry(result, "weights", 1, 0.5 + rank)
    return result


def test_a_field_that_somebody_adds_arrives_from_all_ranks() -> None:
    plan = plan_of(["a", "b", "c", "d"])
    layout = AnswerLayout(plan, VOCAB_SIZE, has_text=True)
    sent = [RankAnswer.of(own_result(plan, rank), has_text=True) for rank in range(RANKS)]
    blobs = [answer.details.packed() for answer in sent]
    table = [layout.words(answer, blob) for answer, blob in zip(sent, blobs, strict=True)]
    answers = layout.read(torch.stack(table), blobs)
    result = merged(plan, answers, VOCAB_SIZE, True, Longer)
    assert isinstance(result, Longer)
    assert result.token_ids.tolist() == [0, 10, 1, 11]
    assert result.moods == [None, None, "glad 0", "glad 1"]
    assert result.friends == ["c", "d", "c", "d"]
    assert result.weights == [0.0, 0.0, 0.5, 1.5]
    assert result.text == ["", "", "so", "so"]
    assert result.finish_reasons == ["stop", "stop", None, None]
    assert result.phase_tokens == [{"thinking": 4}] * 2 + [None] * 2


def test_an_answer_among_more_requests_and_rows_says_the_same_of_them() -> None:
    plan = plan_of(["a", "b", "c", "d"])
    answer = RankAnswer.of(own_result(plan, 0), has_text=True)
    whole = answer.spread(np.array([1, 3]), np.array([1, 3]), 4, 4)
    assert whole.token_ids.tolist() == [-1, 0, -1, 1]
    assert whole.details.of_requests["moods"] == {3: "glad 0"}
    assert whole.details.ids["friends"] == {1: 3}
    assert whole.details.of_rows["weights"] == {3: 0.5}


def test_an_answer_that_has_nothing_to_say_has_no_details() -> None:
    nothing = blank_result(StepResult, ["a"], 1, np.arange(1), [""])
    assert RankAnswer.of(nothing, has_text=True).details.packed() == b""
