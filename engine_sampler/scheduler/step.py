"""One step: rows run on a backend, are scored, and their tokens join the requests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import numpy as np

from ..arithmetic import LogitRows
from ..contract import Backend, Batch
from .grouping import Roster
from .logprobs import Scores
from .masks import Masks
from .request import Found, Request
from .results import StepResult
from .slots import Slots

logger = logging.getLogger("engine_sampler")

Penalized = Callable[[Request, np.ndarray], np.ndarray]


class Step:
    """The rows of one step, in one round, or in several where there are drafts.

    A request costs Python only where its slot, its token or its configuration asks for it.
    """

    def __init__(
        self, backend: Backend, logits: LogitRows, slots: Slots, masks: Masks, penalized: Penalized
    ) -> None:
        self._backend = backend
        self._logits = logits
        self._n = len(logits)
        self._slots = slots
        self._masks = masks
        self._penalized = penalized
        self._scores: Scores | None = None
        self.token_ids = _filled(self._n, -1, np.int64)
        """What each row of the logits gave, int64 [rows]; −1 for nothing."""

    def advance(self, roster: Roster, where: np.ndarray) -> list[int]:
        """Give every request of `roster` the token of its row, `where` [requests].

        Returns the places of the requests that may have ended by it.
        """
        whole = where is roster.places
        batch = Batch(
            self._logits,
            roster.groups(where),
            self.token_ids,
            _filled(self._n, np.nan, np.float64),
            [None] * self._n,
            self._bitmask(roster, where) if roster.masked else None,
            cache=roster.cache if whole else {},
        )
        self._backend.run(batch)
        tokens, notes = self.token_ids, batch.notes
        if not whole:
            tokens, notes = tokens[where], notes[where]
        asked = self._slots.watched(tokens)
        hit = np.count_nonzero(asked) > 0
        refused: list[int] = []
        over: list[int] = []
        logprobs: dict[int, float] = {}
        if hit or roster.masked or roster.scored or batch.errors.count(None) < self._n:
            refused, over, logprobs = self._judge(roster, where, batch, tokens)
        self._extend(roster, tokens, notes, refused)
        found = self._read(roster, tokens, refused) if roster.streamed else {}
        due = self._slots.due(roster.slots)
        if not (hit or found or over) and due is None and roster.always is None:
            return refused
        for more in (due, roster.always):
            if more is not None:
                asked |= more
        asked[[*found, *over]] = True
        asked[refused] = False
        places = np.flatnonzero(asked).tolist()
        for place in places:
            note = None if np.isnan(notes[place]) else float(notes[place])
            request = roster.requests[place]
            request.follow(int(tokens[place]), note, logprobs.get(place), found.get(place, ()))
        return refused + places

    def result(self, roster: Roster, first_rows: np.ndarray, places: Iterable[int]) -> StepResult:
        """What the step gives back; only the requests at `places` can have ended."""
        n, requests = len(roster), roster.requests
        result = StepResult(
            self.token_ids,
            first_rows,
            roster.ids.copy(),
            [None] * n,
            [None] * n,
            [None] * n,
            [None] * n,
            roster.seeds.copy(),
            roster.ids.copy(),
            None if self._scores is None else self._scores.gather(),
        )
        for i in roster.streamed:
            result.text[i] = requests[i].take_text()
        for i in places:
            result.finish_reasons[i] = requests[i].finish_reason
            result.stop_reasons[i] = requests[i].stop_reason
            result.errors[i] = requests[i].error
        return result

    # --- inside ----------------------------------------------------------------------------------

    def _bitmask(self, roster: Roster, where: np.ndarray) -> np.ndarray:
        """int32 [rows, ceil(vocab / 32)] with the grammars' masks. A grammar that fails ends its request
        and leaves no token."""
        masks = self._masks.fill(roster.requests, roster.masked)
        if where is roster.places:
            return masks
        bitmask = np.zeros((self._n, masks.shape[1]), np.int32)
        bitmask[where[roster.masked]] = masks[roster.masked]
        return bitmask

    def _judge(
        self, roster: Roster, where: np.ndarray, batch: Batch, tokens: np.ndarray
    ) -> tuple[list[int], list[int], dict[int, float]]:
        """The places whose tokens do not count, those whose grammars may be over, and the logprobs by which
        siblings compete, by place."""
        refused = self._faulty(roster, where, batch, tokens)
        logprobs = self._score(roster, where, batch, tokens, refused) if roster.scored else {}
        inadmissible, over = self._admit(roster, tokens, refused)
        refused += inadmissible
        self.token_ids[where[refused]] = -1
        return refused, over, logprobs

    def _faulty(self, roster: Roster, where: np.ndarray, batch: Batch, tokens: np.ndarray) -> list[int]:
        """The places whose rows gave no token; their requests end with the reason."""
        size = self._slots.vocabulary.size
        faulty = []
        for place, (row, token) in enumerate(zip(where.tolist(), tokens.tolist(), strict=True)):
            request, error = roster.requests[place], batch.errors[row]
            if error is None and not 0 <= token < size:
                error = f"backend {self._backend.name} gave {'no token' if token < 0 else f'token {token}'}"
            if error is not None and request.live:
                request.fail(error)
            if not request.live:
                faulty.append(place)
        return faulty

    def _score(
        self, roster: Roster, where: np.ndarray, batch: Batch, tokens: np.ndarray, refused: list[int]
    ) -> dict[int, float]:
        """Note the logprobs that were asked for; those by which siblings compete, by place."""
        if self._scores is None:
            self._scores = Scores(self._n)
        scored = [place for place in roster.scored if place not in refused]
        rows = where[scored].tolist()
        log_totals = self._backend.log_sums(self._logits, rows)
        if log_totals is not None:
            self._scores.know(dict(zip(rows, log_totals, strict=True)))
        logprobs = {}
        for place in scored:
            request, row, token = roster.requests[place], int(where[place]), int(tokens[place])
            try:
                logprob = self._scores.add(request, row, token, batch, self._penalized)
            except Exception as fault:
                logger.error("request %r: no logprobs: %s", request.id, fault)
            else:
                if logprob is not None:
                    logprobs[place] = logprob
        return logprobs

    def _admit(self, roster: Roster, tokens: np.ndarray, refused: list[int]) -> tuple[list[int], list[int]]:
        """Give the grammars their tokens: the places of those that refuse theirs, whose requests end, and of
        those that may be over."""
        inadmissible, over = [], []
        requests, token_ids = roster.requests, tokens.tolist()
        for place in roster.masked:
            if refused and place in refused:
                continue
            request = requests[place]
            if not request.admits(token_ids[place]):
                inadmissible.append(place)
            elif request.may_end():
                over.append(place)
        return inadmissible, over

    def _read(self, roster: Roster, tokens: np.ndarray, refused: list[int]) -> dict[int, Found]:
        """Give the texts their tokens, but for the places `refused`; what was found there, by place."""
        found = {}
        requests, token_ids = roster.requests, tokens.tolist()
        for place in roster.streamed:
            if refused and place in refused:
                continue
            request = requests[place]
            matches = request.read(token_ids[place])
            if matches or not request.live:
                found[place] = matches
        return found

    def _extend(self, roster: Roster, tokens: np.ndarray, notes: np.ndarray, refused: list[int]) -> None:
        """Add the tokens to the histories, but for the places `refused`."""
        slots = roster.slots
        if refused:
            kept = np.delete(roster.places, refused)
            slots, tokens, notes = slots[kept], tokens[kept], notes[kept]
        self._slots.extend(slots, tokens, notes)


def _filled(n: int, value: float, dtype: type) -> np.ndarray:
    array: np.ndarray = np.empty(n, dtype)
    array.fill(value)
    return array
