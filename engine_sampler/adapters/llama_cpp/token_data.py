"""`Candidates`: a processed row as llama.cpp's samplers see it, token by token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...arithmetic import descending


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
    row = np.asarray(logits_row, np.float32)
    if row.ndim != 1 or not (row < np.inf).all():
        raise ValueError(f"logits_row of shape {row.shape} is not allowed: one row without NaN and +inf")
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
