"""Live requests of a case, to test how a sampler's state follows their tokens."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...contract import Rows, Work
from ..cases import Case
from ..single import open_slots, settings


class Live:
    """The requests of `case`, with a chain of only the sampler of the kit, a `Contract`."""

    def __init__(self, kit: Any, case: Case) -> None:
        self._kit, self._case = kit, case
        self._slots, self._index = open_slots(
            kit.part,
            case.params,
            case.vocab_size,
            prompts=case.prompts,
            outputs=case.outputs,
            seeds=case.seeds,
            eos_token_ids=[i for i in kit.eos_token_ids if i < case.vocab_size],
            tokenizer=kit.tokenizer(case.vocab_size),
        )

    @property
    def rows(self) -> Rows:
        return Rows(self._slots, self._index).bind(self._kit.part)

    def outcome(self) -> np.ndarray:
        """The sampler's result for the case's logits now: floats [n, k]."""
        return self._kit.outcome(self._case.logits, self.rows)

    def run(self, steps: int) -> list[np.ndarray]:
        """Continue for `steps` tokens; returns the outcome before each of them."""
        outcomes = []
        for _ in range(steps):
            outcomes.append(self.outcome())
            token_ids, notes = self._kit.accepted(outcomes[-1], self.rows)
            self.accept(token_ids[:, None], notes[:, None])
        return outcomes

    def prepare(self, run: Callable[[Callable[[Work], None]], None]) -> None:
        """Let the sampler prepare for each request; `run` is given the call."""
        for slot in self._index.tolist():
            rows = self._slots.single(slot).bind(self._kit.part)
            run(partial(self._kit.part.prepare, rows))

    def accept(self, token_ids: np.ndarray, notes: np.ndarray | None = None) -> None:
        """Add `token_ids` [n, k] to the outputs, with the selector's `notes` [n, k]."""
        for i, slot in enumerate(self._index.tolist()):
            self._slots.accept(slot, token_ids[i].tolist(), () if notes is None else notes[i].tolist())

    def rollback(self, n: int) -> None:
        """Undo the last `n` tokens of every request."""
        for slot in self._index.tolist():
            self._slots.rollback(slot, n)

    def fork(self, seeds: Sequence[int]) -> Live:
        """A child of every request, with its own seed."""
        child = copy.copy(self)
        child._index = np.array(
            [
                self._slots.put(self._slots.entries[slot].fork(), settings(self._kit.part, given), seed)
                for slot, given, seed in zip(self._index.tolist(), self._case.params, seeds, strict=True)
            ]
        )
        return child

    def reseed(self, seeds: Sequence[int]) -> None:
        """Continue with other seeds."""
        self._slots.seeds[self._index] = np.array(seeds, np.uint64)

    def shift(self, seed: int, position: int) -> None:
        """Continue with other seeds, xor `seed`, and at positions that are `position` higher, with the same
        tokens."""
        self._slots.seeds[self._index] ^= np.uint64(seed)
        self._slots.positions[self._index] += position

    def replace_column(self, name: str, kind: type[np.ndarray]) -> None:
        """Let the values of parameter `name` be an array of type `kind`."""
        self._slots._columns[name] = self._slots.column(name).view(kind)
