"""Whole steps of a scheduler, with everything that a server asks for: penalties, biases, masks, logprobs,
drafts, mixtures. By the wall clock, the wait for the tokens included, and the host's part of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from engine_sampler_torch.backend import TorchBackend

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.testing import vocabulary_of

from .host_time import waiting_timed
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


_REPEATING = CHAIN | {"repetition_penalty": 1.1, "frequency_penalty": 0.2}
_FOUR = (CHAIN, {"temperature": 0.7}, {"top_p": 0.9}, {"temperature": 0.0})
_BY_HISTORY = {"dry_multiplier": 0.8, "no_repeat_ngram_size": 3, "bad_words": ["ab"]}

CASES = (
    StepCase("default chain"),
    StepCase("default chain", rows=1),
    StepCase("default chain", rows=256),
    StepCase("the best token", ({"temperature": 0.0},)),
    StepCase("penalties", (_REPEATING,)),
    StepCase("penalties", (_REPEATING,), rows=1),
    StepCase("a bias of two tokens", (CHAIN | {"logit_bias": {5: 2.0, 9: -3.0}},)),
    StepCase("a grammar's masks", (CHAIN | {"regex": "[ab]+"},)),
    StepCase("five logprobs", (CHAIN | {"logprobs": 5},)),
    StepCase("masks and logprobs", (CHAIN | {"regex": "[ab]+", "logprobs": 5},)),
    StepCase("three drafts", drafts=3),
    StepCase("three drafts and penalties", (_REPEATING,), drafts=3),
    StepCase("four chains", _FOUR),
    StepCase("ignore_eos and min_tokens", (CHAIN | {"ignore_eos": True, "min_tokens": 4},)),
    StepCase("DRY, n-grams and bad words", (CHAIN | _BY_HISTORY,)),
)


@dataclass(frozen=True)
class StepTime:
    """Medians of one case in µs: `whole`, and of that `waited` for the device."""

    whole: float
    waited: float


def table(
    device: torch.device | str, vocab_size: int = VOCAB_SIZE, cases: Sequence[StepCase] = CASES
) -> list[dict[str, Any]]:
    """One dict for each case: its name, its requests, the median µs of a step, and of the host's part."""
    with torch.inference_mode():
        return [_line(case, time_of(case, device, vocab_size)) for case in cases]


def _line(case: StepCase, time: StepTime) -> dict[str, Any]:
    return {
        "a scheduler's step": case.name,
        "requests": case.rows,
        "µs": round(time.whole, 1),
        "of it on the host, µs": round(time.whole - time.waited, 1),
    }


def time_of(case: StepCase, device: torch.device | str, vocab_size: int) -> StepTime:
    """What a step of `case` takes."""
    scheduler = Scheduler(
        vocab_size, vocabulary_of(vocab_size).tokenizer, backend=TorchBackend(compiles_beside=False)
    )
    for number in range(case.rows):
        chain = case.chains[number % len(case.chains)]
        scheduler.add(SamplingParams(seed=number, **chain), [1, 2, 3])
    host = np.random.default_rng(0).standard_normal((case.rows * (1 + case.drafts), vocab_size), np.float32)
    logits = torch.from_numpy(host).to(device)
    drafts = [[7] * case.drafts] * case.rows if case.drafts else None
    spans, waits = [], []
    with waiting_timed() as waiting:
        for _ in range(WARM_UP + STEPS):
            ids = scheduler.request_ids
            waiting.seconds, start = 0.0, time.perf_counter()
            scheduler.prepare(ids)
            scheduler.step(logits, ids, drafts)
            spans.append(time.perf_counter() - start)
            waits.append(waiting.seconds)
            if len(scheduler.request_ids) < case.rows:
                break  # a request has ended: what is left is another step
    whole, waited = (1e6 * statistics.median(times[WARM_UP:] or times) for times in (spans, waits))
    return StepTime(whole, waited)
