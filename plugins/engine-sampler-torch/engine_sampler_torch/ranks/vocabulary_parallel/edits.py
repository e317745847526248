"""Edits of single tokens, applied by the rank that holds them: logit_bias and penalties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine_sampler import ParameterError, SamplingParams, Vocabulary
from engine_sampler.arithmetic import FLT_MAX
from engine_sampler.for_backends import PenaltyWindows, build_chain, default_registry

from .arithmetic import edited


@dataclass(frozen=True, eq=False)
class SparseEdits:
    """Values for single tokens of single rows, each token at most once in a row.

    rows, columns  int64 [e]; columns count from the rank's first token.
    values         float32 [e].
    """

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, parts: Sequence[tuple[int, np.ndarray, np.ndarray]], columns: range) -> SparseEdits:
        """From (row, token ids, values) of whole rows: those of this rank's `columns`."""
        rows, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        kept = [np.empty(0, np.float32)]
        for row, ids, values in parts:
            own = np.flatnonzero((ids >= columns.start) & (ids < columns.stop))
            rows.append(np.full(len(own), row))
            places.append(ids[own] - columns.start)
            kept.append(values[own])
        return cls(np.concatenate(rows), np.concatenate(places), np.concatenate(kept))

    def apply(self, logits: Tensor, formula: Callable[[Tensor, Tensor], Tensor]) -> None:
        """Change `logits` [n, columns] in place to formula(logit, value), clamped to ±FLT_MAX; removed tokens
        stay removed."""
        if len(self.rows):
            arrays = (self.rows, self.columns, self.values)
            rows, columns, values = (torch.from_numpy(array).to(logits.device) for array in arrays)
            before = logits[rows, columns]
            logits[rows, columns] = edited(formula(before, values), before)

    def remove(self, logits: Tensor) -> None:
        """Remove the tokens whose value is −inf."""
        gone = self.values == -np.inf
        if gone.any():
            rows, columns = (torch.from_numpy(a[gone]).to(logits.device) for a in (self.rows, self.columns))
            logits[rows, columns] = -torch.inf


def biased(logits: Tensor, biases: Tensor) -> Tensor:
    """l + b."""
    return logits + biases


def divided(logits: Tensor, q: Tensor) -> Tensor:
    """The repetition penalty: l / q above 0, else l·q."""
    return torch.where(logits > 0, logits / q, logits * q)


def lowered(logits: Tensor, shifts: Tensor) -> Tensor:
    """The frequency and presence penalties: l − shift."""
    return logits - shifts


def bias_edits(params: Sequence[SamplingParams], vocabulary: Vocabulary, columns: range) -> SparseEdits:
    """The edits of logit_bias."""
    parts = []
    for row, own in enumerate(params):
        for sampler in build_chain(own).samplers:
            if sampler.name == "logit_bias":
                parts.append((row, *sampler.resolve(own, vocabulary)))
    return SparseEdits.of(parts, columns)


@dataclass(frozen=True, eq=False)
class Penalized:
    """The penalties of one row, and the tokens that they count."""

    params: SamplingParams
    exempt: np.ndarray
    windows: PenaltyWindows

    def extend(self, token_id: int) -> None:
        """Count one token more."""
        self.windows.repeated.extend([token_id])
        self.windows.counted.extend([token_id])

    def counted(self) -> list[np.ndarray]:
        """The tokens with their counts, ids first."""
        windows = self.windows.repeated, self.windows.counted
        return [array for window in windows for array in (window.ids, window.counts)]

    def factors(self) -> tuple[np.ndarray, np.ndarray]:
        """(ids, q): what the repetition penalty divides by."""
        ids = self._penalized(self.windows.repeated.ids)[0]
        q = np.minimum(self.params["repetition_penalty"], FLT_MAX)
        return ids, np.full(len(ids), q, np.float64).astype(np.float32)

    def shifts(self) -> tuple[np.ndarray, np.ndarray]:
        """(ids, shift): what the frequency and presence penalties subtract."""
        ids, which = self._penalized(self.windows.counted.ids)
        counts = self.windows.counted.counts[which]
        shift = counts * self.params["frequency_penalty"] + self.params["presence_penalty"]
        return ids, np.asarray(shift, np.float64).astype(np.float32)

    def _penalized(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        which = np.flatnonzero(~np.isin(ids, self.exempt))
        return ids[which], which


def penalty_windows(
    params: Sequence[SamplingParams],
    vocabulary: Vocabulary,
    prompts: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
) -> dict[int, Penalized]:
    """The penalties of the rows that have any, by row."""
    penalized = {}
    for row, own in enumerate(params):
        for sampler in build_chain(own).samplers:
            if sampler.name != "penalties":
                continue
            if not default_registry().is_built_in(sampler):
                raise ParameterError(f"the sampler penalties of {type(sampler).__name__} is not allowed here")
            windows = sampler.new_state(own, prompts[row])
            sampler.accept(windows, outputs[row].tolist())
            penalized[row] = Penalized(own, sampler.resolve(own, vocabulary)[1], windows)
    return penalized


def penalty_edits(windows: dict[int, Penalized], columns: range) -> tuple[SparseEdits, SparseEdits]:
    """The edits of the repetition penalty, and those of the frequency and presence penalties."""
    factors = [(row, *own.factors()) for row, own in windows.items()]
    shifts = [(row, *own.shifts()) for row, own in windows.items()]
    return SparseEdits.of(factors, columns), SparseEdits.of(shifts, columns)
