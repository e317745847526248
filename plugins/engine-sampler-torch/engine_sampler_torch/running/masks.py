"""Grammar masks on the device: copied during the forward pass, or with the upload of the step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine_sampler import Batch

from .transfer import Upload


@dataclass(frozen=True)
class MasksOnDevice:
    """What `prepare` has copied: int32 [requests, words], there once `event` has happened."""

    masks: Tensor
    event: Any

    def ready(self) -> Tensor:
        """The masks, for work on the current stream."""
        if self.event is not None:
            stream = torch.cuda.current_stream(self.masks.device)
            stream.wait_event(self.event)
            self.masks.record_stream(stream)
        return self.masks


def prepare(bitmask: np.ndarray, device: torch.device) -> MasksOnDevice:
    """Start to copy `bitmask`; on CUDA beside the forward pass, which runs on the current stream."""
    if device.type != "cuda":
        return MasksOnDevice(torch.from_numpy(bitmask.copy()).to(device), None)
    host = torch.empty(bitmask.shape, dtype=torch.int32, pin_memory=True)
    host.numpy()[:] = bitmask
    stream = _streams.setdefault(device, torch.cuda.Stream(device))
    with torch.cuda.stream(stream):
        there = host.to(device, non_blocking=True)
        return MasksOnDevice(there, stream.record_event())


_streams: dict[torch.device, Any] = {}


class MaskRoom:
    """Where prepared masks are copied to, so that they lie in the same place in every step."""

    def __init__(self) -> None:
        self._room: Tensor | None = None

    @property
    def memory(self) -> Tensor | None:
        return self._room

    def settle(self, prepared: MasksOnDevice) -> MasksOnDevice:
        """The same masks here, valid until the next step."""
        masks, room = prepared.ready(), self._room
        if room is None or room.device != masks.device or room.shape[1] != masks.shape[1]:
            room = None
        if room is None or len(room) < len(masks):
            room = self._room = torch.empty_like(masks)
        return MasksOnDevice(room[: len(masks)].copy_(masks), None)


class PieceMasks:
    """The masks of some rows of a step: taken from prepared ones where these hold, else uploaded."""

    def __init__(
        self, batch: Batch, index: np.ndarray, whole: slice | None, device: torch.device, upload: Upload
    ) -> None:
        """`whole`: the rows `index` as a slice, if they are one."""
        assert batch.bitmask is not None
        prepared = batch.prepared_masks
        self._prepared: MasksOnDevice | None = None
        missing: Sequence[int] = range(len(index))
        if prepared is not None and prepared.handle.masks.device == device:
            missing = [i for i, row in enumerate(index.tolist()) if row in prepared.changed]
            if len(missing) < len(index):
                self._prepared = prepared.handle
        self._missing = len(missing)
        self._index = upload.add(index)
        self._places = upload.add(np.array(missing, np.int64))
        some = whole if whole is not None and len(missing) == len(index) else index[missing]
        self._words = upload.add(batch.bitmask[some])
        self._upload = upload

    @property
    def place(self) -> tuple[int, int] | None:
        """Where the masks are that `prepare` has copied, and how many; None without any."""
        masks = None if self._prepared is None else self._prepared.masks
        return None if masks is None else (masks.data_ptr(), len(masks))

    def on_device(self) -> Tensor:
        """int32 [n, words]."""
        words = self._upload[self._words]
        if self._prepared is None:
            return words
        masks = self._prepared.ready().index_select(0, self._upload[self._index])
        return masks.index_copy_(0, self._upload[self._places], words) if self._missing else masks
