"""Grammar masks on the device: copied during the forward pass, or with the upload of the step."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine_sampler.contract import Batch

from .transfer import Upload


class MasksOnDevice:
    """Masks that `prepare` has copied.

    masks   int32 [n, words], valid between `ready` and the next `prepare` of the same requests, and in the
            same place in every step of theirs.
    places  int64 [requests], which of them is of which request; −1 for none.
    """

    def __init__(self, masks: Tensor, places: np.ndarray, stage: _Stage) -> None:
        self.masks = masks
        self.places = places
        self._stage = stage

    def ready(self) -> None:
        """Let work that is queued from now on find them."""
        self._stage.lend()

    def release(self) -> None:
        """All work that reads them is queued."""
        self._stage.take_back()

    def is_like(self, before: MasksOnDevice) -> bool:
        """Whether they lie where those of an earlier step did, request by request."""
        return self.masks is before.masks and (
            self.places is before.places or np.array_equal(self.places, before.places)
        )


class _Stage:
    """Where the masks of some requests are on the host, pinned, and on a device, step after step."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._host = self._there = torch.empty((0, 0), dtype=torch.int32)
        self._copied: Any = None
        self._read: Any = None
        self._is_lent = False
        self._places = np.zeros(0, np.int64)
        self._rows: Sequence[int] | None = None
        """The rows that were sent last, for which `_places` holds."""

    def send(self, bitmask: np.ndarray, rows: Sequence[int]) -> MasksOnDevice:
        """Start to copy the rows `rows` of `bitmask`; on CUDA beside the forward pass, which runs on the
        current stream, and behind what reads the ones before them."""
        if rows != self._rows or len(bitmask) != len(self._places):
            self._places, self._rows = np.full(len(bitmask), -1, np.int64), [*rows]
            self._places[self._rows] = np.arange(len(rows))
        places = self._places
        if self._device.type != "cuda":
            self._make_room(len(rows), bitmask.shape[1])
            self._there.copy_(torch.from_numpy(bitmask[rows]))
            return MasksOnDevice(self._there, places, self)
        stream = _stream_of(self._device)
        if self._copied is not None:
            self._copied.synchronize()
        if self._is_lent:  # to a step that has failed
            self.take_back()
        with torch.cuda.stream(stream):
            self._make_room(len(rows), bitmask.shape[1])
            np.take(bitmask, rows, 0, self._host.numpy(), "clip")
            if self._read is not None:
                stream.wait_event(self._read)
            self._there.copy_(self._host, non_blocking=True)
            self._copied = stream.record_event()
        return MasksOnDevice(self._there, places, self)

    def lend(self) -> None:
        self._is_lent = True
        if self._copied is not None:
            stream = torch.cuda.current_stream(self._device)
            stream.wait_event(self._copied)
            self._there.record_stream(stream)

    def take_back(self) -> None:
        self._is_lent = False
        if self._copied is not None:
            self._read = torch.cuda.current_stream(self._device).record_event()

    def _make_room(self, rows: int, words: int) -> None:
        if self._there.shape != (rows, words):
            is_pinned = self._device.type == "cuda"
            self._host = torch.empty((rows, words), dtype=torch.int32, pin_memory=is_pinned)
            self._there = torch.empty((rows, words), dtype=torch.int32, device=self._device)


def prepare(bitmask: np.ndarray, rows: Sequence[int], device: torch.device) -> MasksOnDevice:
    """Start to copy the rows `rows` of `bitmask`, an array that is filled anew for each step of the same
    requests. What was prepared of it before is no longer valid."""
    kept = _stages.get(id(bitmask))
    if kept is None or kept[0]() is not bitmask or kept[1] != device:
        key = id(bitmask)
        kept = weakref.ref(bitmask, lambda _: _stages.pop(key, None)), device, _Stage(device)
        _stages[key] = kept
    return kept[2].send(bitmask, rows)


_stages: dict[int, tuple[weakref.ref[np.ndarray], torch.device, _Stage]] = {}
"""By the address of the array on the host, as long as there is one."""


@functools.cache
def _stream_of(device: torch.device) -> Any:
    """The stream of copies to a card."""
    return torch.cuda.Stream(device)


