"""Random requests on an NPU beside the host: the same tokens, the same errors."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.contract import Backend

from .arrays import FORMS, Place, floats, rounded

ROWS_OF_A_STEP = 64
PADDING = 64
"""How many columns more than tokens the logits of every fourth step have."""


@dataclass
class ComparedRows:
    """How many rows have been compared, and the first difference as a message; None if all were equal."""

    rows: int = 0
    difference: str | None = None


def compare(
    backend: Backend, place: Place, rows: int, seconds: float, vocab_sizes: tuple[int, ...] = (1024, 151_936)
) -> ComparedRows:
    """Step random requests on `backend` and on the host, until `rows` rows are compared, or time is up."""
    compared = ComparedRows()
    end = time.monotonic() + seconds
    seed = 0
    while compared.difference is None and compared.rows < rows and time.monotonic() < end:
        form, vocab_size = FORMS[seed % len(FORMS)], vocab_sizes[seed % len(vocab_sizes)]
        compared.difference = _one_step(backend, place, form, vocab_size, seed)
        compared.rows += ROWS_OF_A_STEP
        seed += 1
    return compared


def _one_step(backend: Backend, place: Place, form: str, vocab_size: int, seed: int) -> str | None:
    """The difference between the two sides in a step, as a message; None if there is none."""
    rng = np.random.default_rng(seed)
    settings = [_settings(rng) for _ in range(ROWS_OF_A_STEP)]
    elements = rounded(np.stack([_row(rng, vocab_size) for _ in settings]), form)
    if seed % 4 == 3:  # a padded head, whose padding must not be read
        padding = rounded(np.full((ROWS_OF_A_STEP, PADDING), 50, np.float32), form)
        elements = np.concatenate([elements, padding], axis=1)
    ours, host = (_scheduler(each, vocab_size, settings) for each in (backend, "auto"))
    result, expected = ours.step(place(elements)), host.step(floats(elements))
    for i, given in enumerate(settings):
        pair = [(one.token_ids[i], one.errors[i]) for one in (result, expected)]
        if pair[0] != pair[1]:
            where = f"step {seed}, row {i}, {form}, {vocab_size} tokens, {given}"
            return f"{where}: {pair[0]}, on the host {pair[1]}"
    return None


def _scheduler(backend: Any, vocab_size: int, settings: list[dict[str, Any]]) -> Scheduler:
    scheduler = Scheduler(vocab_size, backend=backend)
    for seed, given in enumerate(settings):
        scheduler.add(SamplingParams(seed=seed, **given), [1, 2, 3])
    return scheduler


def _settings(rng: np.random.Generator) -> dict[str, Any]:
    """The parameters of a request, most of which begin on the NPU."""
    settings: dict[str, Any] = {"temperature": float(rng.choice([0.0, 0.2, 0.8, 1.0, 1.7]))}
    if rng.random() < 0.7:
        settings["top_k"] = int(rng.choice([1, 2, 17, 40, 200, 1024, 5000]))
    if rng.random() < 0.5:
        settings["top_p"] = float(rng.uniform(0.3, 1))
    if rng.random() < 0.3:
        settings["min_p"] = float(rng.uniform(0, 0.3))
    if rng.random() < 0.2:
        settings |= {"repetition_penalty": 1.3, "presence_penalty": 0.5, "penalty_scope": "all"}
    if rng.random() < 0.5:
        settings["order"] = "vllm"
    return settings


def _row(rng: np.random.Generator, vocab_size: int) -> np.ndarray:
    """A row of logits: ordinary ones, ties, few tokens, faults."""
    row = rng.normal(0, rng.choice([0.5, 3, 10]), vocab_size).astype(np.float32)
    kind = rng.random()
    if kind < 0.2:
        row = np.round(row)
    elif kind < 0.3:
        row[rng.random(vocab_size) < 0.99] = -np.inf
    elif kind < 0.35:
        row[rng.integers(vocab_size)] = rng.choice([np.nan, np.inf])
    elif kind < 0.37:
        row[:] = -np.inf
    return row
