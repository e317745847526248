"""`Candidates`: a processed row as llama.cpp's samplers see it, token by token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine_sampler.arithmetic import descending
from engine_sampler.for_bridges import array_of, integer_of, not_allowed

_ROW = "one row without NaN and +inf"


@dataclass(frozen=True)
class Candidates:
    """The surviving tokens of one row: llama.cpp's `llama_token_data_array`.

    ids       int32 [n], token ids.
    logits    float32 [n].
    p         float32 [n], the softmax of `logits`, computed in float64.
    sorted    whether the order is (logit descending, id ascending); otherwise ids are ascending.
    selected  the index of the chosen token among the candidates, −1 for none.
    """

    ids: np.ndarray
    logits: np.ndarray
    p: np.ndarray
    sorted: bool
    selected: int

    def __len__(self) -> int:
        return len(self.ids)


def candidates(
    logits_row: np.ndarray, *, selected_token_id: int | None = None, sort: bool = False
) -> Candidates:
    """The tokens of a processed float32 row [vocab] that are not −inf.

    Raises ValueError for NaN or +inf, and for a `selected_token_id` that is not among the survivors.
    """
    row = array_of("logits_row", logits_row, "fiu", 1, _ROW).astype(np.float32, copy=False)
    if not (row < np.inf).all():
        raise not_allowed("logits_row", logits_row, _ROW)
    if selected_token_id is not None:
        integer_of("selected_token_id", selected_token_id)
    ids = np.flatnonzero(row > -np.inf)
    if sort:
        ids = ids[descending(row[ids])]
    return Candidates(
        ids=ids.astype(np.int32),
        logits=row[ids],
        p=_softmax(row[ids]),
        sorted=sort,
        selected=-1 if selected_token_id is None else _index_of(ids, selected_token_id),
    )


def _softmax(logits: np.ndarray) -> np.ndarray:
    if not len(logits):
        return logits.copy()
    weights = np.exp(logits.astype(np.float64) - float(logits.max()))
    return (weights / weights.sum()).astype(np.float32)


def _index_of(ids: np.ndarray, token_id: int) -> int:
    indices = np.flatnonzero(ids == token_id)
    if not len(indices):
        raise ValueError(f"selected_token_id={token_id} is not allowed: one of the {len(ids)} survivors")
    return int(indices[0])