def prepared_masks(batch: Batch, device: torch.device) -> MasksOnDevice | None:
    """The masks of a step that `prepare` has copied to this device; None without any."""
    prepared = batch.prepared_masks
    masks: MasksOnDevice | None = None if prepared is None else prepared.handle
    return masks if masks is not None and masks.masks.device == device else None


class PieceMasks:
    """The masks of some rows of a step: taken from prepared ones where these hold, else uploaded."""

    def __init__(
        self, batch: Batch, index: np.ndarray, whole: slice | None, device: torch.device, upload: Upload
    ) -> None:
        """`whole`: the rows `index` as a slice, if they are one."""
        assert batch.bitmask is not None
        prepared = prepared_masks(batch, device)
        self._prepared: MasksOnDevice | None = None
        self._places: int | None = None
        missing: Sequence[int] = range(len(index))
        if prepared is not None and batch.prepared_masks is not None:
            places, changed = prepared.places[index], batch.prepared_masks.changed
            missing = np.flatnonzero(places < 0).tolist()
            if changed:
                pairs = enumerate(zip(index.tolist(), places.tolist(), strict=True))
                missing = [i for i, (row, place) in pairs if place < 0 or row in changed]
            if len(missing) < len(index):
                self._prepared = prepared
                if missing or not np.array_equal(places, np.arange(len(prepared.masks))):
                    self._places = upload.add(np.maximum(places, 0))
        self._missing = upload.add(np.array(missing, np.int64)) if missing else None
        if missing:
            some = whole if whole is not None and len(missing) == len(index) else index[missing]
            self._words = upload.add(batch.bitmask[some])
        self._upload = upload
        self._rows = index

    @property
    def are_of_one_kind(self) -> bool:
        """Whether all of them are prepared, or all uploaded."""
        return self._prepared is None or self._missing is None

    def on_host(self) -> WarmMasks:
        """Where the graph of this step copies them from, if they are of one kind."""
        numbers = (number for number in (self._places, self._missing) if number is not None)
        fixed = [(self._upload.place(number), self._upload.array(number)) for number in numbers]
        words = self._upload.place(self._words) if self._prepared is None else None
        return WarmMasks(self._prepared, self._rows, words, fixed)

    @property
    def place(self) -> tuple[int, int, bool, bool] | None:
        """Where the masks are that `prepare` has copied, how many, and what is made of them; None without
        any."""
        masks = None if self._prepared is None else self._prepared.masks
        if masks is None:
            return None
        return masks.data_ptr(), len(masks), self._places is None, self._missing is None

    @property
    def memory(self) -> Tensor | None:
        """What is read, beside what is uploaded."""
        return None if self._prepared is None else self._prepared.masks

    def on_device(self) -> Tensor:
        """int32 [n, words]."""
        if self._prepared is None:
            return self._upload[self._words]
        masks = self._prepared.masks
        if self._places is not None:
            masks = masks.index_select(0, self._upload[self._places])
        if self._missing is not None:
            masks.index_copy_(0, self._upload[self._missing], self._upload[self._words])
        return masks


class WarmMasks:
    """The masks of some rows, and where the graph of a step finds them: those that `prepare` has copied, or
    what is written to `words`, int32 [n, words], where the graph copies it from."""

    def __init__(
        self,
        prepared: MasksOnDevice | None,
        rows: np.ndarray,
        words: np.ndarray | None,
        fixed: Sequence[tuple[np.ndarray, np.ndarray]],
    ) -> None:
        """`fixed`: what else is copied, and is the same in every step, with its places."""
        self._prepared, self._rows, self._words = prepared, rows, words
        self._fixed = fixed

    def write(self, batch: Batch, prepared: MasksOnDevice | None) -> bool:
        """Write those of a step, of which `prepare` has copied `prepared`; False if they come another way."""
        bitmask, words = batch.bitmask, self._words
        if words is None:
            if not self._are_prepared_again(batch, prepared):
                return False
        elif prepared is not None or bitmask is None or bitmask.shape[1] != words.shape[1]:
            return False
        else:
            np.take(bitmask, self._rows, 0, words, "clip")
        for place, array in self._fixed:
            place[...] = array
        return True

    def _are_prepared_again(self, batch: Batch, prepared: MasksOnDevice | None) -> bool:
        """Whether all of them have been copied to where they were, and still hold."""
        if prepared is None or self._prepared is None or batch.prepared_masks is None:
            return False
        return not batch.prepared_masks.changed and prepared.is_like(self._prepared)
