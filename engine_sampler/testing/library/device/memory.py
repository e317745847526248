"""Memory of a device and pinned memory, as a library gives it, with guards before and after."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....backends.library.binding import Context
from ....backends.library.header import contract, number

GUARD = 4096
"""Bytes before and after everything; no device asks for a greater alignment."""

_RUBBISH = 0xA7
"""What memory holds at first."""

NEEDED = ("allocate", "deallocate", "copy")
"""Functions without which nothing can be put on a device."""


class GuardedMemory:
    """The blocks that a check has taken from a context.

    live  how many have not been given back.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        functions = context.library.function
        self._allocate, self._deallocate, self._copy = map(functions, NEEDED)
        self._blocks: list[GuardedBlock] = []

    @property
    def live(self) -> int:
        return len(self._blocks)

    def take(
        self, n_bytes: int, *, pinned: bool = False, ahead: int = 0, filled: bool = True
    ) -> GuardedBlock:
        """A block of `n_bytes`, the first of which is `ahead` bytes behind a multiple of `GUARD`'s alignment.
        Raises `Refusal` or `LibraryError`."""
        memory = number("ES_MEMORY_PINNED" if pinned else "ES_MEMORY_DEVICE")
        whole, out = n_bytes + ahead + 2 * GUARD, contract().new("void **")
        self.context.check("allocate", self._allocate(self.context.pointer, memory, whole, out))
        block = GuardedBlock(self, memory, out[0], whole, GUARD + ahead, n_bytes)
        wrong = self._problem(block)
        if wrong:
            raise self.context.library.error(f"allocate gave memory {wrong}")
        self._blocks.append(block)
        if filled:
            block.fill()
        return block

    def free(self, block: GuardedBlock) -> None:
        """Give a block back. Raises `LibraryError` if the library refuses it."""
        self._blocks.remove(block)
        self.context.check("deallocate", self._deallocate(self.context.pointer, block.memory, block.start))

    def free_all(self) -> None:
        """Give back what is left."""
        for block in list(self._blocks):
            self.free(block)

    def copy(self, to: Any, source: Any, n_bytes: int, *, to_device: bool) -> None:
        """Copy bytes between the host and the device, once the default stream is there."""
        null = contract().NULL
        code = self._copy(self.context.pointer, to, source, n_bytes, to_device, null)
        self.context.check("copy", code)

    def _problem(self, block: GuardedBlock) -> str | None:
        if not block.start:
            return "at NULL"
        own = range(block.address, block.address + block.whole)
        for other in self._blocks:
            if other.address < own.stop and own.start < other.address + other.whole:
                return "that is in use"
        return None


class GuardedBlock:
    """Some memory.

    pointer  a `void *` to its first byte behind the guard; `address` is that of the guard.
    """

    def __init__(
        self, owner: GuardedMemory, memory: int, start: Any, whole: int, first: int, n_bytes: int
    ) -> None:
        self._owner, self.memory, self.start, self.whole = owner, memory, start, whole
        self._first, self.n_bytes = first, n_bytes
        self.address = int(contract().cast("uintptr_t", start))
        self.pointer = self._at(first)

    def fill(self) -> None:
        """Fill all of it with arbitrary bytes."""
        self._write(0, np.full(self.whole, _RUBBISH, np.uint8))

    def write(self, values: np.ndarray) -> None:
        """Write `values` from the first byte on."""
        self._write(self._first, values)

    def read(self, dtype: Any = np.uint8) -> np.ndarray:
        """A copy of what it holds, once the default stream is there."""
        return self._read(self._first, self.n_bytes).view(dtype)

    def is_overrun(self) -> bool:
        """Whether a guard has been written."""
        end = self._first + self.n_bytes
        guards = (self._read(0, self._first), self._read(end, self.whole - end))
        return any((guard != _RUBBISH).any() for guard in guards)

    def free(self) -> None:
        self._owner.free(self)

    def _at(self, offset: int) -> Any:
        return contract().cast("void *", self.address + offset)

    def _write(self, offset: int, values: np.ndarray) -> None:
        source = contract().from_buffer(np.ascontiguousarray(values))
        if self.memory == number("ES_MEMORY_PINNED"):
            contract().memmove(self._at(offset), source, values.nbytes)
        else:
            self._owner.copy(self._at(offset), source, values.nbytes, to_device=True)

    def _read(self, offset: int, n_bytes: int) -> np.ndarray:
        out = np.empty(n_bytes, np.uint8)
        if self.memory == number("ES_MEMORY_PINNED"):
            contract().memmove(contract().from_buffer(out), self._at(offset), n_bytes)
        elif n_bytes:
            to = contract().from_buffer(out, require_writable=True)
            self._owner.copy(to, self._at(offset), n_bytes, to_device=False)
        return out
