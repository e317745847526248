"""What a rank answers about the requests that it owns, and the `StepResult` that all answers make."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from engine_sampler import GivenLogprobs, Logprobs, Record, SamplingMask, StepResult
from engine_sampler.for_backends import PerRow, entries_at_end, entries_of, entries_said, put_entry

from ..exchange import bytes_in, words_of
from .ledger import StepPlan

Result = TypeVar("Result", bound=StepResult)

_HEAD = 2
"""Words before the tokens: whether the rank is sound, and how many bytes of details there are."""
_ROOM = 64
_ROOM_FOR_TEXT = 32
"""Bytes of room for each request's text, and for everything else: what usually suffices."""
_ROOM_FOR_MASK = 96
_ROOM_FOR_NAMED = 40
_ROOM_FOR_TABLES = 512
"""The same for a row of a sampling mask, for a named token of a row, and for the tables of these as such."""


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

    @classmethod
    def of(cls, result: StepResult, has_text: bool) -> RankAnswer:
        """A result of this rank's scheduler as the answer about its rows."""
        return cls(result.token_ids, np.array(result.seeds, np.uint64), Details.of(result, has_text))

    @classmethod
    def empty(cls, requests: int, rows: int) -> RankAnswer:
        """Nothing about so many requests and rows."""
        return cls(np.full(rows, -1, np.int64), np.zeros(requests, np.uint64), Details())

    def spread(self, which: np.ndarray, rows: np.ndarray, requests: int, all_rows: int) -> RankAnswer:
        """The same among more requests and rows: these have the numbers `which` and `rows`, int64, there."""
        whole = RankAnswer.empty(requests, all_rows)
        whole.token_ids[rows], whole.seeds[which] = self.token_ids, self.seeds
        return replace(whole, details=self.details.moved(which, rows), is_on_device=self.is_on_device)

    def tell_end(self, i: int, record: Record | None) -> None:
        """Request number i is not in this rank's scheduler: it ended as its record says, or is removed."""
        told = entries_at_end(StepResult, record)
        self.seeds[i] = told.pop("seeds")
        for name, entry in told.items():
            self.details.of_requests.setdefault(name, {})[i] = entry

    def write(self, result: StepResult, which: np.ndarray, rows: np.ndarray) -> None:
        """Put everything but tables of rows into the result of all ranks, in which these requests and rows
        have the numbers `which` and `rows`, int64."""
        result.token_ids[rows] = self.token_ids
        for i, seed in zip(which.tolist(), self.seeds.tolist(), strict=True):
            result.seeds[i] = seed
        details = self.details.moved(which, rows)
        ids = {
            name: {i: result.request_ids[other] for i, other in others.items()}
            for name, others in details.ids.items()
        }
        for fields_said in (details.of_requests, details.of_rows, ids):
            for name, entries in fields_said.items():
                for i, entry in entries.items():
                    put_entry(result, name, i, entry)


Entries = dict[str, dict[int, Any]]
"""Entries of fields of a result, by the field's name and the number of the request or row."""


