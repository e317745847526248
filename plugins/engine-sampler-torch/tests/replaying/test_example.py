"""The example of the page on replays runs: a rollout, its record, and a step of training."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from engine_sampler_torch import ReplayRecord, replay

from engine_sampler import SamplingMask, SamplingParams

PAGE = Path(__file__).parents[4] / "docs" / "replay.md"


def test_the_example_of_the_page_runs() -> None:
    (block,) = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(compile(block, PAGE.name, "exec", dont_inherit=True), names)
    assert names["model"].weight.grad.isfinite().all()
    assert names["model"].weight.grad.any()


def test_a_request_without_tokens_has_no_logprobs() -> None:
    mask = SamplingMask.of([], {"is_inverted": [], "is_capped": []}, [], 6)
    record = ReplayRecord(SamplingParams(), [1], [], mask)
    logits = torch.zeros(0, 6, requires_grad=True)
    found = replay(logits, [record, record])
    found.sum().backward()
    assert found.shape == (0,)
    assert np.shape(logits.grad) == (0, 6)
