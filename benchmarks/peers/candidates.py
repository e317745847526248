"""llama.cpp's array of candidates for one row.

Importing this module needs llama_cpp.
"""

from __future__ import annotations

import ctypes

import numpy as np

from tests.parity.llama import TOKEN, LlamaSampler, lib


class Candidates:
    """One row of `vocab_size` tokens in the form that llama.cpp's samplers take and modify."""

    def __init__(self, vocab_size: int) -> None:
        prepared = np.zeros(vocab_size, TOKEN)
        prepared["id"] = np.arange(vocab_size)
        self._prepared_logits = prepared["logit"]
        self._prepared = prepared.view(np.uint8)
        self._tokens = np.empty_like(self._prepared)
        self._data = self._tokens.ctypes.data_as(lib.llama_token_data_p)
        self._size = vocab_size
        self.array = lib.llama_token_data_array()

    def prepare(self, row: np.ndarray) -> None:
        """Keep the logits of `row` [vocab] for the next calls of `fill`."""
        self._prepared_logits[:] = row

    def fill(self) -> None:
        """Fill the array with the prepared row, by one copy."""
        self._tokens[:] = self._prepared
        self.array.data, self.array.size = self._data, self._size
        self.array.selected, self.array.sorted = -1, False

    def apply(self, sampler: LlamaSampler) -> int:
        """Apply a sampler to the array; the id of the token that it chooses, −1 if it chooses none."""
        lib.llama_sampler_apply(sampler.pointer, ctypes.byref(self.array))
        selected = self.array.selected
        return int(self.array.data[selected].id) if selected >= 0 else -1
