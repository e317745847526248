"""Whether memory is given back: of the device, pinned, and of the process."""

from __future__ import annotations

import numpy as np

from ....backends.library.binding import Device, Library, Refusal
from ..bench import Tally
from ..leaks import MEASURED, WARM, Held
from .calling import CallOptions, attempt
from .checks import Tried
from .room import RoomOnDevice
from .steps import drop, plain_steps

_LARGE, _TIMES = 1 << 24, 24
"""Bytes of the blocks that are taken one after another, and how many: a small device has fewer at once."""


def leaks(library: Library, device: Device, tally: Tally) -> Tried:
    """Hundreds of calls, requests, plans and contexts; memory taken and given back."""
    with RoomOnDevice(library, device, 47) as room:
        blocks = [room.memory.take(1 << k, pinned=k % 2 > 0) for k in range(4, 18)]
        for block in blocks[::2] + blocks[1::2]:
            values = np.arange(block.n_bytes, dtype=np.uint8)
            block.write(values)
            same = np.array_equal(block.read(), values)
            yield "memory written and read", None if same else "copy gives other bytes than were written"
        for block in blocks:
            block.free()
        yield "memory taken and given back", _given_back(room)
        yield from _calls(room, WARM, tally)
        before = Held()
        yield from _calls(room, MEASURED, tally)
        yield "memory of the process", before.grown()
    for turn in range(12):
        with RoomOnDevice(library, device, 47) as room:
            for step in plain_steps(room, 3, turn):
                yield "contexts opened and closed", attempt(room, step, tally)[0]


def _given_back(room: RoomOnDevice) -> str | None:
    """Take more than there may be, and give each block back before the next: of the device, and pinned."""
    for pinned in (False, True):
        for turn in range(_TIMES):
            try:
                room.memory.free(room.memory.take(_LARGE, pinned=pinned, filled=False))
            except Refusal as refusal:
                return f"{refusal}, for block {turn + 1} of {_LARGE:,} bytes, all others being given back"
    return None


def _calls(room: RoomOnDevice, n: int, tally: Tally) -> Tried:
    done = 0
    while done < n:
        for step in plain_steps(room, 1 + done % 4, done):
            yield (
                "calls, and requests that leave",
                attempt(room, step, tally, CallOptions(polls=done % 2 > 0))[0],
            )
            drop(room, step)
            done += 1
