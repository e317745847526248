"""`Ledger`: what every rank knows of every request. The same calls, in the same order, change it on all."""

from __future__ import annotations

import hashlib
import heapq
import itertools
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from engine_sampler import RequestError, SamplingParams, StepResult
from engine_sampler.contract import Vocabulary
from engine_sampler.for_backends import all_drafts_in, check_beam_rows, quoted

from ..exchange import digest

RequestId = Hashable
Guesses = tuple[list[int], list[int] | None]

_NO_PARAMS = SamplingParams()
_MOST_REMOVED = 1 << 12
"""How many removed requests a step may still name, since the pass that is under way has rows of them."""
_RECENT = 3
"""The last calls that an error about differing ranks names."""


@dataclass(eq=False)
class LedgerEntry:
    """A request as all ranks know it.

    slot    its number; slot mod ranks is the rank that owns it.
    outputs  how many output tokens it has.
    beams   the ids of the beam search that it belongs to.
    logprobs_modes, raw_logprobs, details  as in `requests.request.Request`.
    is_removed  whether nothing more is known of it.
    """

    id: RequestId
    params: SamplingParams
    slot: int
    outputs: int
    beams: Beams | None = None
    logprobs_modes: tuple[str, ...] = ()
    raw_logprobs: list[float] | None = None
    details: Any = None
    is_removed: bool = False

    @property
    def needs_logprobs(self) -> bool:
        return bool(self.logprobs_modes) or self.raw_logprobs is not None


@dataclass(eq=False)
class Beams:
    """The requests of one beam search."""

    request_ids: list[RequestId]


@dataclass(frozen=True, eq=False)
class StepPlan:
    """The rows of one step.

    entries     the requests, in row order.
    drafts      the tokens that are guessed for each, and the parents of these, None for a chain; None without
                drafts.
    first_rows, counts  int64 [requests], the first row of each and how many it has.
    by_owner    for each rank, the indices of its requests, ascending.
    digest      stands for the requests and drafts; 0 for all live ones without drafts.
    left        the indices of those that have left, whose rows nobody reads.
    """

    entries: list[LedgerEntry]
    drafts: list[Guesses] | None
    first_rows: np.ndarray
    counts: np.ndarray
    by_owner: list[np.ndarray]
    digest: int
    left: Sequence[int]

    @cached_property
    def rows(self) -> int:
        """How many rows all requests have."""
        return int(self.counts.sum())

    def described(self) -> str:
        """The requests in words."""
        drafted = "" if self.drafts is None else f" with {self.rows - len(self.entries)} drafts"
        return f"requests {quoted([entry.id for entry in self.entries])}{drafted}"

    @cached_property
    def request_of(self) -> np.ndarray:
        """int64 [rows], the number of the request of each row."""
        return np.repeat(np.arange(len(self.entries)), self.counts)

    @cached_property
    def rows_by_owner(self) -> list[np.ndarray]:
        """For each rank, the rows of its requests, int64, in row order."""
        return [self._rows_of(rank) for rank in range(len(self.by_owner))]

    @cached_property
    def row_order(self) -> np.ndarray | None:
        """The rows of the first rank, those of the second, and so on, int64 [rows]; None if they are so."""
        order = np.concatenate(self.rows_by_owner)
        return order if (np.diff(order) != 1).any() else None

    @cached_property
    def most_rows(self) -> int:
        """How many rows a rank owns at most."""
        return max((len(rows) for rows in self.rows_by_owner), default=0)

    @cached_property
    def places(self) -> np.ndarray:
        """Where each row is among those of all ranks, `most_rows` of each: int64 [rows]."""
        places = np.empty(self.rows, np.int64)
        for rank, rows in enumerate(self.rows_by_owner):
            places[rows] = np.arange(len(rows)) + rank * self.most_rows
        return places

    def is_that_of(self, other: StepPlan) -> bool:
        """Whether another plan has the same rows."""
        return self is other or (self.entries == other.entries and self.drafts == other.drafts)

    def rows_of(self, rank: int) -> np.ndarray:
        """The rows of a rank's requests, int64, in row order."""
        return self.rows_by_owner[rank]

    def _rows_of(self, rank: int) -> np.ndarray:
        which = self.by_owner[rank]
        if self.drafts is None:
            rows: np.ndarray = self.first_rows[which]
            return rows
        ranges = (
            np.arange(f, f + n) for f, n in zip(self.first_rows[which], self.counts[which], strict=True)
        )
        return np.concatenate([np.empty(0, np.int64), *ranges])


