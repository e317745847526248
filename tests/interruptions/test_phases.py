"""Interruptions at every line of what follows the phases of a request: the next call makes it whole."""

from __future__ import annotations

import contextlib
from types import FrameType
from typing import Any

import numpy as np
import pytest

from engine_sampler import Record, SamplingParams, Scheduler
from engine_sampler.requests.phases import phases

from ..requests.phases.world import EOS, TOKENIZER, VOCAB, row
from .injecting import Injection

SETTINGS: dict[str, dict[str, Any]] = {
    "a budget": {"thinking_token_budget": 4},
    "an end at EOS": {"thinking": {"eos": "close", "start": "<think>", "end": "ab", "starts_inside": True}},
    "thoughts again": {
        "thinking": {"start": "a", "end": "b", "message": "ok", "starts_inside": True},
        "thinking_token_budget": 2,
    },
    "other parameters": {"answer": {"frequency_penalty": 0.5}, "thinking_token_budget": 3},
}
THINKING = {"start": "<think>", "end": "</think>", "message": "ok", "starts_inside": True}
STEPS, MOST_LINES = 14, 200


class InPhases(Injection):
    """An injection before a line of `requests.phases.phases` only."""

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        return super()._enter(frame, event, argument) if frame.f_code.co_filename == phases.__file__ else None


def life(settings: dict[str, Any], at: int | None) -> tuple[Record, bool]:
    """A request, each step of which is interrupted before line number `at` there, and whether any was."""
    scheduler = Scheduler(VOCAB, TOKENIZER)
    given = {"seed": 5, "temperature": 0.9, "thinking": THINKING, "max_tokens": 40, **settings}
    request_id = scheduler.add(SamplingParams(**given), [3, 1])
    was_interrupted = False
    for step in range(STEPS):
        if not scheduler.request_ids:
            break
        logits = row([step, len(scheduler.record(request_id).token_ids)], [EOS] if step % 5 == 4 else [])
        if at is not None:
            injection = InPhases(KeyboardInterrupt, at)
            with contextlib.suppress(KeyboardInterrupt):
                injection.during(lambda logits=logits: scheduler.step(logits[np.newaxis]))
            was_interrupted |= injection.passed
            if not injection.passed:
                continue
        scheduler.step(logits[np.newaxis])
    return scheduler.record(request_id), was_interrupted


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("name", SETTINGS)
def test_a_step_that_is_interrupted_while_phases_change_can_be_made_again(name: str) -> None:
    calm, _ = life(SETTINGS[name], None)
    for at in range(MOST_LINES):
        found, was_interrupted = life(SETTINGS[name], at)
        assert (found.token_ids, found.phase_tokens, found.text) == (
            calm.token_ids,
            calm.phase_tokens,
            calm.text,
        ), at
        if not was_interrupted:
            return
    pytest.fail(f"a step has more than {MOST_LINES} lines there")
