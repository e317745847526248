"""The tokens of a step, in arrays that are used again by the next step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class RowOutputs:
    """What a backend has drawn in each of `n` rows: views of one array.

    token_ids  int64 [n], −1 for a row without a token.
    notes      float64 [n], NaN for a row without a note.
    """

    __slots__ = ("_memory", "n", "notes", "token_ids")

    def __init__(self, n: int) -> None:
        self.n = n
        self.renew()

    def renew(self) -> None:
        """Do without the arrays so far, which something faulty has had in its hands."""
        self._memory = np.empty((2, self.n), np.int64)
        self.token_ids = self._memory[0]
        self.notes = self._memory[1].view(np.float64)
        self.clear()

    def clear(self) -> None:
        """Leave all rows without tokens and notes."""
        self._memory.fill(-1)  # whose bits are those of a NaN

    @property
    def are_in_shape(self) -> bool:
        """Whether the arrays are as they were made."""
        return self.token_ids.shape == self.notes.shape == (self.n,)


class DrawnTokens(RowOutputs):
    """The token that each of some requests has drawn.

    slots      int64 [n], the slots of the requests, all different.
    due        bool [n], which of them must be checked, now that they have their tokens.
    addresses  of the arrays, for a library that `Slots` calls with them.
    """

    __slots__ = ("addresses", "due", "slots")

    def __init__(self, slots: np.ndarray) -> None:
        self.slots = slots
        self.due = np.zeros(len(slots), bool)
        super().__init__(len(slots))

    @classmethod
    def of(cls, slots: np.ndarray, token_ids: np.ndarray, notes: np.ndarray) -> DrawnTokens:
        """These tokens, with their notes."""
        draws = cls(slots)
        draws.token_ids[:], draws.notes[:] = token_ids, notes
        return draws

    def renew(self) -> None:
        super().renew()
        self.addresses: Any = None

    def gather(self, outputs: RowOutputs, rows: np.ndarray) -> None:
        """Take over the tokens that `outputs` has in these `rows` [n]."""
        self.token_ids[:] = outputs.token_ids[rows]
        self.notes[:] = outputs.notes[rows]

    def without(self, refused: Sequence[int]) -> tuple[np.ndarray, DrawnTokens]:
        """The indices of the draws that are not `refused`, and a copy of these."""
        kept = np.delete(np.arange(self.n), refused)
        return kept, DrawnTokens.of(self.slots[kept], self.token_ids[kept], self.notes[kept])