class Ledger:
    """The requests of all ranks by id, their slots, and a digest of every call that has changed them.

    live       those that have not ended and are not suspended, in order of arrival.
    known      all that have not been removed.
    removed    the last that have been, `_MOST_REMOVED` at most.
    """

    def __init__(self, ranks: int, vocabulary: Vocabulary) -> None:
        self.ranks = ranks
        self.vocabulary = vocabulary
        self.known: dict[RequestId, LedgerEntry] = {}
        self.live: dict[RequestId, LedgerEntry] = {}
        self.suspended: dict[RequestId, LedgerEntry] = {}
        self.removed: dict[RequestId, LedgerEntry] = {}
        self.calls = 0
        self._numbers = itertools.count()
        self._free: list[list[int]] = [[] for _ in range(ranks)]
        """The free slots of each rank, as heaps."""
        self._used = [0] * ranks
        """How many slots each rank has had."""
        self._hash = hashlib.blake2b(digest_size=8)
        self._recent: deque[str] = deque(maxlen=_RECENT)
        self._plan: tuple[list[RequestId], StepPlan] | None = None
        """The last step without drafts, while no request joins or leaves: its requests, and its plan."""

    # --- agreement -------------------------------------------------------------------------------

    def note(self, call: str, *parts: Any) -> None:
        """Take a call into the digest. Of objects that are not plain values, only the types count."""
        self.calls += 1
        self._recent.append(call)
        self._hash.update(digest(call, *(_canonical(part) for part in parts)).to_bytes(8, "little"))
        self._plan = None

    @property
    def digest(self) -> int:
        """A number that stands for all calls so far."""
        return int.from_bytes(self._hash.digest(), "little") >> 1

    def facts(self, plan: StepPlan, dtype: int) -> dict[str, int]:
        """What must be the same on all ranks before a step."""
        return {"calls": self.calls, "requests": self.digest, "rows": plan.digest, "dtype": dtype}

    def described(self) -> str:
        """How far this rank has come, in words."""
        last = f", the last of them {', '.join(self._recent)}" if self._recent else ""
        return f"{self.calls} calls have been made{last}"

    # --- look-up ---------------------------------------------------------------------------------

    def owner(self, entry: LedgerEntry) -> int:
        """The rank that owns a request."""
        return entry.slot % self.ranks

    def find(self, request_id: RequestId) -> LedgerEntry:
        """A request that has not been removed; raises `RequestError`."""
        try:
            return self.known[request_id]
        except KeyError:
            raise RequestError(f"request {request_id!r} is unknown") from None

    def find_live(self, request_id: RequestId) -> LedgerEntry:
        """A live request; raises `RequestError`."""
        entry = self.find(request_id)
        if request_id not in self.live:
            state = "is suspended" if request_id in self.suspended else "has finished"
            raise RequestError(f"request {request_id!r} {state}")
        return entry

    def is_live(self, entry: LedgerEntry) -> bool:
        """Whether a request has neither ended nor been removed or suspended."""
        return self.live.get(entry.id) is entry

    def find_row(self, request_id: RequestId) -> LedgerEntry:
        """A request that may have a row: a live one, or one that has left; raises `RequestError`."""
        entry = self.known.get(request_id) or self.removed.get(request_id)
        if entry is None or request_id in self.live or request_id in self.suspended:
            return self.find_live(request_id)
        return entry

    def find_single(self, request_id: RequestId) -> LedgerEntry:
        """A live request that belongs to no beam search; raises `RequestError`."""
        entry = self.find_live(request_id)
        if entry.beams is not None:
            raise RequestError(f"request {request_id!r} belongs to a beam search, which alone continues it")
        return entry

    def free_ids(self, request_ids: Sequence[RequestId] | None, count: int) -> list[RequestId]:
        """`request_ids`, or new integers; raises `RequestError` if one is taken or their number is wrong."""
        if request_ids is None:
            return list(itertools.islice((n for n in self._numbers if n not in self.known), count))
        ids = list(request_ids)
        if len(ids) != count or len(set(ids)) != count:
            raise RequestError(f"request_ids={quoted(ids)} is not allowed: {count} different ids")
        for request_id in ids:
            if request_id in self.known:
                raise RequestError(f"request id {request_id!r} is taken")
        return ids

    # --- changes ---------------------------------------------------------------------------------

    def join(self, entries: Sequence[LedgerEntry]) -> int:
        """Give new requests their slots, all at one rank: the one that has the lowest free slot. Returns that
        rank."""
        rank = min(range(self.ranks), key=self._lowest)
        for entry in entries:
            self._join(entry, rank)
        return rank

    def join_beside(self, entry: LedgerEntry, parent: LedgerEntry) -> None:
        """Give a new request a slot of the rank that owns its parent."""
        self._join(entry, self.owner(parent))

    def leave(self, entry: LedgerEntry) -> None:
        """A request has ended; it stays known."""
        self._free_slot(entry, self.live)

    def suspend(self, entry: LedgerEntry) -> None:
        """Take a live request out of the steps."""
        self._free_slot(entry, self.live)
        self.suspended[entry.id] = entry

    def resume(self, entry: LedgerEntry) -> None:
        """Take a suspended request back."""
        del self.suspended[entry.id]
        self._join(entry, self.owner(entry))

    def forget(self, entry: LedgerEntry) -> None:
        """Remove a request, and end the rest of its beam search."""
        del self.known[entry.id]
        self.removed.pop(entry.id, None)
        self.removed[entry.id] = LedgerEntry(entry.id, _NO_PARAMS, entry.slot, 0, is_removed=True)
        if len(self.removed) > _MOST_REMOVED:
            del self.removed[next(iter(self.removed))]
        if self.suspended.pop(entry.id, None) is None and entry.id in self.live:
            beams = entry.beams.request_ids if entry.beams is not None else [entry.id]
            for request_id in beams:
                if request_id in self.live:
                    self.leave(self.live[request_id])

    def follow(self, plan: StepPlan, result: StepResult) -> None:
        """Bring the requests up to a step."""
        if not plan.entries:
            return
        drawn = np.add.reduceat(result.token_ids >= 0, plan.first_rows, dtype=np.int64).tolist()
        ends, rewinds = result.finish_reasons, result.rewinds or [0] * len(drawn)
        for entry, tokens, taken, reason in zip(plan.entries, drawn, rewinds, ends, strict=True):
            entry.outputs += tokens - taken
            if reason is not None and self.is_live(entry):
                self.leave(entry)

    def _join(self, entry: LedgerEntry, rank: int) -> None:
        self._plan = None
        entry.slot = self._lowest(rank)
        if self._free[rank]:
            heapq.heappop(self._free[rank])
        else:
            self._used[rank] += 1
        self.known[entry.id] = self.live[entry.id] = entry

    def _lowest(self, rank: int) -> int:
        """The lowest free slot of a rank."""
        return self._free[rank][0] if self._free[rank] else self._used[rank] * self.ranks + rank

    def _free_slot(self, entry: LedgerEntry, requests: dict[RequestId, LedgerEntry]) -> None:
        """Take a request out of the live ones. Its slot number stays, since it says who owns its record."""
        self._plan = None
        del requests[entry.id]
        heapq.heappush(self._free[self.owner(entry)], entry.slot)

    # --- steps -----------------------------------------------------------------------------------

    def plan(self, request_ids: Sequence[RequestId] | None, drafts: Any) -> StepPlan:
        """The rows of a step with these requests (default: all live ones), some of which may have left, and
        these drafts: `draft_token_ids` and `draft_trees`; None if both are None.

        Raises `RequestError` and `ParameterError`.
        """
        ids = list(self.live) if request_ids is None else list(request_ids)
        if drafts is None and self._plan is not None and self._plan[0] == ids:
            return self._plan[1]
        if len(set(ids)) != len(ids):
            raise RequestError(f"request_ids={quoted(ids)} names a request twice")
        entries = [self.find_row(request_id) for request_id in ids]
        if drafts is not None:
            chains, trees = drafts
            self._check_beams(entries, chains, trees)
            guesses = [
                (draft.token_ids, None if draft.is_chain else [*draft.parents])
                for draft in all_drafts_in(chains, trees, ids, self.vocabulary)
            ]
            return self._new_plan(entries, guesses, digest(_canonical(ids), repr(guesses)))
        everyone = ids == list(self.live)
        self._check_beams(entries)
        plan = self._new_plan(entries, None, 0 if everyone else digest(_canonical(ids), _canonical(None)))
        self._plan = ids, plan
        return plan

    def by_owner(self) -> list[RequestId]:
        """The live requests, those of the first rank first; those of one rank in order of arrival."""
        return sorted(self.live, key=lambda request_id: self.owner(self.live[request_id]))

    def _check_beams(self, entries: list[LedgerEntry], chains: Any = None, trees: Any = None) -> None:
        """Raise `RequestError` for a step in which a beam search lacks rows, or is beside drafts."""
        beams = {id(e.beams): e.beams for e in entries if e.beams is not None and self.is_live(e)}
        if beams:
            check_beam_rows(beams.values(), [e.id for e in entries], chains, trees)  # type: ignore[arg-type]

    def _new_plan(self, entries: list[LedgerEntry], drafts: list[Guesses] | None, number: int) -> StepPlan:
        left = [i for i, e in enumerate(entries) if not self.is_live(e)]
        n = len(entries)
        counts = (
            np.ones(n, np.int64) if drafts is None else np.array([1 + len(d) for d, _ in drafts], np.int64)
        )
        owners = np.array([self.owner(e) for e in entries], np.int64)
        by_owner = [np.flatnonzero(owners == rank) for rank in range(self.ranks)]
        return StepPlan(entries, drafts, np.cumsum(counts) - counts, counts, by_owner, number, left)


def _canonical(part: Any) -> str | bytes:
    """The same on every rank for equal values; an object that has no plain value counts by its type."""
    if isinstance(part, np.ndarray):
        return part.tobytes()
    if part is None or isinstance(part, (bool, int, float, str, bytes, SamplingParams)):
        return repr(part)
    if isinstance(part, (list, tuple)):
        return digest(*(_canonical(entry) for entry in part)).to_bytes(8, "little")
    return type(part).__qualname__
