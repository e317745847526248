"""Our side of engines that call a scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine_sampler import SamplingParams, Scheduler

from ..measure import Work

SEED = 1


def mask_of(vocab_size: int, rows: int) -> np.ndarray:
    """int32 [rows, words]: half of the tokens, other ones in each row."""
    random = np.random.default_rng([vocab_size, rows])
    return random.integers(-(2**31), 2**31, (rows, (vocab_size + 31) // 32)).astype(np.int32)


class FixedMask:
    """A matcher whose mask never changes, and which takes every token."""

    def __init__(self, words: np.ndarray) -> None:
        self._words = words

    def fill_bitmask(self, bitmask: Any, row: int = 0) -> None:
        bitmask[row] = self._words

    def accept(self, token_id: int) -> bool:
        return True

    def rollback(self, n: int) -> None:
        """Nothing has changed."""

    def fork(self) -> FixedMask:
        return self

    def is_accepting(self) -> bool:
        return True

    def is_terminated(self) -> bool:
        return False

    def forced_tokens(self) -> list[int]:
        return []

    def validate(self, token_ids: Sequence[int]) -> int:
        return len(token_ids)


def scheduler_step(
    settings: Mapping[str, Any], logits: Any, prompt: Sequence[int], mask: np.ndarray | None, order: str
) -> Work:
    """A step of a scheduler with one request per row of `logits` [rows, vocab]."""
    scheduler = Scheduler(logits.shape[1], eos_token_ids=[0])
    for row in range(len(logits)):
        grammar = None if mask is None else FixedMask(mask[row])
        params = SamplingParams(seed=SEED + row, ignore_eos=mask is None, order=order, **settings)
        scheduler.add(params, prompt, grammar=grammar)
    return Work(lambda: scheduler.step(logits))
