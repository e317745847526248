"""A scheduler is never left behind by a begun step, wherever its `finish` is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine_sampler import BegunStep, SamplingParams, Scheduler

from ..stateful.workload import VOCAB
from .injecting import Injection, count_of
from .scenes import rows_of, step


def begun() -> tuple[Scheduler, BegunStep, Any]:
    scheduler = Scheduler(VOCAB)
    scheduler.add(SamplingParams(seed=4, max_tokens=8), [3], request_id="one")
    step(scheduler)
    logits = rows_of(scheduler, ["one"])
    return scheduler, scheduler.begin(logits), logits


def finished_again(scheduler: Scheduler, half: BegunStep, logits: Any) -> None:
    try:
        half.finish()
    except RuntimeError as error:
        assert "the step is over" in str(error)  # noqa: PT017
        scheduler.step(logits)


def given_up(scheduler: Scheduler, half: BegunStep, logits: Any) -> None:
    half.give_up()
    scheduler.step(logits)


@pytest.mark.parametrize("go_on", [finished_again, given_up])
def test_an_interrupted_finish_can_be_repeated_or_given_up(go_on: Callable[..., None]) -> None:
    scheduler, half, logits = begun()
    expected = half.finish().token_ids.tolist()
    for at in range(count_of(begun()[1].finish)):
        scheduler, half, logits = begun()
        before = scheduler.last_result
        injection = Injection(KeyboardInterrupt, at)
        injection.during(half.finish)
        if scheduler.last_result is before:
            go_on(scheduler, half, logits)
        assert scheduler.last_result is not None, injection.where
        assert scheduler.last_result.token_ids.tolist() == expected, injection.where
        assert scheduler.record("one").token_ids[1:] == expected, injection.where
        step(scheduler)


def test_giving_up_a_step_leaves_the_one_that_has_begun_since() -> None:
    scheduler, half, logits = begun()
    Injection(KeyboardInterrupt, count_of(begun()[1].finish) // 2).during(half.finish)
    later = scheduler.begin(logits)
    half.give_up()
    with pytest.raises(RuntimeError, match="has begun, and is not finished"):
        scheduler.step(logits)
    later.finish()


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("first", range(4))
def test_the_last_result_is_new_only_if_the_step_is_done(first: int) -> None:
    def made() -> tuple[Scheduler, Any]:
        scheduler = Scheduler(VOCAB)
        scheduler.add(SamplingParams(seed=4, max_tokens=8), [3], request_id="one")
        return scheduler, rows_of(scheduler, ["one"])

    counted, logits = made()
    for at in range(first, count_of(lambda: counted.step(logits)), 4):
        scheduler, _ = made()
        Injection(KeyboardInterrupt, at).during(lambda: scheduler.step(logits))  # noqa: B023
        is_new = scheduler.last_result is not None
        assert len(scheduler.record("one").token_ids) == is_new
