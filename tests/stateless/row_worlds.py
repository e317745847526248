"""Requests of an engine that arrive, leave, move, change and go back, the same in every run."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine_sampler import SamplingParams, Scheduler
from tests.random_chains import random_history, random_logits, random_settings, tokenizer

SIZE = 40
LOGITS = np.random.default_rng(5).normal(0, 3, (6, SIZE)).astype(np.float32)
KEYS = list("abcdef")
"""Six rows and their keys."""

WITHOUT = ("grammar_bias",)
"""What needs a grammar of the request's own."""


class GivenMask:
    """A matcher with one mask."""

    def __init__(self, mask: np.ndarray) -> None:
        self.words = bits_of(mask[None])[0]

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
        bitmask[row] = self.words

    def accept(self, token_id: int) -> bool:
        return True

    def is_accepting(self) -> bool:
        return False

    def is_terminated(self) -> bool:
        return False


def bits_of(mask: np.ndarray) -> np.ndarray:
    """A bool mask as int32 words."""
    bits = np.zeros((len(mask), (mask.shape[1] + 31) // 32), np.uint32)
    for row, token_id in np.argwhere(mask):
        bits[row, token_id // 32] |= np.uint32(1 << token_id % 32)
    return bits.view(np.int32)


class EngineRequest:
    """A request as an engine knows it."""

    def __init__(self, random: np.random.Generator, key: int, size: int) -> None:
        self.key = key
        self.seed = int(random.integers(2**63))
        self.prompt = random_history(random, size)
        self.output = random_history(random, size)
        self.change(random, size)

    def change(self, random: np.random.Generator, size: int) -> None:
        selector = "greedy" if random.random() < 0.2 else "dist"  # the others learn from their own draws
        self.settings = random_settings(random, size, without=WITHOUT, selector=selector)

    @property
    def params(self) -> SamplingParams:
        return SamplingParams(**self.settings, seed=self.seed)

    def alone(self, logits: np.ndarray, drafts: list[int], mask: np.ndarray | None) -> tuple[list[int], bool]:
        """What schedulers on their own draw for it, −1 for a row without a token; and whether it is faulty.

        mask  bool [rows, vocab], of a grammar.
        """
        size, drawn = logits.shape[1], [-1] * len(logits)
        for i, draft in enumerate([*drafts, None]):
            scheduler = Scheduler(size, tokenizer(size), backend="numpy", postpone=False)
            grammar = None if mask is None else GivenMask(mask[i])
            scheduler.add(self.params, self.prompt, output_token_ids=self.output + drawn[:i], grammar=grammar)
            result = scheduler.step(logits[i : i + 1])
            drawn[i] = int(result.token_ids[0])
            if result.errors[0] is not None or drawn[i] != draft:
                break
        return drawn, result.errors[0] is not None


class World:
    """The requests of an engine in row order, and random changes of them."""

    def __init__(self, seed: int, size: int) -> None:
        self.random = np.random.default_rng(seed)
        self.size = size
        self.requests: list[EngineRequest] = []
        self._keys = 0

    def change(self) -> None:
        """What may happen between two steps."""
        random, requests = self.random, self.requests
        if len(requests) < 2 or random.random() < 0.4:
            requests.append(EngineRequest(random, self._keys, self.size))
            self._keys += 1
        i = int(random.integers(len(requests)))
        match random.integers(9):
            case 0 if len(requests) > 3:
                requests[i] = requests[-1]  # the last row moves to the place of one that leaves
                requests.pop()
            case 1:
                random.shuffle(requests)  # type: ignore[arg-type]
            case 2:
                requests[i].change(random, self.size)
            case 3:
                del requests[i].output[len(requests[i].output) // 2 :]
            case 4:
                requests[i].output.extend(random.integers(0, self.size, 2).tolist())
            case 5:
                requests[i].output = [int(random.integers(self.size)), *requests[i].output[1:]]
            case 6 if requests[i].output:
                requests[i].output[-1] = int(random.integers(self.size))

    def columns(self) -> dict[str, list[Any]]:
        """The parameters of all requests, by name."""
        names = sorted({name for request in self.requests for name in request.settings})
        columns = {name: [r.settings.get(name) for r in self.requests] for name in names}
        return {**columns, "seed": [r.seed for r in self.requests]}

    def drafts(self) -> list[list[int]]:
        """Guesses for each request."""
        counts = self.random.integers(0, 4, len(self.requests))
        return [self.random.integers(0, self.size, count).tolist() for count in counts]

    def logits(self, rows: int) -> np.ndarray:
        """float32 [rows, vocab], sometimes with a faulty row."""
        logits = random_logits(self.random, rows, self.size)
        if self.random.random() < 0.2:
            logits[int(self.random.integers(rows))] = np.nan
        return logits

    def mask(self, rows: int) -> np.ndarray:
        """bool [rows, vocab] of few tokens."""
        return self.random.random((rows, self.size)) < self.random.choice([0.1, 0.5, 0.9])
