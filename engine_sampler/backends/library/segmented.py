"""A chain that changes hands: some segments on a library, the others on the host, row by row exact."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...arithmetic import LOGIT_LIMIT, LogitRows
from ...contract import Batch, Chain, Group, Sampler, Selector
from ...samplers.greedy import Greedy
from ..numpy import NumpyBackend
from .calls import Call, Entry, Fallback, layout_of
from .partition import Segment
from .session import LibrarySession, Parts

_GREEDY = Greedy()


def chain_of(parts: Parts) -> Chain:
    """`parts` as a chain; where they end without a selector, it chooses the best token."""
    samplers = tuple(part for part in parts if isinstance(part, Sampler))
    selector = parts[-1] if parts and isinstance(parts[-1], Selector) else _GREEDY
    return Chain(samplers, selector)


def plain_rows(values: np.ndarray) -> np.ndarray:
    """bool [n]: rows of float32 `values` [n, vocab] that may pass for raw logits. An edit can give any
    finite number; of raw logits those above 2^100 are refused, and those below −2^100 are −inf."""
    low = ((values < -LOGIT_LIMIT) & (values > -np.inf)).any(axis=1)
    plain: np.ndarray = (values.max(axis=1) <= LOGIT_LIMIT) & ~low
    return plain


def new_batch(logits: LogitRows, group: Group, bitmask: np.ndarray | None = None) -> Batch:
    """A batch of one group."""
    n = len(logits)
    return Batch(logits, [group], np.full(n, -1, np.int64), np.full(n, np.nan), [None] * n, bitmask)


class SegmentedRun:
    """A group whose chain goes through several segments.

    Between two of them its rows are float32 [vocab] arrays. A row that fails on the way, or that does
    not pass for raw logits there, is left to the host from its start.
    """

    def __init__(
        self, fallback: Fallback, session: LibrarySession, group: Group, segments: Sequence[Segment]
    ) -> None:
        self._fallback = fallback
        self._session = session
        self._group = group
        self._segments = segments
        self._host = NumpyBackend()

    def run(self, batch: Batch) -> None:
        """Fill `batch` for the group."""
        group, size = self._group, self._group.rows.vocabulary.size
        logits, index, bitmask = batch.logits, group.index, batch.bitmask
        places = np.arange(len(index))
        for segment in self._segments:
            leg = self._run_segment(segment, logits, index, places, bitmask)
            done = np.array([leg.errors[row] is None for row in index.tolist()], bool)
            places, index = places[done], index[done]
            if segment is self._segments[-1]:
                _store(batch, group.index[places], leg, index)
                break
            values = _dense(leg, index, size)
            plain = plain_rows(values)
            places = places[plain]
            if not len(places):
                break
            logits, index, bitmask = LogitRows(values[plain], size), np.arange(len(places)), None
        rest = np.setdiff1d(np.arange(len(group.index)), places)
        if len(rest):
            self._fallback.run_places(batch, group, rest)

    def _run_segment(
        self,
        segment: Segment,
        logits: LogitRows,
        index: np.ndarray,
        places: np.ndarray,
        bitmask: np.ndarray | None,
    ) -> Batch:
        """The rows `index` of `logits`, which are those at `places` of the group, behind a segment."""
        group = Group(
            chain_of(segment.parts),
            index,
            self._group.rows.take(places),
            self._group.masked and bitmask is not None,
            self._group.want_processed or segment is not self._segments[-1],
        )
        leg = new_batch(logits, group, bitmask)
        if segment.number is None or self._fallback.lost:
            self._host.run(leg)
        else:
            entry = Entry(group, segment.parts, segment.number)
            layout = layout_of(logits, group.rows.vocabulary.size)
            Call(self._session, self._fallback, [entry], layout, segment.max_rows).run(leg)
        return leg


def _dense(batch: Batch, index: np.ndarray, vocab_size: int) -> np.ndarray:
    """The survivors of the rows `index` as float32 [n, vocab]."""
    values = np.full((len(index), vocab_size), -np.inf, np.float32)
    for out, row in zip(values, index.tolist(), strict=True):
        ids, logits = batch.survivors[row]
        out[ids] = logits
    return values


def _store(batch: Batch, rows: np.ndarray, leg: Batch, index: np.ndarray) -> None:
    """Write what the rows `index` of `leg` gave into the rows `rows` of `batch`."""
    batch.token_ids[rows] = leg.token_ids[index]
    batch.notes[rows] = leg.notes[index]
    for row, i in zip(rows.tolist(), index.tolist(), strict=True):
        if i in leg.survivors:
            batch.survivors[row] = leg.survivors[i]
