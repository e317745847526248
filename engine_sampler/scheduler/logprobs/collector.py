"""The logprobs of a step: written by the backend or, row by row, by the host, before the tokens are
accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...arithmetic import GivenLogprobs, Logprobs, checked_row, row_logprobs
from ...contract import LOGPROBS_KINDS, Backend, Batch, LogprobsRequest, TokenLogprob
from ...requests.request import Request
from ...requests.results import SamplingMask
from .details import DetailsCollector, Penalized, survivors_of

_BITS = {kind: 1 << i for i, kind in enumerate(LOGPROBS_KINDS)}

_LEAST = np.float32(-1e9)
"""The least logprob that counts in a confidence, so that this is always finite."""


class LogprobsPlan:
    """The logprobs that the requests of a batch need.

    kinds     uint8 [n], the kinds that are computed, as bits.
    reported  uint8 [n], those of them that the user requested; the others are for the scheduler's own use.
    top_n     int64 [n], how many of the likeliest tokens to list; −1 = all.
    lengths   int64 [n] by kind, how many entries a row has room for; the same for all kinds if no request
              reports several, since all rows then go into one table.
    starts    the same as `Logprobs.starts`, for a step in which request i has row i.
    of_logits  bool [n], which of them need a kind that is computed from the logits themselves.
    recorded  the requests that record the raw logprob of each token: index → how many of the likeliest tokens
              make the confidence that is recorded with it, or 0.
    widened   those of them for which more tokens are listed than the user requested: index → that number.
    detailed  the indices of the requests that want more than logprobs; `details` is what these want.
    several   whether a request reports more than one kind.
    only      the number of the kind that every request reports, and no other; None if they differ.
    """

    def __init__(self, requests: Sequence[Request], vocab_size: int) -> None:
        reported = [sum(_BITS[mode] for mode in r.logprobs_modes) for r in requests]
        top_n = [r.params.logprobs if r.logprobs_modes else 0 for r in requests]
        self.reported = np.array(reported, np.uint8)
        self.recorded = {
            i: r.raw_logprobs.top_k for i, r in enumerate(requests) if r.raw_logprobs is not None
        }
        self.widened = {i: top_n[i] for i, top_k in self.recorded.items() if 0 <= top_n[i] < top_k}
        for i in self.widened:
            top_n[i] = self.recorded[i]
        self.kinds = self.reported.copy()
        self.kinds[[*self.recorded]] |= _BITS["raw"]
        details = {i: r.details for i, r in enumerate(requests) if r.details is not None}
        self.detailed, self.details = [*details], [*details.values()]
        self.kinds[[i for i in details if details[i].mask_cap]] |= _BITS["processed"]
        self.vocab_size = vocab_size
        self.of_logits = self.kinds & (_BITS["raw"] | _BITS["penalized"]) != 0
        self.top_n = np.array(top_n, np.int64)
        self.several = any(len(r.logprobs_modes) > 1 for r in requests)
        listed = np.where(self.top_n < 0, vocab_size, np.minimum(self.top_n, vocab_size))
        self.lengths = [
            1 + (np.where(self.kinds & bit != 0, listed, 0) if self.several else listed)
            for bit in _BITS.values()
        ]
        self.starts = [_starts(lengths) for lengths in self.lengths]
        self.used = int(np.bitwise_or.reduce(self.kinds))
        kind = (self.used - 1).bit_length()
        self.only = kind if set(reported) == {1 << kind} else None


class LogprobsCollector:
    """The logprobs of one step, by row of the logits.

    rows    how many rows there are.
    first_rows, counts  int64 [n], the first row of each request and how many it has; None if request i has
                        row i.
    """

    def __init__(
        self,
        rows: int,
        plan: LogprobsPlan,
        first_rows: np.ndarray | None = None,
        counts: np.ndarray | None = None,
    ) -> None:
        self._rows = rows
        self._plan = plan
        starts = plan.starts
        if first_rows is not None:
            starts = [_starts(_by_row(rows, lengths, first_rows, counts)) for lengths in plan.lengths]
        raw, penalized, processed = (
            Logprobs.with_room(starts[i]) if plan.used >> i & 1 else None for i in range(len(starts))
        )
        self._out = raw, penalized, processed
        self._one_row_each = False
        self._reported = np.zeros(rows, np.uint8)
        self._widened: dict[int, int] = {}
        """As in the plan, by row."""
        self._details = DetailsCollector(rows, plan.vocab_size, plan.details) if plan.detailed else None

    def request(
        self, plan: LogprobsPlan, rows: np.ndarray, one_row_each: bool, counts: np.ndarray | None = None
    ) -> LogprobsRequest:
        """The request for the backend if request i has the row rows[i] of the logits: row i if
        `one_row_each`; or `counts`[i] rows from there on, the others of which do not count yet."""
        self._one_row_each = one_row_each
        if one_row_each:
            self._reported = plan.reported
            self._widened.update(plan.widened)
            return LogprobsRequest(plan.kinds, plan.top_n, self._out, np.zeros(self._rows, bool))
        self.report(plan, rows)
        kinds, top_n = np.zeros(self._rows, np.uint8), np.zeros(self._rows, np.int64)
        if counts is None:
            kinds[rows], top_n[rows] = plan.kinds, plan.top_n
        else:
            leads = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            every = np.repeat(rows, counts) + leads
            kinds[every], top_n[every] = np.repeat(plan.kinds, counts), np.repeat(plan.top_n, counts)
        return LogprobsRequest(kinds, top_n, self._out, np.zeros(self._rows, bool))

    def report(self, plan: LogprobsPlan, rows: np.ndarray) -> None:
        """Those of these rows count, of which request i has one."""
        self._reported[rows] = plan.reported
        self._widened.update((int(rows[i]), top_n) for i, top_n in plan.widened.items())

    def complete(self, request: Request, row: int, token_id: int, batch: Batch, penalized: Penalized) -> None:
        """Compute the logprobs of `token_id`, drawn in `row`, on the host."""
        assert batch.logprobs is not None
        needed, top_n = int(batch.logprobs.kinds[row]), int(batch.logprobs.top_n[row])
        for i, kind in enumerate(LOGPROBS_KINDS):
            out = self._out[i]
            if out is None or not needed >> i & 1:
                continue
            if kind == "processed":
                ids, logits = survivors_of(batch, row)
                out.fill(row, row_logprobs(logits, token_id, top_n, ids))
            elif kind == "penalized":
                out.fill(row, row_logprobs(penalized(request, batch.logits.row(row)), token_id, top_n))
            else:
                out.fill(row, row_logprobs(checked_row(batch.logits.row(row)), token_id, top_n))

    def add_details(
        self, request: Request, row: int, batch: Batch, penalized: Penalized, backend: Backend
    ) -> None:
        """Collect what `request` wants of its `row` beside the logprobs, which are complete."""
        assert self._details is not None
        out = self._out[LOGPROBS_KINDS.index("processed")]
        logprob = np.nan if out is None else float(out.entry_logprobs[out.starts[row]])
        self._details.add(request, row, batch, logprob, penalized, backend)

    def clear(self, rows: np.ndarray) -> None:
        """Leave `rows`, whose tokens were not accepted, without logprobs."""
        for out in self._out:
            if out is not None:
                out.clear(rows)
        if self._details is not None:
            self._details.clear(rows)

    def raw(self, row: int, top_k: int) -> float:
        """The raw logprob of the token drawn in `row`, with the confidence of the row's `top_k` likeliest
        ones if that is not 0."""
        out = self._out[0]
        assert out is not None
        start = int(out.starts[row])
        logprob = float(out.entry_logprobs[start])
        if not top_k:
            return logprob
        likeliest = out.entry_logprobs[start + 1 : min(start + 1 + top_k, int(out.starts[row + 1]))]
        return TokenLogprob(logprob, -float(np.maximum(likeliest, _LEAST).mean(dtype=np.float64)))

    def details(self) -> tuple[SamplingMask | None, GivenLogprobs | None]:
        """The sampling mask and the logprobs of named tokens; None if no request wants any."""
        if self._details is None:
            return None, None
        return self._details.sampling_mask(), self._details.given_logprobs()

    def result(self) -> Logprobs | None:
        """The reported ones, by kind as well if a request reports several; None if none does."""
        for row, top_n in self._widened.items():
            for table in (table for table in self._out if table is not None):
                rest = slice(table.starts[row] + 1 + top_n, table.starts[row + 1])
                table.entry_token_ids[rest], table.entry_logprobs[rest] = -1, np.nan
        only = self._plan.only
        if only is not None and self._one_row_each:
            out = self._out[only]
            assert out is not None
            return out.trimmed()
        reported = {
            kind: out
            for kind, out in zip(LOGPROBS_KINDS, self._out, strict=True)
            if out is not None and (self._reported & _BITS[kind]).any()
        }
        if not reported:
            return None
        for kind, out in reported.items():
            others = np.flatnonzero(self._reported & _BITS[kind] == 0)
            if len(others):
                out.clear(others)
        if self._plan.several:
            return self._first_of_each({kind: out.trimmed() for kind, out in reported.items()})
        first, *more = reported.items()
        for kind, out in more:
            first[1].copy_rows(out, np.flatnonzero(self._reported & _BITS[kind]))
        return first[1].trimmed()

    def _first_of_each(self, tables: dict[str, Logprobs]) -> Logprobs:
        """A table of the first kind that each row reports, with the tables of all kinds."""
        first, *others = tables.items()
        missing = np.flatnonzero((self._reported & _BITS[first[0]] == 0) & (self._reported != 0))
        if not len(missing):
            return replace(first[1], modes=tables)
        source = np.zeros(self._rows, np.int64)
        for number, (kind, _) in reversed([*enumerate(others, 1)]):
            source[missing[self._reported[missing] & _BITS[kind] != 0]] = number
        listed = [first[1], *(table for _, table in others)]
        rows = [listed[number].row(row) for row, number in enumerate(source.tolist())]
        out = Logprobs.with_room(_starts(np.array([max(1, len(row.token_ids)) for row in rows])))
        for i, row in enumerate(rows):
            out.fill(i, row)
        return replace(out, modes=tables)


def _starts(lengths: np.ndarray) -> np.ndarray:
    """Where rows of these lengths begin, and the end of the last."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def _by_row(rows: int, lengths: np.ndarray, first_rows: np.ndarray, counts: np.ndarray | None) -> np.ndarray:
    """`lengths` of requests by row of the logits; rows that belong to none have room for one entry."""
    by_row = np.ones(rows, np.int64)
    if counts is None:
        by_row[first_rows] = lengths
        return by_row
    for first, count, length in zip(first_rows.tolist(), counts.tolist(), lengths.tolist(), strict=True):
        by_row[first : first + count] = length
    return by_row
