"""`DeviceSteps`: the part of a `LibraryBackend` that runs steps whose logits lie on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from ....arithmetic import LogitRows
from ....contract import Batch, SlotTable
from ..binding import Context, Device, Refusal
from ..declined import Fallback
from ..header import number
from ..session import LibrarySession
from .logits import DeviceTensor, device_tensor
from .memory import Allocate
from .names import KINDS, device_of
from .parts import DeviceParts, StagedMasks
from .steps import StepOnDevice, prepare_step

NewSession = Callable[[SlotTable, Device], LibrarySession]


class DeviceSteps:
    """A library's contexts on devices, and the steps that it runs there.

    `new_context` and `new_session` open the library for a device; `allocate` is the engine's pool.
    """

    def __init__(
        self,
        new_context: Callable[[Device], Context],
        new_session: NewSession,
        allocate: Allocate | None,
    ) -> None:
        self._new_context, self._new_session = new_context, new_session
        self._allocate = allocate
        self._contexts: dict[Device, Context | None] = {}
        self._parts: WeakKeyDictionary[SlotTable, dict[Device, DeviceParts]] = WeakKeyDictionary()
        self._latest: WeakValueDictionary[Device, DeviceParts] = WeakValueDictionary()
        """Whose steps ran on a device last."""

    def context_on(self, device: Device | None) -> Context | None:
        """A context on `device`, for questions; None if the library does not serve it."""
        if device is None or device.type not in KINDS:
            return None
        if device not in self._contexts:
            try:
                self._contexts[device] = self._new_context(device)
            except Refusal as refusal:
                if refusal.code != number("ES_UNSUPPORTED"):
                    return None  # this time
                self._contexts[device] = None
        return self._contexts[device]

    def any_context(self) -> Context | None:
        """A context on the first kind of device that the library serves. Raises `Refusal` if it serves one,
        but cannot open it."""
        for kind in KINDS:
            device = Device(kind, 0)
            try:
                self._contexts[device] = context = self._new_context(device)
                return context
            except Refusal as refusal:
                if refusal.code != number("ES_UNSUPPORTED"):
                    raise
                self._contexts[device] = None
        return None

    def tensor(self, logits: LogitRows) -> DeviceTensor | None:
        """`logits` where they lie, if the library serves that device."""
        tensor = device_tensor(logits)
        if tensor is None or self.context_on(tensor.layout.device) is None:
            return None
        return tensor

    def begin(self, batch: Batch, fallback: Fallback, name: str, exact: bool) -> StepOnDevice | None:
        """Queue what the device runs of a step; None if it lies elsewhere. Raises `Refusal`."""
        tensor = self.tensor(batch.logits)
        groups = [group for group in batch.groups if len(group.index)]
        if tensor is None or not groups:
            return None
        step: StepOnDevice | None = batch.cache.get(self)
        if step is not None and step.begin(batch):
            return step
        batch.cache.pop(self, None)
        parts = self._parts_of(groups[0].rows.slots, tensor.layout.device)
        step = prepare_step(parts, fallback, name, exact, batch, groups, tensor)
        if not step.begin(batch):
            raise AssertionError("the preparation does not fit its own batch")
        batch.cache[self] = step
        return step

    def prepare_masks(self, bitmask: np.ndarray, rows: Sequence[int], name: str) -> StagedMasks | None:
        """Start to copy masks to the device of this name, for the scheduler that has used it last."""
        device = device_of(name)
        parts = None if device is None else self._latest.get(device)
        return None if parts is None else parts.stage_masks(bitmask, rows)

    def _parts_of(self, slots: SlotTable, device: Device) -> DeviceParts:
        by_device = self._parts.setdefault(slots, {})
        if device not in by_device:
            session = self._new_session(slots, device)
            by_device[device] = DeviceParts(session, slots, self._allocate)
        self._latest[device] = by_device[device]
        return by_device[device]
