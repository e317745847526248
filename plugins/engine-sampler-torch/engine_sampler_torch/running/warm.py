"""`WarmStep`: what is left for the host in a step like the one before it, whose work is a graph."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from engine_sampler import Batch
from engine_sampler.for_backends import INTERRUPTIONS

from .captured import CapturedStep, TokenRoom
from .pieces import GroupPiece, Inputs
from .tables import EditTables, ListedRows
from .transfer import Upload


class _Asked(NamedTuple):
    """Inputs that are asked for in every step, and where the graph copies them from, by name."""

    inputs: Inputs
    places: Mapping[str, np.ndarray]


class _Listed(NamedTuple):
    """Rows with tables, and where the graph finds what joins and leaves them, int64 [4, n]."""

    rows: ListedRows
    change: np.ndarray


class _Verdicts:
    """The tokens and faults of rows, where a graph leaves them among other words of 8 bytes.

    rows  int64 [n], the rows themselves.
    """

    def __init__(self, words: np.ndarray, tokens: np.ndarray, faults: np.ndarray, rows: np.ndarray) -> None:
        """`tokens` and `faults` are places among `words`, int64 [n] each."""
        self._words = words
        self._places = tokens, faults
        first, n = int(tokens[0]), len(tokens)
        follow = all(np.array_equal(some, some[0] + np.arange(n)) for some in (tokens, faults, rows))
        self._views = None
        if follow and not rows[0]:
            self._views = words[first : first + n], words[faults[0] : faults[0] + n]
        self._rows = rows

    def write(self, token_ids: np.ndarray) -> bool:
        """Write the tokens to the rows of `token_ids`; False, with nothing written, if some row has none."""
        if self._views is not None:
            tokens, faults = self._views
            if np.count_nonzero(faults):
                return False
            token_ids[: len(tokens)] = tokens
            return True
        tokens, faults = (self._words.take(places) for places in self._places)
        if np.count_nonzero(faults):
            return False
        token_ids[self._rows] = tokens
        return True


class WarmStep:
    """A captured step of requests that stay in their rows.

    All that depends on them alone is settled: the host asks for what changes from step to step, writes it to
    where the graph copies it from, starts the graph, and reads the tokens where it leaves them.
    """

    def __init__(
        self,
        captured: CapturedStep,
        pieces: Sequence[GroupPiece],
        upload: Upload,
        tables: EditTables,
        tokens: TokenRoom,
        batch: Batch,
        target: int,
        ahead: Sequence[int],
    ) -> None:
        """`target` and `ahead` are the numbers of uploaded arrays: of the address of the tokens, and of
        `Batch.ahead`."""
        self.captured = captured
        self._tables, self._tokens = tables, tokens
        self._n = len(batch.token_ids)
        self._asked = [
            _Asked(inputs, {name: upload.place(number) for name, number in inputs.numbers.items()})
            for piece in pieces
            for inputs in piece.asked
        ]
        revisions = [piece.revision for piece in pieces if piece.revision is not None]
        self._listed = [_Listed(r.rows, upload.place(r.changes[0])) for r in revisions]
        self._generation = tables.generation
        self._ahead = [upload.place(number) for number in ahead]
        self._target = upload.place(target)
        request = batch.logprobs
        self._logprobs = None if request is None else (request.kinds, request.top_n)
        self._verdicts = _verdicts_of(captured)

    @staticmethod
    def fits(pieces: Sequence[GroupPiece]) -> bool:
        """Whether all that changes from step to step is what `begin` writes."""
        return not any(piece.group.masked for piece in pieces) and all(
            piece.revision is None or (piece.revision.new is None and len(piece.revision.changes) == 1)
            for piece in pieces
        )

    def begin(self, batch: Batch) -> bool:
        """Queue the step, and leave its tokens on the device. False, with nothing queued, if anything is of
        another form than before."""
        self._tables.give_up()
        try:
            if not self._is_alike(batch) or not self._write(batch):
                return False
        except INTERRUPTIONS:
            raise
        except BaseException:  # of a sampler: the general way finds out which
            return False
        self._target[0] = self._tokens.address(self._n)
        batch.token_ids_on_device = self.captured.start(self._tokens)
        self._tables.settle()
        return True

    def finish(self, batch: Batch) -> bool:
        """Wait, and write the tokens. False if the results are more than tokens, or some row has none."""
        if self._verdicts is None:
            return False
        self.captured.download.wait()
        return self._verdicts.write(batch.token_ids)

    def _is_alike(self, batch: Batch) -> bool:
        """Whether the same is wanted as before, and tables lie where they did."""
        if self._tables.generation != self._generation:
            return False
        request = batch.logprobs
        if request is None or self._logprobs is None:
            return request is None and self._logprobs is None
        return request.kinds is self._logprobs[0] and request.top_n is self._logprobs[1]

    def _write(self, batch: Batch) -> bool:
        """Write what the graph copies; False if something is of another form."""
        for inputs, places in self._asked:
            arrays = inputs.again()
            if arrays is None or arrays.keys() != places.keys():
                return False
            for name, array in arrays.items():
                if not _put(places[name], array):
                    return False
        if len(self._ahead) != len(batch.ahead or ()):
            return False
        for place, array in zip(self._ahead, batch.ahead or (), strict=True):
            if not _put(place, array):
                return False
        return all(self._tables.go_on(rows, change) for rows, change in self._listed)


def place_of(logits: Tensor) -> Hashable:
    """Where logits are, and of which form."""
    return logits.data_ptr(), logits.dtype, logits.shape, logits.stride(0)


def _verdicts_of(captured: CapturedStep) -> _Verdicts | None:
    """Those of all its rows; None if there are other results."""
    if not all(result.is_plain for result in captured.results):
        return None
    places = [result.verdict_words for result in captured.results]
    tokens, faults = (np.concatenate(some) for some in zip(*places, strict=True))
    rows = np.concatenate([result.piece.index for result in captured.results])
    return _Verdicts(captured.download.landed.reshape(-1).view(np.int64), tokens, faults, rows)


def _put(place: np.ndarray, array: np.ndarray) -> bool:
    """Write `array` to its place; False if it has another form."""
    if array.shape != place.shape or array.dtype != place.dtype:
        return False
    place[...] = array
    return True
