"""One step as one call: everything that depends on the groups only is prepared once."""

from __future__ import annotations

from collections.abc import Sequence
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
    ) -> None:
        """`reports`: whether the library writes the logprobs of all entries, so that no survivors are
        needed; `processes`: whether it writes rows to `Batch.processed`, and draws nothing."""
        self.ended: list[int] = []
        self._session, self._fallback, self._host = session, fallback, host
        self._generation = session.generation
        self._slots = entries[0].group.rows.slots
        self._offsets: Any = None
        size, apart = self._slots.vocabulary.size, session.watched
        self._rows = rows = CallRows(entries)
        self._struct = struct = sized("es_batch", vocab_size=size, table=session.table.pointer)
        self._logprobs = LogprobsOutput(struct, rows, size, apart=apart) if reports else None
        self._processed = ProcessedOutput(rows, apart=apart) if processes else None
        survivors = None if reports or processes else SurvivorsOutput(rows, size)
        self._survivors = survivors or None
        self._outputs = TokensOutput(struct, rows, size, apart=apart)
        self._input = LogitsInput(struct.logits, layout, size)
        rows.point(struct)
        self._attempts = Attempts(session, fallback, struct, rows, max_rows)
        self._run, self._context = self._attempts.run, session.context.pointer
        self._status, self._all_ok = rows.status_bytes, rows.all_ok
        self._watched, self._trusted = session.watched, session.trusted

    def run(self, batch: Batch) -> bool:
        """Fill `batch` for the groups; False if this call does not fit it, and a new one is needed."""
        outputs, logprobs = self._outputs, self._logprobs
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
        declined = _NO_ROWS
        try:
            code = self._run(self._context, self._struct)
            if code or self._status[:] != self._all_ok or not (self._trusted or outputs.all_exist()):
                declined = self._settle(batch, code)
            elif self._watched:
                outputs.hand_out(batch)
        finally:
            if self._watched and self._session.library.quarantined:
                self._session.table.leave()
                leave_behind(self, self._session, batch)
        if self._survivors is not None:
            self._survivors.hand_out(batch, declined)
        if self._processed is not None:
            self._processed.hand_out(batch, declined)
        if logprobs is not None and batch.logprobs is not None:
            self._confirm(logprobs, batch, batch.logprobs, declined)
        return True

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
            wrong = self._outputs.impossible()
            declined = self._without(wrong, declined, "it draws a token that is not in the vocabulary")
            if self._processed is not None:
                wrong = self._processed.impossible()
                declined = self._without(wrong, declined, "it leaves a row without a finite best logit")
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
