"""Generations to compare: the same requests on a library and on NumPy."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.contract import Backend

VOCAB = 60

PLAIN: tuple[dict[str, Any], ...] = (
    {"top_k": 5, "temperature": 0.7},
    {"temperature": 0.0},
    {"temperature": 1.3},
    {"top_k": 9},
)
"""Settings that the toy vendor runs as a whole."""

STATEFUL: tuple[dict[str, Any], ...] = (
    {"repetition_penalty": 1.3, "frequency_penalty": 0.2, "top_k": 9},
    {"dry_multiplier": 1.5, "dry_allowed_length": 1, "temperature": 0.8},
    {"mirostat": 1, "mirostat_tau": 3.0, "mirostat_eta": 0.5},
    {"mirostat": 2, "mirostat_tau": 3.0, "mirostat_eta": 0.5, "repetition_penalty": 0.8},
    {"adaptive_target": 0.3, "top_k": 20},
    {"no_repeat_ngram_size": 2, "presence_penalty": 0.4},
)
"""Settings that depend on the tokens so far, and on how they were drawn."""


def logits_of(step: int, rows: int, vocab: int = VOCAB) -> np.ndarray:
    """float32 [rows, vocab], so peaked that tokens repeat."""
    return np.random.default_rng(step).normal(0, 2, (rows, vocab)).astype(np.float32)


def scheduler_of(settings: Sequence[dict[str, Any]], backend: str | Backend) -> Scheduler:
    """Requests with these settings, each with a seed and a prompt."""
    scheduler = Scheduler(VOCAB, eos_token_ids=[0], backend=backend)
    for seed, given in enumerate(settings):
        scheduler.add(
            SamplingParams(**given, seed=seed, ignore_eos="dry_multiplier" in given), [1, 2, 3, 1, 2]
        )
    return scheduler


def generate(
    settings: Sequence[dict[str, Any]],
    backend: str | Backend,
    steps: int = 12,
    before: Callable[[int], None] = lambda step: None,
) -> np.ndarray:
    """The tokens of `steps` steps, int64 [steps, requests]; `before` is called before each step."""
    scheduler = scheduler_of(settings, backend)
    tokens = np.full((steps, len(settings)), -1, np.int64)
    for step in range(steps):
        before(step)
        ids = scheduler.request_ids
        if not ids:
            break
        tokens[step, ids] = scheduler.step(logits_of(step, len(settings))[ids]).token_ids
    return tokens


def generate_on_numpy(settings: Sequence[dict[str, Any]], steps: int = 12) -> np.ndarray:
    """What `generate` gives with NumPy: many tests compare with the same tokens, which are drawn once."""
    return _generated(json.dumps(list(settings)), steps)


@functools.cache
def _generated(settings: str, steps: int) -> np.ndarray:
    tokens = generate(json.loads(settings), "numpy", steps)
    tokens.flags.writeable = False
    return tokens
