"""`LandedResults`: what a captured step leaves on the host, always in one place, and where it belongs.

Which rows report what, and where their entries lie, is settled once for all steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine_sampler.contract import Batch, LogprobsRequest

from .captured import CapturedStep
from .pieces import as_slice
from .results import Results, raw_logprobs


class LandedResults:
    """The tokens of a step, and its raw logprobs if there are any."""

    def __init__(self, captured: CapturedStep, logprobs: Sequence[_RawLogprobs]) -> None:
        """`captured` leaves tokens, faults, and what these logprobs are made from."""
        results = captured.results
        places = [result.verdict_words for result in results]
        tokens, faults = (np.concatenate(some) for some in zip(*places, strict=True))
        self._rows = np.concatenate([result.piece.index for result in results])
        self._places = tokens, faults
        """Where the tokens and faults of these rows are among the words of 8 bytes."""
        self._words = captured.download.landed.reshape(-1).view(np.int64)
        self._views = None
        of_tokens, of_faults, of_rows = map(as_slice, (tokens, faults, self._rows))
        if of_tokens and of_faults and of_rows and not of_rows.start:
            self._views = self._words[of_tokens], self._words[of_faults]
        self._logprobs = logprobs

    @classmethod
    def of(cls, captured: CapturedStep, request: LogprobsRequest | None) -> LandedResults | None:
        """Those of a captured step, of which `request` is like those of the steps to come; None if there are
        results of other kinds."""
        if not all(result.is_plain or result.lists_raw for result in captured.results):
            return None
        reporting = [result for result in captured.results if result.lists_raw]
        if request is None:
            return None if reporting else cls(captured, ())
        return cls(captured, [_RawLogprobs(result, request) for result in reporting])

    def write(self, batch: Batch) -> bool:
        """Write all of them into `batch`; False, with nothing written, if some row has no token."""
        if self._views is not None:
            tokens, faults = self._views
            if np.count_nonzero(faults):
                return False
            batch.token_ids[: len(tokens)] = tokens
        else:
            tokens, faults = (self._words.take(places) for places in self._places)
            if np.count_nonzero(faults):
                return False
            batch.token_ids[self._rows] = tokens
        for some in self._logprobs:
            some.write(batch.logprobs)
        return True


class _RawLogprobs:
    """The raw logprobs of a piece's rows, all of which have a token."""

    def __init__(self, result: Results, request: LogprobsRequest) -> None:
        piece, starts = result.piece, starts_of(request)
        assert starts is not None
        ids, self._values, self._masses, ranks, self._peaks = result.landed_likeliest()
        reporting = np.flatnonzero(piece.kinds)
        rows = piece.index[reporting]
        columns = np.arange(ids.shape[1])
        is_listed = columns <= piece.top_n[reporting, None]
        self._vocab_size = piece.vocab_size
        self._row_of = np.broadcast_to(rows[:, None], is_listed.shape)[is_listed]
        """int64 [entries], the row of each entry that is listed."""
        self._places = _selecting((starts[rows, None] + columns)[is_listed])
        """Where the entries belong, and where they are."""
        self._listed = _selecting((ids.shape[1] * reporting[:, None] + columns)[is_listed])
        self._rows = _selecting(rows)
        self._ids, self._ranks = ids.reshape(-1), ranks
        self._reporting = _selecting(reporting)

    def write(self, request: LogprobsRequest | None) -> None:
        """Write them to where they are wanted."""
        assert request is not None
        table, done = request.out[0], request.done
        assert table is not None
        ids = self._ids[self._listed]
        logprobs = raw_logprobs(self._values, self._peaks, self._masses)
        table.entry_token_ids[self._places] = ids
        table.entry_logprobs[self._places] = logprobs.reshape(-1)[self._listed]
        table.ranks[self._rows] = self._ranks[self._reporting]
        done[self._rows] = True
        absent = ids == self._vocab_size
        if absent.any():  # tokens that are removed are not found there, but listed
            done[self._row_of[absent]] = False


def starts_of(request: LogprobsRequest) -> np.ndarray | None:
    """Where the raw logprobs of each row begin, None without any."""
    table = request.out[0]
    return None if table is None else table.starts


def _selecting(index: np.ndarray) -> slice | np.ndarray:
    """What selects the same as `index`, int64 [n], and as a view if it can."""
    return as_slice(index) or index
