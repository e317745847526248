"""vLLM's published protocol for processors, imitated by small objects: requests, batches, slots, contexts."""

from __future__ import annotations

import enum
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from engine_sampler import SamplingParams, process_logits

VOCAB = 24

EXTRA_ARGS: tuple[dict[str, Any], ...] = (
    {"dry_multiplier": 0.8, "dry_base": 1.5, "dry_allowed_length": 1},
    {"xtc_probability": 0.5, "xtc_threshold": 0.05, "top_n_sigma": 2.0},
    {"no_repeat_ngram_size": 2, "smoothing_factor": 0.3},
    {"typical_p": 0.7, "min_keep": 2},
    {"temperature": 0.6, "dynatemp_range": 0.4, "tfs": 0.9, "order": "koboldai"},
    {"repetition_penalty": 1.3, "repetition_penalty_range": 6, "frequency_penalty": 0.2, "top_h": 0.5},
    {"temperature": 0.0, "presence_penalty": 0.7},
)
"""The `extra_args` of requests that enable our samplers."""


@dataclass
class Params:
    """The attributes of vLLM's SamplingParams that we read."""

    extra_args: dict[str, Any] | None = None
    seed: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Any = None
    min_tokens: int = 0


class Direction(enum.Enum):
    UNIDIRECTIONAL = 1
    SWAP = 2


@dataclass
class FakeRequest:
    """A request in the test. `output` is the list that a V1 runner shares."""

    params: Params
    prompt: list[int] | None
    output: list[int] = field(default_factory=list)

    @property
    def history(self) -> list[int]:
        return (self.prompt or []) + self.output

    def expected(self, row: np.ndarray, drafts: list[int] | None = None) -> np.ndarray:
        """`row` as our library alone would process it, after some drafts."""
        if self.params.extra_args is None:
            return row
        params = SamplingParams(**self.params.extra_args, seed=self.params.seed)
        output = self.output + (drafts or [])
        return process_logits(
            row[None], params, prompt_token_ids=[self.prompt or []], output_token_ids=[output]
        )[0]


def new_request(rng: random.Random, *, may_lack_prompt: bool = False) -> FakeRequest:
    """A new request, which enables our samplers in most cases."""
    extra_args = rng.choice(EXTRA_ARGS) if rng.random() < 0.8 else None
    prompt = None if may_lack_prompt and rng.random() < 0.2 else tokens(rng, rng.randint(1, 12))
    output = tokens(rng, rng.randint(1, 4)) if rng.random() < 0.2 else []
    return FakeRequest(Params(extra_args, seed=rng.randrange(2**63)), prompt, output)


def tokens(rng: random.Random, n: int) -> list[int]:
    """Random tokens from a small range, so that they repeat."""
    return [rng.randrange(6) for _ in range(n)]


def logits(rng: random.Random, rows: int) -> np.ndarray:
    """Random rows, float32 [rows, VOCAB], with some tokens masked as by a grammar."""
    values = np.random.default_rng(rng.randrange(2**32)).normal(0, 3, (rows, VOCAB)).astype(np.float32)
    for row in values:
        if rng.random() < 0.4:
            row[rng.sample(range(6, VOCAB), rng.randint(1, 12))] = -np.inf
    return values


# --- V1 --------------------------------------------------------------------------------------------


class Batch:
    """The persistent batch of a V1 runner: it records every change as the runner's builder does."""

    def __init__(self) -> None:
        self.rows: list[FakeRequest | None] = []
        self._removed: list[int] = []
        self._added: list[tuple[int, Params, list[int] | None, list[int]]] = []
        self._moved: list[tuple[int, int, Direction]] = []

    def remove(self, row: int) -> None:
        self.rows[row] = None
        self._removed.append(row)

    def add(self, request: FakeRequest) -> None:
        """Add to the first vacated row, which then does not count as removed, or after the last row."""
        if self._removed:
            row = min(self._removed)
            self._removed.remove(row)
        else:
            row = len(self.rows)
            self.rows.append(None)
        self.rows[row] = request
        self._added.append((row, request.params, request.prompt, request.output))

    def condense(self) -> None:
        """Close the gaps with the last rows."""
        while None in self.rows:
            if self.rows[-1] is not None:
                gap, last = self.rows.index(None), len(self.rows) - 1
                self.rows[gap] = self.rows[last]
                self._moved.append((last, gap, Direction.UNIDIRECTIONAL))
            self.rows.pop()

    def swap(self, a: int, b: int) -> None:
        self.rows[a], self.rows[b] = self.rows[b], self.rows[a]
        self._moved.append((a, b, Direction.SWAP))

    def update(self) -> Any:
        """The `BatchUpdate` since the last call, None for no change."""
        changes = self._removed, self._added, self._moved
        self._removed, self._added, self._moved = [], [], []
        if not any(changes):
            return None
        removed, added, moved = changes
        return SimpleNamespace(batch_size=len(self.rows), removed=removed, added=added, moved=moved)


# --- V2 --------------------------------------------------------------------------------------------


class Runner:
    """The buffers of a V2 runner; `array` creates its device arrays.

    A request's tokens are written when it takes a slot; `commit` adds what was sampled.
    """

    def __init__(self, slots: int, array: Callable[[np.ndarray], Any] = np.asarray) -> None:
        self._tokens = np.full((slots, 256), VOCAB - 1, np.int32)  # earlier contents must not matter
        self._array = array
        self.requests: dict[int, FakeRequest] = {}
        lengths = [SimpleNamespace(np=np.zeros(slots, np.int32)) for _ in range(3)]
        self.prompt_len, self.prefill_len, self.total_len = lengths
        self.all_token_ids = SimpleNamespace(gpu=self._array(self._tokens))

    def assign(self, slot: int, request: FakeRequest) -> None:
        history = request.history
        self.requests[slot] = request
        self._tokens[slot, : len(history)] = history
        self.prompt_len.np[slot] = len(request.prompt or [])
        self.prefill_len.np[slot] = self.total_len.np[slot] = len(history)
        self.all_token_ids.gpu = self._array(self._tokens)

    def has_drawn(self, slot: int) -> bool:
        """Whether a request has drawn since it was assigned; before that there are no drafts."""
        return bool(self.total_len.np[slot] > self.prefill_len.np[slot])

    def commit(self, slot: int, sampled: list[int]) -> None:
        total = int(self.total_len.np[slot])
        self._tokens[slot, total : total + len(sampled)] = sampled
        self.total_len.np[slot] = total + len(sampled)
        self.requests[slot].output += sampled
        self.all_token_ids.gpu = self._array(self._tokens)

    def context(self, parts: list[tuple[int, int, list[int]]]) -> Any:
        """The `LogitsContext` of a step. parts: for each request its slot, the position of its first row's
        input token, and the inputs of its further rows."""
        slots = np.array([slot for slot, _, _ in parts], np.int64)
        rows = [1 + len(drafts) for _, _, drafts in parts]
        offsets = [np.arange(n) for n in rows]
        positions = [first + offset for (_, first, _), offset in zip(parts, offsets, strict=True)]
        inputs = [np.array([VOCAB - 2, *drafts]) for _, _, drafts in parts]
        return SimpleNamespace(
            expanded_idx_mapping=self._array(np.repeat(slots, rows)),
            idx_mapping=self._array(slots),
            idx_mapping_np=slots.astype(np.int32),
            expanded_local_pos=self._array(np.concatenate(offsets).astype(np.int32)),
            input_ids=self._array(np.concatenate(inputs).astype(np.int32)),
            pos=self._array(np.concatenate(positions)),
        )
