"""One step as one call: everything that depends on the groups only is prepared once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from ...contract import Batch, Group, LogprobsRequest
from ..host_run import Reason, members_of
from .binding import Layout
from .call_rows import STATUSES, CallRows, Entry, SurvivorsOutput
from .declined import Attempts, Fallback
from .header import number, sized
from .outputs import LogprobsOutput, ProcessedOutput, TokensOutput
from .session import LibrarySession
from .tensor import LogitsInput
from .watchdog import leave_behind

_NO_ROWS = np.empty(0, np.int64)


class Host(Protocol):
    """Runs what a library declines: `HostRun`, or a test's."""

    def run(self, batch: Batch, groups: Sequence[Group], why: Reason | None) -> None:
        """Run the chains of `groups`."""


class Call:
    """The rows of some groups, prepared for a library and reused while the groups stay the same.

    A step updates only what has changed: logits, outputs, masks, and arrays that have grown.

    ended  the rows that the last run has ended, with an error.
    """

    def __init__(
        self,
        session: LibrarySession,
        fallback: Fallback,
        host: Host,
        entries: Sequence[Entry],
        layout: Layout,
        max_rows: int = 0,
        *,
        reports: bool = False,
        processes: bool = False,
        cuts: bool = False,
    ) -> None:
        """`reports`: whether the library writes the logprobs of all entries, so that few survivors are
        needed; `processes`: whether it writes rows to `Batch.processed`, and draws nothing; `cuts`: whether
        it runs a part of the chains only, and the host goes on."""
        self.ended: list[int] = []
        self._session, self._fallback, self._host = session, fallback, host
        self._generation = session.generation
        self._slots = entries[0].group.rows.slots
        self._offsets: Any = None
        size, apart = self._slots.vocabulary.size, session.watched
        self._rows = rows = CallRows(entries, session)
        self._struct = struct = sized("es_batch", vocab_size=size, table=session.table.pointer)
        self._logprobs = LogprobsOutput(struct, rows, size, apart=apart) if reports else None
        self._processed = ProcessedOutput(rows, apart=apart) if processes else None
        wanted = [e.group.want_survivors if reports else e.group.want_processed for e in entries]
        survivors = None if processes or cuts else SurvivorsOutput(rows, wanted, size)
        self._survivors = survivors or None
        self._outputs = TokensOutput(struct, rows, size, apart=apart)
        self._input = self._input_for(struct.logits, layout, size)
        self._all_exist = self._outputs.all_exist
        self._writes_more = bool(survivors or reports or processes)
        """Whether there is more than tokens to hand out."""
        rows.point(struct)
        self._attempts = Attempts(session, fallback, struct, rows, max_rows)
        self._run, self._context = self._attempts.run, session.context.pointer
        self._status, self._all_ok = rows.status_bytes, rows.all_ok
        self._watched, self._trusted = session.watched, session.trusted

    def _input_for(self, tensor: Any, layout: Layout, vocab_size: int) -> LogitsInput:
        """What points `tensor` to the logits of a step."""
        return LogitsInput(tensor, layout, vocab_size)

    def run(self, batch: Batch) -> bool:
        """Fill `batch` for the groups; False if this call does not fit it, and a new one is needed."""
        if not self._point_to(batch):
            return False
        try:
            declined = self._taken(batch, self._run(self._context, self._struct))
        finally:
            if self._watched:
                self._leave_if_late(batch)
        if self._writes_more:
            self._hand_out(batch, declined)
        return True

    @property
    def repeats(self) -> bool:
        """Whether `repeat` does all that `run` does."""
        return not (self._writes_more or self._watched) and self._generation == self._session.generation

    def repeat(self, index: np.ndarray) -> bool:
        """Run what `run` has run last once more, for the rows `index`, int64 [n]. False if not all of them
        have tokens by that."""
        if self._slots.offsets is not self._offsets:
            return False
        self._rows.index[:] = index
        if self._run(self._context, self._struct) or self._status[:] != self._all_ok:
            self._session.functions.raise_interruption()
            return False
        return self._trusted or self._all_exist()

    def _leave_if_late(self, batch: Batch) -> None:
        """Leave everything to the library that it may still use, if it has not returned in time."""
        if self._session.library.quarantined:
            self._session.table.leave()
            leave_behind(self, self._session, batch)

    def _point_to(self, batch: Batch) -> bool:
        """Point to all of `batch`; False if this call does not fit it."""
        outputs, logprobs = self._outputs, self._logprobs
        if batch.rows_move:
            self._rows.follow_groups()
        if self._generation != self._session.generation or not self._input.point_to(batch.logits):
            return False
        if (
            batch.token_ids is not outputs.token_ids
            or batch.notes is not outputs.notes
            or batch.bitmask is not outputs.bitmask
        ):
            outputs.point_to(batch)
        if logprobs is not None and batch.logprobs is not None:
            logprobs.point_to(batch.logprobs)
        if self._processed is not None:
            self._processed.point_to(batch)
        if self._slots.offsets is not self._offsets:
            self._point_to_slots()
        return True

    def _taken(self, batch: Batch, code: int) -> np.ndarray:
        """The numbers of the rows that the host has run instead, int64, after the library returned `code`."""
        if code or self._status[:] != self._all_ok or not (self._trusted or self._all_exist()):
            return self._settle(batch, code)
        if self._watched:
            self._outputs.hand_out(batch)
        return _NO_ROWS

    def _hand_out(self, batch: Batch, declined: np.ndarray) -> None:
        """Give `batch` what the library has written beside tokens, without the rows `declined`."""
        logprobs = self._logprobs
        if self._survivors is not None:
            self._survivors.hand_out(batch, declined)
        if self._processed is not None:
            self._processed.hand_out(batch, declined)
        if logprobs is not None and batch.logprobs is not None:
            self._confirm(logprobs, batch, batch.logprobs, declined)

    def _point_to_slots(self) -> None:
        """Point to the slots' current arrays, some of which have been replaced."""
        self._session.table.refresh()
        self._offsets = self._slots.offsets

    # --- where not all is well ---------------------------------------------------------------------

    def _settle(self, batch: Batch, code: int) -> np.ndarray:
        """Have the host run what the library did not, after it returned `code`; the numbers of these rows."""
        rows, library = self._rows, self._session.library
        declined = self._attempts.declined(code)
        if not (self._trusted or library.quarantined):
            for wrong, why in self._impossible():
                declined = self._without(wrong, declined, why)
        if self._watched and not library.quarantined:
            self._outputs.hand_out(batch)
        self._session.functions.raise_interruption()
        if not len(declined):
            return declined
        batch.token_ids[rows.index[declined]] = -1
        batch.notes[rows.index[declined]] = np.nan
        unknown = declined[~np.isin(rows.status[declined], STATUSES)]
        self.ended = rows.index[unknown].tolist()
        for row, status in zip(self.ended, rows.status[unknown].tolist(), strict=True):
            batch.errors[row] = f"{library.name} gave the row an unknown status: {status}"
        hosted = rows.by_entry(np.setdiff1d(declined, unknown))
        if hosted:
            groups = [members_of(entry.group, members) for entry, members in hosted]
            self._host.run(batch, groups, "declined")
        return declined

    def _impossible(self) -> Iterator[tuple[np.ndarray, str]]:
        """Rows for which the library has written something impossible, bool [n], and why."""
        yield self._outputs.impossible(), "it draws a token that is not in the vocabulary"
        if self._processed is not None:
            yield self._processed.impossible(), "it leaves a row without a finite best logit"

    def _without(self, wrong: np.ndarray, declined: np.ndarray, why: str) -> np.ndarray:
        """The rows `declined` and all others that are `wrong`, bool [n]; with one of those, the library is no
        longer called."""
        wrong[declined] = False
        if not wrong.any():
            return declined
        self._fallback.lose(why)
        self._rows.status[wrong] = number("ES_ROW_DECLINED")
        return np.union1d(declined, np.flatnonzero(wrong))

    def _confirm(
        self, logprobs: LogprobsOutput, batch: Batch, request: LogprobsRequest, declined: np.ndarray
    ) -> None:
        """Mark the logprobs that have been written; none are if there is an impossible token among them."""
        if self._trusted or logprobs.all_exist(declined):
            logprobs.hand_out(request, declined)
            return
        logprobs.clear(request)
        groups = [entry.group for entry in self._rows.entries]
        self._host.run(batch, groups, "declined")
        self._fallback.lose("it reports the logprob of a token that is not in the vocabulary")
