"""What a rank answers about the requests that it owns, and the `StepResult` that all answers make."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine_sampler import Logprobs

from ..exchange import bytes_in, words_of
from .ledger import StepPlan

_HEAD = 2
"""Words before the tokens: whether the rank is sound, and how many bytes of details there are."""
_ROOM = 64
_ROOM_FOR_TEXT = 32
"""Bytes of room for each request's text, and for everything else: what usually suffices."""


@dataclass(frozen=True, eq=False)
class RankAnswer:
    """One rank's part of a step, over the rows and requests that it owns.

    token_ids  int64 [rows], −1 where a row gave no token.
    seeds      uint64 [requests].
    details    the rest, of which there may be any amount: see `Details`.
    is_on_device  whether the tokens are those that a begun step has left on the device.
    """

    token_ids: np.ndarray
    seeds: np.ndarray
    details: Details
    is_on_device: bool = False

    def spread(self, which: np.ndarray, rows: np.ndarray, requests: int, all_rows: int) -> RankAnswer:
        """The same among more requests and rows: these have the numbers `which` and `rows`, int64, there."""
        token_ids, seeds = np.full(all_rows, -1, np.int64), np.zeros(requests, np.uint64)
        token_ids[rows], seeds[which] = self.token_ids, self.seeds
        details = self.details.spread(which.tolist(), rows, requests, all_rows)
        return RankAnswer(token_ids, seeds, details, self.is_on_device)


@dataclass(frozen=True, eq=False)
class Details:
    """The parts of an answer that differ in size, in the terms of `StepResult`.

    text      of every request; empty if no request has any, or none has any more.
    ends      index → (finish reason, stop reason, error), of the requests that have ended.
    parents   index → index of the request whose cache it continues, of those that continue another one.
    skipped   the indices of those that had left before the step.
    phase_tokens  index → the tokens of its phases, of those of which the step tells them.
    logprobs  by mode; "" if the rows are in one table, whatever their modes are.
    """

    text: list[str | None] = field(default_factory=list)
    ends: dict[int, tuple[Any, Any, str | None]] = field(default_factory=dict)
    parents: dict[int, int] = field(default_factory=dict)
    skipped: list[int] = field(default_factory=list)
    phase_tokens: dict[int, dict[str, int]] = field(default_factory=dict)
    logprobs: dict[str, Logprobs] = field(default_factory=dict)

    def spread(self, which: list[int], rows: np.ndarray, requests: int, all_rows: int) -> Details:
        """See `RankAnswer.spread`."""
        text: list[str | None] = [""] * requests if self.text else []
        for place, part in zip(which, self.text, strict=False):
            text[place] = part
        ends = {which[i]: end for i, end in self.ends.items()}
        parents = {which[i]: which[parent] for i, parent in self.parents.items()}
        phase_tokens = {which[i]: counts for i, counts in self.phase_tokens.items()}
        tables = {mode: _spread(table, rows, all_rows) for mode, table in self.logprobs.items()}
        return Details(text, ends, parents, [which[i] for i in self.skipped], phase_tokens, tables)

    def packed(self) -> bytes:
        """As bytes; b"" if there is nothing to say."""
        said: dict[str, Any] = {}
        for part in fields(self):
            if value := getattr(self, part.name):
                said[part.name] = list(value.items()) if isinstance(value, dict) else value
        if self.logprobs:
            said["logprobs"] = [(mode, len(t.entry_token_ids)) for mode, t in self.logprobs.items()]
        if not said:
            return b""
        text = json.dumps(said, ensure_ascii=False, separators=(",", ":"), default=str)
        arrays = [array.tobytes() for table in self.logprobs.values() for array in _arrays_of(table)]
        return b"\0".join([text.encode("utf-8", "surrogatepass"), b"".join(arrays)])

    @classmethod
    def unpacked(cls, blob: bytes, rows: int) -> Details:
        """From `packed` bytes, for this many rows."""
        text, _, arrays = blob.partition(b"\0")
        said = json.loads(text.decode("utf-8", "surrogatepass")) if text else {}
        tables, begin = {}, 0
        for mode, entries in said.pop("logprobs", ()):
            tables[mode], begin = _table_in(arrays, begin, rows, entries)
        ends = {i: tuple(end) for i, end in said.pop("ends", ())}
        parts: dict[str, Any] = {
            name: value if name in ("text", "skipped") else dict(value) for name, value in said.items()
        }
        return cls(**parts, ends=ends, logprobs=tables)


