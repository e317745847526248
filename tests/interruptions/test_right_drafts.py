"""A step whose drafts are right, and whose rows one run of the backend draws, can be interrupted anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.base.packaged import library_path

from ..stateful.workload import VOCAB, tokenizer_for
from .injecting import Injection, count_of
from .scenes import facts, outcomes, step, step_with_trees

REQUESTS: dict[str, dict[str, Any]] = {
    "plain": {"temperature": 0.8, "top_k": 10, "repetition_penalty": 1.2},
    "regex": {"regex": "[ab0-9 ]*c"},
    "stop": {"stop": ["zz"], "mirostat": 2},
}


def made() -> Scheduler:
    scheduler = Scheduler(VOCAB, tokenizer_for("native"), backend="native")
    for seed, (name, given) in enumerate(REQUESTS.items()):
        scheduler.add(SamplingParams(seed=seed, max_tokens=7, **given), [3], request_id=name)
    return scheduler


@pytest.mark.skipif(library_path() is None, reason="there are no kernels in C")
def test_an_interrupted_step_has_drawn_nothing() -> None:
    right = outcomes(made())
    drawn = {name: list(right[name][0]) for name in REQUESTS}
    trees = {name: ([first ^ 1, first, *rest[:1]], [-1, -1, 1]) for name, (first, *rest) in drawn.items()}
    counted = made()
    count = count_of(lambda: step_with_trees(counted, trees))
    assert all(len(counted.record(name).token_ids) == 3 for name in REQUESTS)
    for at in range(int(np.random.default_rng(0).integers(9)), count, 9):
        scheduler = made()
        before = facts(scheduler)
        injection = Injection(KeyboardInterrupt, at)
        result = injection.during(lambda: step_with_trees(scheduler, trees))  # noqa: B023
        if result is None and scheduler.last_result is None:
            assert facts(scheduler) == before, injection.where
            step(scheduler)
        assert outcomes(scheduler) == right, injection.where
