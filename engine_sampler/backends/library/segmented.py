"""Chains run in segments: some on a library, the others on the host, with exactly the same rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...arithmetic import LOGIT_LIMIT, LogitRows
from ...contract import Batch, Chain, Group, Sampler, Selector
from ...samplers.greedy import Greedy
from ..host_run import HostRun, members_of
from .call_rows import Entry
from .calls import Call
from .declined import Fallback
from .partition import Segment
from .session import LibrarySession, Parts
from .tensor import layout_of

_GREEDY = Greedy()


def chain_of(parts: Parts) -> Chain:
    """`parts` as a chain; without a selector at their end, the best token is chosen."""
    samplers = tuple(part for part in parts if isinstance(part, Sampler))
    selector = parts[-1] if parts and isinstance(parts[-1], Selector) else _GREEDY
    return Chain(samplers, selector)


def plain_rows(values: np.ndarray) -> np.ndarray:
    """bool [n]: rows of float32 `values` [n, vocab] that are valid as raw logits. An edit can give any
    finite number; raw logits above 2^100 are refused, and those below −2^100 read as −inf."""
    low = ((values < -LOGIT_LIMIT) & (values > -np.inf)).any(axis=1)
    plain: np.ndarray = (values.max(axis=1) <= LOGIT_LIMIT) & ~low
    return plain


def new_batch(logits: LogitRows, group: Group, bitmask: np.ndarray | None = None) -> Batch:
    """A batch of one group."""
    n = len(logits)
    return Batch(logits, [group], np.full(n, -1, np.int64), np.full(n, np.nan), [None] * n, bitmask)


class SegmentedRun:
    """A group whose chain goes through several segments.

    Between two segments its rows are float32 [vocab] arrays. A row that fails in a segment, or that is not
    valid as raw logits between two of them, is run by the host from the beginning.
    """

    def __init__(
        self,
        fallback: Fallback,
        host: HostRun,
        session: LibrarySession,
        group: Group,
        segments: Sequence[Segment],
    ) -> None:
        self._fallback = fallback
        self._host = host
        self._session = session
        self._group = group
        self._segments = segments
        self._is_shared = any(segment.parts and segment.number is None for segment in segments)
        """Whether the host runs parts of the chain."""

    def run(self, batch: Batch) -> None:
        """Fill `batch` for the group."""
        group, size = self._group, self._group.rows.vocabulary.size
        logits, index, bitmask = batch.logits, group.index, batch.bitmask
        members = np.arange(len(index))
        wants_rows = group.want_processed or batch.processed is not None
        for segment in self._segments:
            wants_survivors = wants_rows or segment is not self._segments[-1]
            part, ended = self._run_segment(segment, logits, index, members, bitmask, wants_survivors)
            if ended:
                errors = dict(zip(index.tolist(), group.index[members].tolist(), strict=True))
                for row in ended:
                    batch.errors[errors[row]] = part.errors[row]
            done = np.array([part.errors[row] is None for row in index.tolist()], bool)
            members, index = members[done], index[done]
            if segment is self._segments[-1]:
                _store(batch, group.index[members], part, index)
                break
            values = _dense(part, index, size)
            plain = plain_rows(values)
            members = members[plain]
            if not len(members):
                break
            logits, bitmask = (
                LogitRows(values[plain], size),
                None if bitmask is None else bitmask[index[plain]],
            )
            index = np.arange(len(members))
        ended_rows = np.array([batch.errors[row] is not None for row in group.index.tolist()], bool)
        rest = np.setdiff1d(np.flatnonzero(~ended_rows), members)
        if len(rest):
            self._host.run(batch, [members_of(group, rest)], "declined")
        if self._is_shared:
            self._host.count(batch, group.index.tolist(), "unsupported")

    def _run_segment(
        self,
        segment: Segment,
        logits: LogitRows,
        index: np.ndarray,
        members: np.ndarray,
        bitmask: np.ndarray | None,
        wants_survivors: bool,
    ) -> tuple[Batch, list[int]]:
        """Run one segment on the rows `index` of `logits`, which belong to the requests `members` of the
        group. Returns the batch, and which of its rows the library has ended."""
        group = Group(
            chain_of(segment.parts),
            index,
            self._group.rows.take(members),
            self._group.masked and bitmask is not None,
            wants_survivors,
        )
        part = new_batch(logits, group, bitmask)
        if segment.number is None or self._fallback.lost:
            self._host.run(part, part.groups, None)
            return part, []
        entry = Entry(group, segment.parts, segment.number)
        layout = layout_of(logits, group.rows.vocabulary.size)
        call = Call(self._session, self._fallback, self._host, [entry], layout, segment.max_rows)
        call.run(part)
        return part, call.ended


def _dense(batch: Batch, index: np.ndarray, vocab_size: int) -> np.ndarray:
    """The survivors of the rows `index` as float32 [n, vocab]."""
    values = np.full((len(index), vocab_size), -np.inf, np.float32)
    for out, row in zip(values, index.tolist(), strict=True):
        ids, logits = batch.survivors[row]
        out[ids] = logits
    return values


def _store(batch: Batch, rows: np.ndarray, part: Batch, index: np.ndarray) -> None:
    """Copy the results of the rows `index` of `part` into the rows `rows` of `batch`."""
    if batch.processed is not None:
        batch.processed[rows] = _dense(part, index, batch.processed.shape[1])
        return
    batch.token_ids[rows] = part.token_ids[index]
    batch.notes[rows] = part.notes[index]
    for row, i in zip(rows.tolist(), index.tolist(), strict=True):
        if i in part.survivors:
            batch.survivors[row] = part.survivors[i]
