"""`LaterOutput`: a history of which samplers see a part of the output as prompt."""

from __future__ import annotations

import numpy as np

from .history import History, Notes, TokenIds, TokenPool


class LaterOutput:
    """A history as samplers see it for which its output begins only at `begin`: what precedes that is prompt.

    whole  the history, to which everything else belongs.
    """

    __slots__ = ("begin", "whole")

    def __init__(self, whole: History, begin: int) -> None:
        self.whole, self.begin = whole, begin

    def __len__(self) -> int:
        return len(self.whole)

    @property
    def slot(self) -> int:
        return self.whole.slot

    @property
    def prompt_length(self) -> int:
        """The length of the prompt itself."""
        return self.whole.prompt_length

    @property
    def output_length(self) -> int:
        return len(self.whole) - self.begin

    @property
    def token_ids(self) -> np.ndarray:
        return self.whole.token_ids

    @property
    def prompt_token_ids(self) -> np.ndarray:
        return self.whole.token_ids[: self.begin]

    @property
    def output_token_ids(self) -> np.ndarray:
        return self.whole.token_ids[self.begin :]

    @property
    def output_notes(self) -> np.ndarray:
        return self.whole.output_notes[self.begin - self.whole.prompt_length :]

    def accept(self, token_ids: TokenIds, notes: Notes = ()) -> None:
        self.whole.accept(token_ids, notes)

    def rollback(self, n: int) -> None:
        self.whole.rollback(n)

    def fork(self) -> LaterOutput:
        return LaterOutput(self.whole.fork(), self.begin)

    def attach(self, pool: TokenPool, slot: int) -> None:
        self.whole.attach(pool, slot)
        pool.output_begins[slot] = self.begin

    def detach(self) -> None:
        self.whole.detach()