@dataclass(eq=False)
class Details:
    """The parts of an answer that differ in size: what a result says that another one does not which knows
    nothing. Fields that somebody adds to `StepResult` are among them.

    of_requests, of_rows  what it says of them; entries are plain values of JSON.
    ids       the same where it names other requests: by their numbers.
    skipped   the numbers of the requests that had left before the step.
    logprobs  by mode; "" if the rows are in one table, whatever their modes are.
    sampling_mask, given_logprobs  as in the result.
    rows      the numbers of the rows that these tables have; None: all.
    """

    of_requests: Entries = field(default_factory=dict)
    of_rows: Entries = field(default_factory=dict)
    ids: Entries = field(default_factory=dict)
    skipped: list[int] = field(default_factory=list)
    logprobs: dict[str, Logprobs] = field(default_factory=dict)
    sampling_mask: SamplingMask | None = None
    given_logprobs: GivenLogprobs | None = None
    rows: list[int] | None = None

    @classmethod
    def of(cls, result: StepResult, has_text: bool) -> Details:
        """What a result says, but for its tokens and seeds."""
        details = cls(skipped=list(result.skipped))
        details.sampling_mask, details.given_logprobs = result.sampling_mask, result.given_logprobs
        if result.logprobs is not None:
            details.logprobs = dict(result.logprobs.by_mode)
        ids, rows = result.request_ids, len(result.token_ids)
        places = {request_id: i for i, request_id in enumerate(ids)}
        blank = blank_result(type(result), ids, rows, result.first_rows, [""] * len(ids) if has_text else ())
        for name, entries in entries_said(result, blank).items():
            of = entries_of(type(result))[name]
            if name in _IN_WORDS:
                continue
            if isinstance(of, PerRow):
                details.of_rows[name] = entries
            elif of.is_id:
                details.ids[name] = {i: places[request_id] for i, request_id in entries.items()}
            else:
                details.of_requests[name] = entries
        return details

    def moved(self, which: np.ndarray, rows: np.ndarray) -> Details:
        """The same about requests and rows that have the numbers `which` and `rows`, int64."""
        to, row_to = which.tolist(), rows.tolist()
        return Details(
            {name: {to[i]: e for i, e in entries.items()} for name, entries in self.of_requests.items()},
            {name: {row_to[i]: e for i, e in entries.items()} for name, entries in self.of_rows.items()},
            {name: {to[i]: to[other] for i, other in others.items()} for name, others in self.ids.items()},
            [to[i] for i in self.skipped],
            self.logprobs,
            self.sampling_mask,
            self.given_logprobs,
            row_to if self.rows is None else [row_to[row] for row in self.rows],
        )

    def packed(self) -> bytes:
        """As bytes; b"" if there is nothing to say."""
        parts = {"of_requests": self.of_requests, "of_rows": self.of_rows, "ids": self.ids}
        said: dict[str, Any] = {
            part: {name: [[*entries], [*entries.values()]] for name, entries in fields_said.items()}
            for part, fields_said in parts.items()
            if fields_said
        }
        if self.skipped:
            said["skipped"] = self.skipped
        if self.logprobs:
            said["logprobs"] = [(mode, len(t.entry_token_ids)) for mode, t in self.logprobs.items()]
        said |= {name: table.to_dict() for name in _TABLES if (table := getattr(self, name)) is not None}
        if self.rows is not None and (self.logprobs or said.keys() & _TABLES.keys()):
            said["rows"] = self.rows
        if not said:
            return b""
        text = json.dumps(said, ensure_ascii=False, separators=(",", ":"), default=str)
        arrays = [array.tobytes() for table in self.logprobs.values() for array in _arrays_of(table)]
        return b"\0".join([text.encode("utf-8", "surrogatepass"), b"".join(arrays)])

    @classmethod
    def unpacked(cls, blob: bytes, rows: int) -> Details:
        """From `packed` bytes, for this many rows."""
        if not blob:
            return cls()
        text, _, arrays = blob.partition(b"\0")
        said = json.loads(text.decode("utf-8", "surrogatepass"))
        details, begin = cls(skipped=said.pop("skipped", []), rows=said.pop("rows", None)), 0
        rows = rows if details.rows is None else len(details.rows)
        for name in _TABLES.keys() & said.keys():
            setattr(details, name, _TABLES[name].from_dict(said.pop(name)))
        for mode, entries in said.pop("logprobs", ()):
            details.logprobs[mode], begin = _table_in(arrays, begin, rows, entries)
        for part, fields_said in said.items():
            found = {name: dict(zip(*entries, strict=True)) for name, entries in fields_said.items()}
            setattr(details, part, found)
        return details


_TABLES: dict[str, Any] = {"sampling_mask": SamplingMask, "given_logprobs": GivenLogprobs}
"""The tables of rows that travel as JSON, which few requests want."""

_IN_WORDS = "token_ids", "seeds"
"""The fields of a result that have places of their own in an answer."""


def blank_result(
    kind: type[Result],
    request_ids: Sequence[Any],
    rows: int,
    first_rows: np.ndarray,
    text: Sequence[str | None],
) -> Result:
    """The result of a step that knows nothing of its requests but what they have for `text`; () for none."""
    n = len(request_ids)
    return kind(
        token_ids=np.full(rows, -1, np.int64),
        first_rows=first_rows.copy(),
        request_ids=[*request_ids],
        text=[*text] or [None] * n,
        finish_reasons=[None] * n,
        stop_reasons=[None] * n,
        errors=[None] * n,
        seeds=[0] * n,
        parent_ids=[*request_ids],
    )


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
    room, room_for_tables = _ROOM + has_text * _ROOM_FOR_TEXT * len(which), 0
    for i in which:
        entry = plan.entries[i]
        if entry.logprobs_modes:
            top_n: int = entry.params["logprobs"]
            listed = vocab_size if top_n < 0 else min(top_n, vocab_size)
            room += int(plan.counts[i]) * len(entry.logprobs_modes) * (16 + 8 * listed) + 64
        if (wants := entry.details) is not None:
            named = len(wants.given_ids) * (len(wants.modes) + (len(wants.modes) > 1))
            room += int(plan.counts[i]) * (_ROOM_FOR_MASK * bool(wants.mask_cap) + _ROOM_FOR_NAMED * named)
            room_for_tables = _ROOM_FOR_TABLES
    return room + room_for_tables + 7
