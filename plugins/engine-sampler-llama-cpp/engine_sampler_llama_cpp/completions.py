"""What a completion of llama-cpp-python knows: its ids, and logits that lie in llama.cpp's memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .library import library


class KnownIds:
    """The ids of a completion, intc, which are compared with those that are passed in for every token: in a
    long text, lists of them would take longer than the draw."""

    def __init__(self, ids: Sequence[int] | np.ndarray = ()) -> None:
        self._length = len(ids)
        self._ids = np.empty(2 * self._length + 64, np.intc)
        self._ids[: self._length] = ids

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: slice) -> np.ndarray:
        return self._ids[: self._length][index]

    def append(self, token_id: int) -> None:
        if self._length == len(self._ids):
            self._ids = np.concatenate([self._ids, np.empty_like(self._ids)])
        self._ids[self._length] = token_id
        self._length += 1

    def begin(self, ids: np.ndarray) -> bool:
        """Whether `ids` [length] go on from these."""
        length = self._length
        return len(ids) >= length and bool((ids[:length] == self._ids[:length]).all())


class DirectSampler:
    """Takes the place of a completion's sampler, a `LlamaSampler`, in llama-cpp-python: it chooses from the
    logits where they lie. llama.cpp would first fill an array with an entry for each token, of which
    llama-cpp-python would copy the logits for a processor, and then copy its answer back.

    choose  gives the next token after ids intc [length], from float32 [vocab].
    """

    def __init__(self, llm: Any, choose: Callable[[np.ndarray, np.ndarray], int]) -> None:
        self._llm, self._choose = llm, choose
        self._row_type = ctypes.c_float * llm.n_vocab()

    def sample(self, context: Any, index: int = -1) -> int:
        lib = library()

        logits = lib.llama_get_logits_ith(context.ctx, index)
        memory: Any = self._row_type.from_address(ctypes.addressof(logits.contents))
        llm = self._llm
        return self._choose(llm.input_ids[: llm.n_tokens], np.frombuffer(memory, np.float32))
