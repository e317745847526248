"""`WarmStep`: what is left for the host in a step like the one before it, whose work is a graph."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from engine_sampler.contract import Batch
from engine_sampler.for_backends import INTERRUPTIONS

from .captured import CapturedStep, TokenRoom
from .landed import LandedResults, starts_of
from .masks import MasksOnDevice, prepared_masks
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
        self._masks = [piece.masks.on_host() for piece in pieces if piece.masks is not None]
        self._device = upload.device
        self._ahead = [upload.place(number) for number in ahead]
        self._target = upload.place(target)
        self._request = batch.logprobs
        self._landed = LandedResults.of(captured, batch.logprobs)

    @staticmethod
    def fits(pieces: Sequence[GroupPiece]) -> bool:
        """Whether all that changes from step to step is what `begin` writes."""
        return all(
            (piece.revision is None or (piece.revision.new is None and len(piece.revision.changes) == 1))
            and (piece.masks.are_of_one_kind if piece.masks is not None else not piece.group.masked)
            for piece in pieces
        )

    def begin(self, batch: Batch) -> bool:
        """Queue the step, and leave its tokens on the device. False, with nothing queued, if anything is of
        another form than before."""
        self._tables.give_up()
        masks = prepared_masks(batch, self._device) if self._masks else None
        try:
            if not self._is_alike(batch) or not self._write(batch, masks):
                return False
        except INTERRUPTIONS:
            raise
        except BaseException:  # of a sampler: the general way finds out which
            return False
        self._target[0] = self._tokens.address(self._n)
        if masks is not None:
            masks.ready()
        batch.token_ids_on_device = self.captured.start(self._tokens)
        if masks is not None:
            masks.release()
        self._tables.settle()
        return True

    def finish(self, batch: Batch) -> bool:
        """Wait, and write the results. False, with nothing written, if they are of other kinds, or if some
        row has no token."""
        if self._landed is None:
            return False
        self.captured.download.wait()
        return self._landed.write(batch)

    def _is_alike(self, batch: Batch) -> bool:
        """Whether the same is wanted as before, and tables lie where they did."""
        if self._tables.generation != self._generation:
            return False
        request, before = batch.logprobs, self._request
        if request is None or before is None:
            return request is before
        return (
            request.kinds is before.kinds
            and request.top_n is before.top_n
            and starts_of(request) is starts_of(before)
        )

    def _write(self, batch: Batch, prepared: MasksOnDevice | None) -> bool:
        """Write what the graph copies; False if something is of another form. `prepared`: the masks that it
        finds on the device already."""
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
        if not all(masks.write(batch, prepared) for masks in self._masks):
            return False
        return all(self._tables.go_on(rows, change) for rows, change in self._listed)


def place_of(logits: Tensor) -> Hashable:
    """Where logits are, and of which form."""
    return logits.data_ptr(), logits.dtype, logits.shape, logits.stride(0)


def _put(place: np.ndarray, array: np.ndarray) -> bool:
    """Write `array` to its place; False if it has another form."""
    if array.shape != place.shape or array.dtype != place.dtype:
        return False
    place[...] = array
    return True
