"""Equality on a device: schedulers on the torch backend beside schedulers on the host, request by request."""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from engine_sampler_torch.backend import TorchBackend

from engine_sampler import ParameterError, SamplingParams, Scheduler, StepResult
from engine_sampler.for_backends import best_backend, structured_in
from engine_sampler.testing import random_settings, vocabulary_of

SIZES = (65, 300, 1024, 4099, 32_000, 131_072, 151_936)
DTYPES = ("float32", "float16", "bfloat16")
REQUESTS, WIDEST_REQUESTS = 256, 16
"""Rows of a step: of small vocabularies, and of those above 10,000 tokens."""
STEPS = 12
FAULTS = (np.nan, np.inf, -np.inf)


@dataclass
class Equality:
    """What was compared.

    rows        how many rows had a token on both sides, or an error on both.
    by_size     the same by vocabulary.
    seconds     how long it took.
    difference  the first difference in words, None if there was none.
    """

    rows: int = 0
    by_size: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0
    difference: str | None = None


def compare(device: str, rows: int, seconds: float, *, workers: int = 1) -> Equality:
    """Compare `rows` rows, or as many as `seconds` allow, of random requests on `device` with the host:
    tokens, errors and logprobs. More than one of `workers` are processes of their own: the host takes longer
    than the device. What is compared does not depend on their number."""
    outcome, started = Equality(), time.monotonic()
    generations = enumerate(_sizes())
    with _runner(workers) as submit:
        running: deque[tuple[int, Future[tuple[int, str | None]]]] = deque()
        while outcome.difference is None:
            is_late = time.monotonic() - started > seconds or outcome.rows >= rows
            while not is_late and len(running) < workers:
                number, size = next(generations)
                running.append((size, submit(_generation, device, number, size)))
            if not running:
                break
            size, future = running.popleft()
            done, outcome.difference = future.result()
            outcome.rows += done
            outcome.by_size[size] = outcome.by_size.get(size, 0) + done
            outcome.seconds = time.monotonic() - started
    return outcome


@contextmanager
def _runner(workers: int) -> Iterator[Callable[..., Future[Any]]]:
    """What starts a call: in one of this many processes, or here and at once for one worker."""
    if workers == 1:
        yield _call_here
        return
    context = multiprocessing.get_context("spawn")  # a card cannot be used on both sides of a fork
    with ProcessPoolExecutor(workers, context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield pool.submit


def _call_here(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(function(*arguments))
    return future


def _sizes() -> Iterator[int]:
    """Vocabularies in turn, small ones most often: they decide nothing less, and take less time."""
    while True:
        for size in SIZES:
            for _ in range(8 if size < 10_000 else 1):
                yield size


def _generation(device: str, number: int, size: int) -> tuple[int, str | None]:
    """Some steps of many requests: (rows compared, the first difference)."""
    random = np.random.default_rng([number, size])
    count = REQUESTS if size < 10_000 else WIDEST_REQUESTS
    vocabulary = vocabulary_of(size)
    here, there = (
        Scheduler(size, vocabulary.tokenizer, backend=backend)
        for backend in (best_backend("cpu"), TorchBackend(compiles_beside=False))
    )
    _add(random, size, count, (here, there))
    dtype = DTYPES[number % len(DTYPES)]
    rows = 0
    for step in range(STEPS):
        ids = here.request_ids
        if not ids:
            break
        logits = _logits(random, len(ids), size, dtype)
        if step % 3 == 0:
            there.prepare(ids)
        right, found = here.step(logits, ids), there.step(logits.to(device), ids)
        rows += len(ids)
        difference = _difference(found, right)
        if difference is not None:
            return rows, f"vocabulary {size}, generation {number}, step {step}, {dtype}: {difference}"
    return rows, None


def _add(random: np.random.Generator, size: int, count: int, schedulers: tuple[Scheduler, Scheduler]) -> None:
    """Add the same random requests to both, in a few configurations."""
    configurations = [random_settings(random) for _ in range(6)]
    for i in range(count):
        settings = {**configurations[i % len(configurations)], "seed": int(random.integers(2**63))}
        if i % 7 == 0:
            settings |= {"logprobs": 3, "logprobs_mode": ["raw", "penalized", "processed"]}
        if i % 11 == 0 and not structured_in(settings):
            settings["regex"] = "[ab]+"
        prompt = random.integers(0, min(size, 5), 8).tolist()
        for scheduler in schedulers:
            try:
                scheduler.add(SamplingParams(**settings), prompt)
            except ParameterError:  # ids that this vocabulary lacks, on both sides
                continue


def _logits(random: np.random.Generator, n: int, size: int, dtype: str) -> torch.Tensor:
    """Rows of every spread, some of which have removed tokens, ties or a fault."""
    logits = random.standard_normal((n, size), np.float32) * random.choice([0.1, 2, 8], (n, 1)).astype(
        np.float32
    )
    tied = random.random(n) < 0.2
    logits[tied] = np.round(logits[tied])
    removed = random.random(n) < 0.2
    logits[removed] = np.where(random.random((int(removed.sum()), size)) < 0.5, -np.inf, logits[removed])
    logits[:, 0] = np.where(logits[:, 0] == -np.inf, 0, logits[:, 0])
    if random.random() < 0.2:
        logits[random.integers(n), random.integers(size)] = FAULTS[random.integers(len(FAULTS))]
    return torch.from_numpy(logits).to(getattr(torch, dtype))


def _difference(on_device: StepResult, right: StepResult) -> str | None:
    """The first difference between two results, in words."""
    unlike = np.flatnonzero(on_device.token_ids != right.token_ids)
    if len(unlike):
        i = int(unlike[0])
        return (
            f"row {i} gives token {on_device.token_ids[i]}, not {right.token_ids[i]} ({on_device.errors[i]})"
        )
    if on_device.errors != right.errors:
        i = next(
            i for i, pair in enumerate(zip(on_device.errors, right.errors, strict=True)) if pair[0] != pair[1]
        )
        return f"row {i} has the error {on_device.errors[i]!r}, not {right.errors[i]!r}"
    left = on_device.token_ids_on_device
    if left is not None and not np.array_equal(left.cpu().numpy(), right.token_ids):
        return "token_ids_on_device are others"
    for mode, table in _tables(right).items():
        other = _tables(on_device)[mode]
        for name in ("token_ids", "logprobs", "ranks"):
            if not np.array_equal(getattr(other, name), getattr(table, name), equal_nan=name == "logprobs"):
                return f"the {name} of {mode} logprobs are others"
    return None


def _tables(result: StepResult) -> dict[str, Any]:
    return {} if result.logprobs is None else dict(result.logprobs.by_mode)
