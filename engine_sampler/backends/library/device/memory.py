"""Memory of a device, from the engine's pool or from the library."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from ..binding import Context, Refusal
from ..header import contract, number
from .logits import exported

Allocate = Callable[[int], Any]
"""Gives an array of at least this many bytes of a device's memory, which exports itself by DLPack; the memory
is free again when the array is no longer referenced."""


class _Unused(NamedTuple):
    """Memory that a library has given, and that nobody uses."""

    kind: int
    n_bytes: int
    pointer: Any


_ALIGNMENT = 64
"""Of memory that the host brings, in bytes."""

_MOST_UNUSED = 8
"""This many blocks are kept for the next steps, such as those of tokens."""


class MemoryBlock:
    """Some memory: `pointer` is a `void *`, valid as long as this object or `owner` lives."""

    def __init__(self, pointer: Any, owner: Any = None) -> None:
        self.pointer = pointer
        self.owner = owner


NOTHING = MemoryBlock(contract().NULL)


class DeviceMemory:
    """The memory that a context's plans and outputs are given.

    It comes from the engine's pool if there is one, else from the library. What is no longer used is given
    back between two steps, by the thread that runs them: a library is called by one at a time.
    """

    def __init__(self, context: Context, allocate: Allocate | None) -> None:
        self._context = context
        self._allocate = allocate
        self._unused: deque[_Unused] = deque()

    def device(self, n_bytes: int, like: Any = None) -> MemoryBlock:
        """Memory of the device; `like` is an array of the engine on it, whose framework may have a pool."""
        if n_bytes <= 0:
            return NOTHING
        if self._allocate is not None:
            array = self._allocate(n_bytes)
            capsule, tensor = exported(array, None)
            address = contract().cast("char *", tensor.data) + tensor.byte_offset
            return MemoryBlock(contract().cast("void *", address), (array, capsule))
        if hasattr(like, "new_empty") and hasattr(like, "data_ptr"):  # torch
            tensor = like.new_empty(n_bytes, dtype=sys.modules["torch"].uint8)
            return MemoryBlock(contract().cast("void *", tensor.data_ptr()), tensor)
        return self._of_library("ES_MEMORY_DEVICE", n_bytes)

    def pinned(self, n_bytes: int) -> MemoryBlock:
        """Memory of the host from which the device copies without a detour."""
        if n_bytes <= 0:
            return NOTHING
        if self._context.library.function("allocate") is None:
            block = contract().new("char[]", n_bytes + _ALIGNMENT)
            address = int(contract().cast("uintptr_t", block))
            return MemoryBlock(contract().cast("void *", address + -address % _ALIGNMENT), block)
        return self._of_library("ES_MEMORY_PINNED", n_bytes)

    def clean_up(self) -> None:
        """Give back what has been unused for long; called between steps."""
        deallocate = self._context.library.function("deallocate")
        while len(self._unused) > _MOST_UNUSED:
            unused = self._unused.popleft()
            if deallocate is not None and self._context.memory.pop(unused.pointer, None) is not None:
                code = deallocate(self._context.pointer, unused.kind, unused.pointer)
                self._context.check("deallocate", code)

    def _of_library(self, kind: str, n_bytes: int) -> MemoryBlock:
        memory = number(kind)
        for unused in list(self._unused):
            if (unused.kind, unused.n_bytes) == (memory, n_bytes):
                self._unused.remove(unused)
                return MemoryBlock(unused.pointer, _LibraryMemory(self._context, self._unused, unused))
        allocate, out = self._context.library.function("allocate"), contract().new("void **")
        if allocate is None:
            raise self._context.library.error("it asks for memory, and has no function allocate")
        code = allocate(self._context.pointer, memory, n_bytes, out)
        self._context.check("allocate", code)
        if not out[0]:
            raise Refusal(number("ES_NO_MEMORY"), "allocate gave no memory")
        self._context.memory[out[0]] = memory
        unused = _Unused(memory, n_bytes, out[0])
        return MemoryBlock(out[0], _LibraryMemory(self._context, self._unused, unused))


class _LibraryMemory:
    """Puts memory among the unused when nothing refers to it any more; until then its context is open."""

    def __init__(self, context: Context, unused: deque[_Unused], memory: _Unused) -> None:
        self._context, self._unused, self._memory = context, unused, memory

    def __del__(self) -> None:
        self._unused.append(self._memory)
