"""Live requests of a case, to try how a sampler's state follows their tokens."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..contract import Rows
from .cases import Case
from .single import open_slots, settings

if TYPE_CHECKING:
    from .laws import Contract


class Live:
    """The requests of `case`; in their chains only the sampler of `kit` stands."""

    def __init__(self, kit: Contract, case: Case) -> None:
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
        """What the sampler makes of the case's logits now: floats [n, k]."""
        return self._kit.outcome(self._case.logits, self.rows)

    def walk(self, steps: int) -> list[np.ndarray]:
        """Go on by `steps` tokens; the outcome before each of them."""
        outcomes = []
        for _ in range(steps):
            outcomes.append(self.outcome())
            token_ids, notes = self._kit.accepted(outcomes[-1], self.rows)
            self.accept(token_ids[:, None], notes[:, None])
        return outcomes

    def accept(self, token_ids: np.ndarray, notes: np.ndarray | None = None) -> None:
        """Add `token_ids` [n, k] to the outputs, with the selector's `notes` [n, k]."""
        for i, slot in enumerate(self._index.tolist()):
            self._slots.accept(slot, token_ids[i].tolist(), () if notes is None else notes[i].tolist())

    def rollback(self, n: int) -> None:
        """Take the last `n` tokens of every request back."""
        for slot in self._index.tolist():
            self._slots.rollback(slot, n)

    def fork(self, seeds: Sequence[int]) -> Live:
        """A child of every request, with a seed of its own."""
        child = copy.copy(self)
        child._index = np.array(
            [
                self._slots.put(self._slots.entries[slot].fork(), settings(self._kit.part, given), seed)
                for slot, given, seed in zip(self._index.tolist(), self._case.params, seeds, strict=True)
            ]
        )
        return child

    def reseed(self, seeds: Sequence[int]) -> None:
        """Go on with other seeds."""
        self._slots.seeds[self._index] = np.array(seeds, np.uint64)
