"""Requests with long prompts and everything that a request may ask for: their joining, their first step and
their later ones, feature by feature, relative to the default chain alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler, sample
from engine_sampler.cli.bench import rows
from engine_sampler.cli.bench.rows import BREAKER

from .bench_grammar import json_grammar
from .cases import DEFAULT, MAIN, PENALTIES, PROMPTS, TINY, Shape
from .measure import Work, measure
from .results import JOIN, STEP, prompt_of

REQUESTS = 64
LENGTH = PROMPTS[-1]
FEATURES: Mapping[str, Mapping[str, Any]] = {
    "stop strings": {"stop": ["\nUser:", "</tool_call>", "<|im_end|>"]},
    "100 biases": {"logit_bias": {7 * i: 0.5 for i in range(100)}},
    "penalties": PENALTIES | {"penalty_last_n": -1},
    "DRY": {"dry_multiplier": 0.8, "dry_sequence_breakers": [BREAKER]},
    "raw logprobs": {"logprobs": 5},
    "penalized logprobs": {"logprobs": 5, "logprobs_mode": "penalized"},
    "a grammar": {},
}
TOGETHER = "all of these"
BOTH_LOGPROBS = {"logprobs": 5, "logprobs_mode": ("raw", "penalized")}


def settings(feature: str) -> dict[str, Any]:
    """The parameters of the default chain with one feature, with all of them, or with none ("")."""
    given: dict[str, Any] = dict(DEFAULT)
    for name, more in FEATURES.items():
        if feature in (name, TOGETHER):
            given |= more
    return given | (BOTH_LOGPROBS if feature == TOGETHER else {})


@cache
def prompt() -> np.ndarray:
    """int64 [LENGTH], as texts are: 5,144 different tokens."""
    return np.array(rows.history(MAIN, LENGTH))


def scheduler_of(feature: str) -> Scheduler:
    """A scheduler whose requests have joined, before its first step."""
    compiled = json_grammar()
    with_text = feature in ("stop strings", "a grammar", TOGETHER)
    scheduler = Scheduler(MAIN, compiled.tokenizer if with_text else None)
    for seed in range(REQUESTS):
        matcher = compiled.matcher() if feature in ("a grammar", TOGETHER) else None
        scheduler.add(SamplingParams(seed=seed, **settings(feature)), prompt(), grammar=matcher)
    return scheduler


class FirstSteps:
    """First steps, each of another scheduler."""

    def __init__(self, feature: str) -> None:
        self._feature = feature
        self._scheduler: Scheduler | None = None

    def join(self) -> None:
        self._scheduler = None  # its memory is used again
        self._scheduler = scheduler_of(self._feature)

    def step(self) -> None:
        assert self._scheduler is not None
        self._scheduler.step(rows.batch(MAIN, REQUESTS))

    @property
    def work(self) -> Work:
        return Work(self.step, self.join)


@pytest.mark.parametrize("feature", [*FEATURES, TOGETHER])
def bench_step_with_a_feature(benchmark, feature):
    logits = rows.batch(MAIN, REQUESTS)
    plain, featured = scheduler_of(""), scheduler_of(feature)
    yardsticks = {"plain": Work(lambda: plain.step(logits))}
    shape = Shape(f"default chain, {feature}", MAIN, REQUESTS)
    measure(benchmark, Work(lambda: featured.step(logits)), STEP, shape, yardsticks)
    assert len(featured.request_ids) == REQUESTS


@pytest.mark.parametrize("feature", ["penalties", "DRY", TOGETHER])
def bench_first_step_with_a_feature(benchmark, feature):
    shape = Shape(f"first step, default chain, {feature}", MAIN, REQUESTS)
    measure(benchmark, FirstSteps(feature).work, STEP, shape, {"plain": FirstSteps("").work})


@pytest.mark.parametrize("length", PROMPTS)
def bench_joining_an_empty_scheduler(benchmark, length):
    params, tokens = SamplingParams(**DEFAULT), prompt()[:length]

    def join():
        scheduler = Scheduler(MAIN)
        for _ in range(REQUESTS):
            scheduler.add(params, tokens)

    def copy():
        return [(tokens.copy(), tokens.copy(), np.full(length, np.nan)) for _ in range(REQUESTS)]

    shape = Shape(f"empty, {prompt_of(length, 'array')}", MAIN, REQUESTS)
    measure(benchmark, Work(join), JOIN, shape, {"copies": Work(copy)})


@pytest.mark.parametrize("vocab_size", [TINY, MAIN])
def bench_sample(benchmark, vocab_size):
    params, logits = SamplingParams(seed=1, **DEFAULT), rows.batch(vocab_size, REQUESTS)
    scheduler = Scheduler(vocab_size)
    for _ in range(REQUESTS):
        scheduler.add(params)
    yardsticks = {"step": Work(lambda: scheduler.step(logits))}
    shape = Shape("sample, default chain", vocab_size, REQUESTS)
    measure(benchmark, Work(lambda: sample(logits, params)), STEP, shape, yardsticks)
