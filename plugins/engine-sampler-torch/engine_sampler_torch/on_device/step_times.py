"""Whole steps of a scheduler, with everything that a server asks for: penalties, biases, masks, logprobs,
drafts, mixtures. By the wall clock, the wait for the tokens included."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.testing import vocabulary_of

from ..backend import TorchBackend
from .movement import CHAIN

VOCAB_SIZE = 131_072
STEPS, WARM_UP = 30, 5


@dataclass(frozen=True)
class StepCase:
    """One line of the table.

    chains  the parameters of the requests, in turn.
    rows    how many requests; `drafts`: guessed tokens of each, so that it has one more row than these.
    """

    name: str
    chains: Sequence[Mapping[str, Any]] = (CHAIN,)
    rows: int = 64
    drafts: int = 0


CASES = (
    StepCase("default chain"),
    StepCase("default chain", rows=256),
    StepCase("penalties", (CHAIN | {"repetition_penalty": 1.1, "frequency_penalty": 0.2},)),
    StepCase("a bias of two tokens", (CHAIN | {"logit_bias": {5: 2.0, 9: -3.0}},)),
    StepCase("a grammar's masks", (CHAIN | {"regex": "[ab]+"},)),
    StepCase("five logprobs", (CHAIN | {"logprobs": 5},)),
    StepCase("three drafts", drafts=3),
    StepCase("four chains", (CHAIN, {"temperature": 0.7}, {"top_p": 0.9}, {"temperature": 0.0})),
)


def table(
    device: torch.device | str, vocab_size: int = VOCAB_SIZE, cases: Sequence[StepCase] = CASES
) -> list[dict[str, Any]]:
    """One dict for each case: its name, its requests, and the median µs of a step."""
    with torch.inference_mode():
        return [
            {
                "a scheduler's step": case.name,
                "requests": case.rows,
                "µs": round(median_of(case, device, vocab_size), 1),
            }
            for case in cases
        ]


def median_of(case: StepCase, device: torch.device | str, vocab_size: int) -> float:
    """The median of a step in µs."""
    scheduler = Scheduler(
        vocab_size, vocabulary_of(vocab_size).tokenizer, backend=TorchBackend(compiles_beside=False)
    )
    for number in range(case.rows):
        chain = case.chains[number % len(case.chains)]
        scheduler.add(SamplingParams(seed=number, **chain), [1, 2, 3])
    host = np.random.default_rng(0).standard_normal((case.rows * (1 + case.drafts), vocab_size), np.float32)
    logits = torch.from_numpy(host).to(device)
    drafts = [[7] * case.drafts] * case.rows if case.drafts else None
    spans = []
    for _ in range(WARM_UP + STEPS):
        ids = scheduler.request_ids
        start = time.perf_counter()
        scheduler.prepare(ids)
        scheduler.step(logits, ids, drafts)
        spans.append(time.perf_counter() - start)
        if len(scheduler.request_ids) < case.rows:
            break  # a request has ended: what is left is another step
    return 1e6 * statistics.median(spans[WARM_UP:] or spans)
