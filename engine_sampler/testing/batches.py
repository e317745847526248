"""Batches for testing backends, and their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arithmetic import LogitRows
from ..contract import Backend, Batch, Group, NoTokenLeft


@dataclass
class RowResults:
    """The results of a batch.

    processed  the survivors of each row, for rows that have them.
    """

    token_ids: np.ndarray
    notes: np.ndarray
    errors: list[str | None]
    processed: dict[int, tuple[np.ndarray, np.ndarray]]

    def row(self, i: int) -> tuple[Any, ...]:
        """Row `i` in a form that can be compared; of an error, only of which kind it is: "" for none."""
        ids, logits = self.processed.get(i, (np.empty(0, np.int64), np.empty(0, np.float32)))
        note = None if np.isnan(self.notes[i]) else float(self.notes[i])
        survivors = (np.asarray(ids).tolist(), np.asarray(logits, np.float32).tobytes())
        if (error := self.errors[i]) is not None:
            kind = "no token left" if isinstance(error, NoTokenLeft) else "fault"
            return (-1, None, kind, ([], b""))
        return int(self.token_ids[i]), note, "", survivors

    def described(self, i: int) -> str:
        """Row `i` in words."""
        token, note, failed, _ = self.row(i)
        return f"the error {self.errors[i]!r} ({failed})" if failed else f"token {token} (note {note})"


def new_batch(logits: Any, groups: list[Group], bitmask: np.ndarray | None) -> Batch:
    """A batch of `groups` for logits [rows, ≥ vocab]."""
    n, size = len(logits), groups[0].rows.vocabulary.size
    return Batch(
        LogitRows(logits, size), groups, np.full(n, -1, np.int64), np.full(n, np.nan), [None] * n, bitmask
    )


def run_batch(
    backend: Backend,
    logits: Any,
    groups: list[Group],
    bitmask: np.ndarray | None = None,
    cache: dict[Any, Any] | None = None,
) -> RowResults:
    """One step of `groups` on `backend`."""
    batch = new_batch(logits, groups, bitmask)
    batch.cache = {} if cache is None else cache
    backend.run(batch)
    return results_of(batch)


def results_of(batch: Batch) -> RowResults:
    """The results of a batch that has run."""
    return RowResults(batch.token_ids, batch.notes, batch.errors, batch.survivors)


def on_host(tensor: Any) -> np.ndarray:
    """A tensor of a device, or an array, as an array on the host."""
    return np.asarray(tensor.cpu() if hasattr(tensor, "cpu") else tensor)


def packed(bits: np.ndarray) -> np.ndarray:
    """A bitmask int32 [n, words] from bool [n, vocab]."""
    width = -bits.shape[1] % 32
    padded = np.pad(bits, ((0, 0), (0, width)))
    return np.packbits(padded, axis=1, bitorder="little").view(np.int32)
