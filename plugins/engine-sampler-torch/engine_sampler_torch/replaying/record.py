"""`ReplayRecord`: what a rollout has recorded of one request; `Rollouts`: several as one table of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from engine_sampler import SamplingMask, SamplingParams
from engine_sampler.for_backends import quoted

_MOST_ID = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class ReplayRecord:
    """One request of a rollout, as `replay` needs it.

    params            its `SamplingParams`, or what their `to_dict` gave.
    prompt_token_ids  the prompt, a list or an array of ids.
    output_token_ids  the drawn tokens, in order: row i of the logits predicts the i-th.
    sampling_mask     the `SamplingMask` of these draws, one row for each token of the output.
    """

    params: SamplingParams | Mapping[str, Any]
    prompt_token_ids: Sequence[int] | np.ndarray
    output_token_ids: Sequence[int] | np.ndarray
    sampling_mask: SamplingMask

    @cached_property
    def chosen(self) -> SamplingParams:
        """The parameters. Raises `ParameterError`."""
        return self.params if isinstance(self.params, SamplingParams) else SamplingParams(**self.params)


class Rollouts:
    """The rows of some records, one after the other.

    records  the records.
    outputs  int64 [rows], the drawn tokens.
    prompts  int64 [prompt length] for each record.
    begins   int64 [records + 1], where the rows of each record begin.
    mask     the masks of all rows; `counts` int64 [rows], how many ids each lists.
    is_known  bool [rows], whether it is known what survived: all rows, unless `unknown` is "nan".

    Raises ValueError, which names the record, for what does not belong together.
    """

    def __init__(self, records: Sequence[ReplayRecord], unknown: str) -> None:
        if not records:
            raise ValueError("record=[] is not allowed: a ReplayRecord, or a list of one or more")
        for number, record in enumerate(records):
            if not isinstance(record, ReplayRecord):
                raise ValueError(f"record[{number}]={quoted(record)} is not allowed: a ReplayRecord")
            if not isinstance(record.sampling_mask, SamplingMask):
                got = quoted(record.sampling_mask)
                raise ValueError(f"record[{number}].sampling_mask={got} is not allowed: a SamplingMask")
        self.records = records
        self.mask = SamplingMask.concatenate([record.sampling_mask for record in records])
        self.vocab_size = self.mask.vocab_size
        self.prompts = [self._ids(i, "prompt_token_ids", r.prompt_token_ids) for i, r in enumerate(records)]
        outputs = [self._ids(i, "output_token_ids", r.output_token_ids) for i, r in enumerate(records)]
        for number, (record, output) in enumerate(zip(records, outputs, strict=True)):
            if len(record.sampling_mask) != len(output):
                raise ValueError(
                    f"record[{number}].sampling_mask has {len(record.sampling_mask)} rows for "
                    f"{len(output)} output_token_ids"
                )
        self.begins = np.cumsum([0, *map(len, outputs)])
        self.outputs = np.concatenate(outputs)
        self.counts = np.diff(self.mask.offsets)
        self._check_masks(unknown)

    def __len__(self) -> int:
        return len(self.outputs)

    def of(self, row: int) -> str:
        """A row, in words."""
        number = int(self.record_of(row))
        return f"record[{number}].sampling_mask, row {row - self.begins[number]}"

    def record_of(self, rows: Any) -> Any:
        """The index of the record of each row."""
        return np.searchsorted(self.begins, rows, side="right") - 1

    def _ids(self, number: int, name: str, ids: Any) -> np.ndarray:
        array = np.asarray(ids)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise ValueError(f"record[{number}].{name}={quoted(ids)} is not allowed: a list of token ids")
        wrong = np.flatnonzero((array < 0) | (array >= self.vocab_size))
        if len(wrong):
            raise ValueError(
                f"record[{number}].{name} has the id {array[wrong[0]]}; "
                f"allowed are 0 to {self.vocab_size - 1}, as in its sampling_mask"
            )
        return array.astype(np.int64)

    def _check_masks(self, unknown: str) -> None:
        mask, counts = self.mask, self.counts
        ids = mask.token_ids
        if (counts < 0).any() or mask.offsets[0] != 0 or mask.offsets[-1] != len(ids):
            raise ValueError("sampling_mask.offsets are not allowed: from 0 to the number of ids, ascending")
        row_of = np.repeat(np.arange(len(self)), counts)
        keys = row_of * (_MOST_ID + 1) + ids
        bad = (ids < 0) | (ids >= self.vocab_size) | np.append(False, np.diff(keys) <= 0)
        if bad.any():
            entry = int(np.argmax(bad))
            raise ValueError(
                f"{self.of(row_of[entry])}, has the id {ids[entry]}: ids ascend in the vocabulary"
            )
        self.is_known = ~mask.is_capped & (mask.is_inverted | (counts > 0))
        if unknown == "error" and not self.is_known.all():
            row = int(np.argmin(self.is_known))
            why = "is capped" if mask.is_capped[row] else "is not of a draw"
            raise ValueError(
                f"{self.of(row)}, {why}: what survived is not known; record with return_sampling_mask=-1, "
                'or give unknown="nan"'
            )
        wanted = np.arange(len(self)) * (_MOST_ID + 1) + self.outputs
        found = np.searchsorted(keys, wanted)
        is_listed = np.append(keys, -1)[found] == wanted
        lost = self.is_known & (is_listed == mask.is_inverted)
        if lost.any():
            row = int(np.argmax(lost))
            raise ValueError(f"{self.of(row)}, does not keep the drawn token {self.outputs[row]}")