def _spread(table: Logprobs, rows: np.ndarray, count: int) -> Logprobs:
    """A table of `count` rows: `rows` as they are, the others without entries."""
    lengths = np.ones(count, np.int64)
    lengths[rows] = np.diff(table.starts)
    out = Logprobs.with_room(np.concatenate([[0], np.cumsum(lengths)]))
    for own, row in enumerate(rows.tolist()):
        out.fill(row, table.row(own))
    return out


def _arrays_of(table: Logprobs) -> list[np.ndarray]:
    """int32 lengths [rows], int32 ranks [rows], int32 ids [entries], float32 logprobs [entries]."""
    integers = np.diff(table.starts), table.ranks, table.entry_token_ids
    return [*(array.astype(np.int32) for array in integers), table.entry_logprobs]


def _table_in(arrays: bytes, begin: int, rows: int, entries: int) -> tuple[Logprobs, int]:
    """The table that begins there, and where it ends."""
    integers = np.frombuffer(arrays, np.int32, 2 * rows + entries, begin).astype(np.int64)
    lengths, ranks, ids = np.split(integers, [rows, 2 * rows])
    begin += 4 * len(integers)
    values = np.frombuffer(arrays, np.float32, entries, begin)
    return Logprobs(ids, values, np.concatenate([[0], np.cumsum(lengths)]), ranks), begin + 4 * entries


class AnswerLayout:
    """The places of the ranks' answers to one step in int64 [ranks, size], padded to the longest.

    An answer is: 1, as a sign that the rank is sound, or 2 if its tokens are on the device; the number of
    bytes of its details; its tokens; its seeds; and its details, if all ranks' fit into the room there is.
    Otherwise they follow in a message of their own.
    """

    def __init__(self, plan: StepPlan, vocab_size: int, has_text: bool) -> None:
        ranks = range(len(plan.by_owner))
        self._plan = plan
        self._rows = max((int(plan.counts[plan.by_owner[rank]].sum()) for rank in ranks), default=0)
        self._requests = max(len(plan.by_owner[rank]) for rank in ranks)
        self._room = max(_room(plan, rank, vocab_size, has_text) for rank in ranks) // 8 * 8
        self._details_at = _HEAD + self._rows + self._requests
        self.size = self._details_at + self._room // 8

    def words(self, answer: RankAnswer, blob: bytes) -> Tensor:
        """int64 [size]: one rank's answer, with its details as `blob`."""
        words = torch.zeros(self.size, dtype=torch.int64)
        words[0], words[1] = 1 + answer.is_on_device, len(blob)
        seeds_at = _HEAD + self._rows
        words[_HEAD : _HEAD + len(answer.token_ids)] = torch.from_numpy(answer.token_ids)
        words[seeds_at : seeds_at + len(answer.seeds)] = torch.from_numpy(answer.seeds.view(np.int64))
        if blob and len(blob) <= self._room:
            words[self._details_at :] = words_of(blob, self._room // 8)
        return words

    def overflow(self, table: Tensor) -> list[int]:
        """The bytes of each rank's details, if they follow in a message of their own; else []."""
        lengths: list[int] = table[:, 1].tolist()
        return lengths if max(lengths) > self._room else []

    def read(self, table: Tensor, blobs: Sequence[bytes]) -> list[RankAnswer | None]:
        """The answers in int64 `table` [ranks, size], with the `blobs` that followed, if any did; None for a
        rank that has failed."""
        answers: list[RankAnswer | None] = []
        words = table.cpu()
        for rank, row in enumerate(words):
            if not row[0]:
                answers.append(None)
                continue
            rows, requests = len(self._plan.rows_of(rank)), len(self._plan.by_owner[rank])
            blob = blobs[rank] if blobs else bytes_in(row[self._details_at :], int(row[1]))
            seeds_at = _HEAD + self._rows
            token_ids = row[_HEAD : _HEAD + rows].numpy()
            seeds = row[seeds_at : seeds_at + requests].numpy().view(np.uint64)
            answers.append(RankAnswer(token_ids, seeds, Details.unpacked(blob, rows), int(row[0]) == 2))
        return answers


def _room(plan: StepPlan, rank: int, vocab_size: int, has_text: bool) -> int:
    """How many bytes of details a rank usually has, at most."""
    which = plan.by_owner[rank].tolist()
    room = _ROOM + has_text * _ROOM_FOR_TEXT * len(which)
    for i in which:
        entry = plan.entries[i]
        if entry.logprobs_modes:
            top_n: int = entry.params["logprobs"]
            listed = vocab_size if top_n < 0 else min(top_n, vocab_size)
            room += int(plan.counts[i]) * len(entry.logprobs_modes) * (16 + 8 * listed) + 64
    return room + 7
