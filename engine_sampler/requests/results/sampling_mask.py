"""`SamplingMask`: the tokens from which each row of a step was drawn, for training that replays the draws."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.errors import quoted
from ...base.plain_json import VERSION, reading
from ...contract import ParameterError
from .packing import PackedIds, packed_ids, unpacked_ids


@dataclass(frozen=True, eq=False)
class SamplingMask:
    """The tokens that were left after the whole chain, row by row, and the logprob of the one that was drawn.

    token_ids    int32 [entries], the listed ids of row after row, ascending within each.
    offsets      int64 [rows + 1]: row r lists token_ids[offsets[r] : offsets[r + 1]].
    is_inverted  bool [rows]: the listed ids are those that were *removed*, all others survived. So are rows
                 listed of which more than half of the vocabulary survived; none is listed if all of it did.
    is_capped    bool [rows]: nothing is listed, since that would be more ids than the request allows.
    logprobs     float32 [rows], the processed logprob of the drawn token: ln of its share among the
                 survivors, as `logprobs_mode="processed"` reports it. NaN in a row without a draw.
    vocab_size   the number of tokens.

    A row of which the step says nothing lists no id and has no flag: it gave no token, or its request has no
    `return_sampling_mask`. Objects are equal only to themselves: compare the arrays.
    """

    token_ids: np.ndarray
    offsets: np.ndarray
    is_inverted: np.ndarray
    is_capped: np.ndarray
    logprobs: np.ndarray
    vocab_size: int

    @classmethod
    def of(
        cls, listed: Sequence[np.ndarray], flags: Mapping[str, Any], logprobs: Any, vocab_size: int
    ) -> SamplingMask:
        """The rows that list the ids `listed`, [int [m], …]; `flags` has `is_inverted` and `is_capped`."""
        offsets = np.zeros(len(listed) + 1, np.int64)
        np.cumsum([len(ids) for ids in listed], out=offsets[1:])
        ids = np.concatenate([np.empty(0, np.int32), *listed]).astype(np.int32, copy=False)
        return cls(
            ids,
            offsets,
            np.asarray(flags["is_inverted"], bool),
            np.asarray(flags["is_capped"], bool),
            np.asarray(logprobs, np.float32),
            vocab_size,
        )

    @classmethod
    def concatenate(cls, masks: Sequence[SamplingMask]) -> SamplingMask:
        """The rows of all `masks`, one or more of one vocabulary, in order. Raises `ParameterError`."""
        sizes = {mask.vocab_size for mask in masks}
        if len(sizes) != 1:
            raise ParameterError(
                f"masks of the vocabulary sizes {sorted(sizes)} are not allowed: one or more, of one size"
            )
        begins = np.cumsum([0, *(len(mask.token_ids) for mask in masks)])
        return cls(
            np.concatenate([mask.token_ids for mask in masks]),
            np.concatenate(
                [[0], *(mask.offsets[1:] + begin for mask, begin in zip(masks, begins, strict=False))]
            ),
            np.concatenate([mask.is_inverted for mask in masks]),
            np.concatenate([mask.is_capped for mask in masks]),
            np.concatenate([mask.logprobs for mask in masks]),
            sizes.pop(),
        )

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.logprobs)

    @property
    def is_whole(self) -> np.ndarray:
        """bool [rows]: every token of the vocabulary survived."""
        whole: np.ndarray = self.is_inverted & (self.offsets[1:] == self.offsets[:-1])
        return whole

    def listed(self, row: int) -> np.ndarray:
        """int32 [m], the ids that a row lists: those that survived, or those removed if it is inverted."""
        return self.token_ids[self.offsets[row] : self.offsets[row + 1]]

    def row(self, row: int) -> np.ndarray | None:
        """int32 [m], the ids that survived in a row, ascending; None if they are not known (`is_capped`).
        Empty in a row of which the step says nothing."""
        if self.is_capped[row]:
            return None
        listed = self.listed(row)
        if not self.is_inverted[row]:
            return listed
        survives = np.ones(self.vocab_size, bool)
        survives[listed] = False
        return np.flatnonzero(survives).astype(np.int32)

    def rows(self, indices: Any) -> SamplingMask:
        """The rows at `indices`, in that order: integers, or bool [rows]."""
        which = np.arange(len(self))[indices if isinstance(indices, np.ndarray) else list(indices)]
        listed = [self.listed(row) for row in which.tolist()]
        flags = {"is_inverted": self.is_inverted[which], "is_capped": self.is_capped[which]}
        return SamplingMask.of(listed, flags, self.logprobs[which], self.vocab_size)

    def to_dict(self) -> dict[str, Any]:
        """As JSON, which `from_dict` reads: the arrays as text in base64, the ids packed. An id takes one
        byte if fewer than 128 lie between it and the one before, else two or three; a row of very many ids
        takes a bit for each token of the vocabulary."""
        packed = packed_ids(self.token_ids, self.offsets, self.vocab_size)
        return {
            "version": VERSION,
            "vocab_size": self.vocab_size,
            "rows": len(self),
            "flags": _text(np.packbits([self.is_inverted, self.is_capped])),
            "logprobs": _text(self.logprobs.astype("<f4")),
            **{name: _text(array) for name, array in packed._asdict().items()},
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> SamplingMask:
        """The masks that `to_dict` has written, with the same bits. Raises `ParameterError` for anything
        else."""
        with reading(cls, state):
            rows, vocab_size = _count(state["rows"]), _count(state["vocab_size"])
            packed = PackedIds(*(_array(state[name], np.uint8) for name in PackedIds._fields))
            flags = np.unpackbits(_array(state["flags"], np.uint8))[: 2 * rows].reshape(2, rows)
            logprobs = _array(state["logprobs"], "<f4").astype(np.float32)
            token_ids, offsets = unpacked_ids(packed, rows, vocab_size)
            if len(logprobs) != rows:
                raise ValueError(f"{len(logprobs)} logprobs")
        return cls(token_ids, offsets, flags[0] > 0, flags[1] > 0, logprobs, vocab_size)


def _text(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**31:
        raise ValueError(f"{quoted(value)} is no count")
    return value


def _array(text: str, dtype: Any) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype)
