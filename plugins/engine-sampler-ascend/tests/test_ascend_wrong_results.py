"""Operators that return impossible results: their rows are declined, or the step is; nothing else happens."""

from __future__ import annotations

import numpy as np
import pytest
from ascend_harness import Chip, Host, Step

OK, NO_MEMORY, DECLINED = 0, 3, 5
LOGITS = np.random.default_rng(4).normal(0, 3, (3, 512)).astype(np.float32)


@pytest.mark.parametrize("fault", ["LIST_TWICE", "LIST_OUTSIDE"])
def test_tokens_that_cannot_be_are_declined(host: Host, chip: Chip, fault: str) -> None:
    chip.misbehave(fault)
    outcome = host.step(LOGITS, ["top_k"], params={"top_k": 5})
    assert outcome.status.tolist() == [DECLINED] * 3
    chip.misbehave()
    assert host.step(LOGITS, ["top_k"], params={"top_k": 5}).status.tolist() == [OK] * 3


def test_a_token_outside_of_the_vocabulary_is_not_drawn(operators: Host, chip: Chip) -> None:
    chip.misbehave("LIST_OUTSIDE")
    assert operators.step(LOGITS, ["greedy"]).status.tolist() == [DECLINED] * 3


def test_tokens_in_any_order_are_put_in_order(host: Host, chip: Chip) -> None:
    chip.misbehave("LIST_UNSORTED")
    outcome = host.step(LOGITS, ["top_k"], params={"top_k": 5})
    for row, (ids, _) in zip(LOGITS, outcome.survivors, strict=True):
        assert ids.tolist() == sorted(np.argsort(-row)[:5].tolist())


def test_an_operator_that_needs_more_than_it_said_is_not_run(host: Host, chip: Chip) -> None:
    step = Step(host, LOGITS, [["greedy"]])
    assert step.prepare() == OK
    chip.misbehave("GROWING_NEEDS")
    for _ in range(3):
        code = step.run()
        outcome = step.finish(code)
        assert outcome.code in (OK, NO_MEMORY)
    assert outcome.code == NO_MEMORY
    assert host.error() == "ascend: an operator's workspace is too small"
    step.free()
