"""What a completion of llama-cpp-python passes in: its ids, and logits that lie in llama.cpp's memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np


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


def logits_in_context(llm: Any, input_ids: np.ndarray, scores: np.ndarray) -> np.ndarray | None:
    """The logits after the last token of `llm`, float32 [vocab] in llama.cpp's own memory; None unless they
    are those in llama.cpp's array of candidates, `scores`."""
    if llm is None or not np.may_share_memory(input_ids, llm.input_ids):
        return None
    import llama_cpp as lib  # type: ignore[import-not-found,unused-ignore]

    pointer = lib.llama_get_logits_ith(llm.ctx, -1)
    if not pointer:
        return None
    size = len(scores)
    memory: Any = (ctypes.c_float * size).from_address(ctypes.addressof(pointer.contents))
    row = np.frombuffer(memory, np.float32)
    looked_at = (0, size // 3, size // 2, size - 1)
    return row if all(row[i] == scores[i] for i in looked_at) else None
