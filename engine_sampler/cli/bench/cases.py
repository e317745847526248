"""The work that `engine-sampler bench` times: whole steps of a scheduler, from logits to tokens."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from ...params import SamplingParams
from ...scheduler import Scheduler
from ...tokenizer import Tokenizer
from . import peers, rows

LEAST_ROUNDS = 5


@dataclass(frozen=True)
class Measurement:
    """One line of the table.

    name     what was timed.
    rows     rows of logits in one call.
    seconds  the median of one call.
    passes   its ratio to reading the same logits once; None where that means nothing.
    ratio    how many times as long as our default chain on the same rows: for peers only.
    """

    name: str
    rows: int
    seconds: float
    passes: float | None = None
    ratio: float | None = None


def medians(calls: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """The median time of each call in seconds; they take turns for so long, and at least five times each."""
    for call in calls.values():  # the first is slower than any other
        call()
    taken: dict[str, list[float]] = {name: [] for name in calls}
    end = perf_counter() + seconds
    rounds = 0
    while rounds < LEAST_ROUNDS or perf_counter() < end:
        for name, call in calls.items():
            start = perf_counter()
            call()
            taken[name].append(perf_counter() - start)
        rounds += 1
    return {name: median(times) for name, times in taken.items()}


DEFAULT: Mapping[str, Any] = {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8}
"""llama.cpp's default chain, without penalties."""
PENALTIES: Mapping[str, Any] = {"repetition_penalty": 1.1, "presence_penalty": 0.1, "penalty_last_n": 2048}
JSON: Mapping[str, Any] = {
    "json_schema": json.dumps(
        {
            "type": "array",
            "minItems": 1000,  # it must not end
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
                "required": ["name", "size"],
                "additionalProperties": False,
            },
        }
    )
}
PASS, CHAIN = "reading the logits once (NumPy's max)", "default chain"
CASES: Mapping[str, Mapping[str, Any]] = {
    CHAIN: DEFAULT,
    "temperature": {"temperature": 0.8},
    "top_p": {"top_p": 0.95},
    "penalties, default chain": {**PENALTIES, **DEFAULT},
    "default chain, logprobs=5": {**DEFAULT, "logprobs": 5},
    "default chain, JSON Schema": {**DEFAULT, **JSON},
}
OVERHEAD = "default chain, 64 tokens: the step itself"
HISTORY = 2048
TINY = 64


def measure(
    vocab_size: int = 131_072, batch: int = 64, seconds: float = 40.0, backend: str = "auto"
) -> Iterator[Measurement]:
    """Time every case with one row and with `batch` rows, as the results come; `seconds` is for all."""
    tokenizer = spelled(vocab_size)
    counts = sorted({1, batch})
    share = seconds / (len(counts) * (len(CASES) + 1 + len(peers.PEERS)))
    for count in counts:
        logits = rows.batch(vocab_size, count)
        step_of = partial(_step, logits, tokenizer, backend)
        read = partial(np.max, logits, axis=1)
        for number, (name, settings) in enumerate(CASES.items()):
            taken = medians({PASS: read, name: step_of(settings)}, share)
            if number == 0:
                yield Measurement(PASS, count, taken[PASS])
            yield Measurement(name, count, taken[name], taken[name] / taken[PASS])
        tiny = rows.batch(TINY, count)
        yield Measurement(OVERHEAD, count, medians({"": _step(tiny, None, backend, DEFAULT)}, share)[""])
        for name, peer in peers.installed():
            taken = medians({CHAIN: step_of(DEFAULT), name: peer(logits, DEFAULT)}, share)
            yield Measurement(name, count, taken[name], ratio=taken[name] / taken[CHAIN])


def count_of(batch: int) -> int:
    """How many measurements `measure` makes."""
    return len({1, batch}) * (len(CASES) + 2 + len(list(peers.installed())))


def spelled(vocab_size: int) -> Tokenizer:
    """A vocabulary of all bytes, then words, half of them behind a blank; the last token is EOS."""
    letters = [bytes([letter]) for letter in b"abcdefghijklmnopqrstuvwxyz"]
    words = (b"".join(parts) for n in itertools.count(2) for parts in itertools.product(letters, repeat=n))
    tokens = [bytes([byte]) for byte in range(256)]
    while len(tokens) < vocab_size:
        word = next(words)
        tokens += [word, b" " + word]
    return Tokenizer([*tokens[: vocab_size - 1], b"<eos>"], [vocab_size - 1], [vocab_size - 1])


def _step(
    logits: np.ndarray, tokenizer: Tokenizer | None, backend: str, settings: Mapping[str, Any]
) -> Callable[[], Any]:
    """A step of a scheduler with one request per row of `logits`, which never ends."""
    vocab_size = logits.shape[1]
    scheduler = Scheduler(vocab_size, tokenizer, backend=backend)
    prompt = np.random.default_rng(0).zipf(1.25, HISTORY) % vocab_size
    for row in range(len(logits)):
        scheduler.add(SamplingParams(seed=row, ignore_eos=True, **settings), prompt)
    return partial(scheduler.step, logits)
