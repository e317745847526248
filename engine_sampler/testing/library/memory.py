"""Memory for a library's inputs: ordinary memory, compared afterwards, or pages that cannot be written."""

from __future__ import annotations

import ctypes
import mmap
import sys

import numpy as np


class Memory:
    """Ordinary memory: `changed` names the arrays that are not as they were `put`."""

    def __init__(self) -> None:
        self._arrays: list[tuple[str, np.ndarray, bytes]] = []

    def put(self, name: str, values: np.ndarray) -> np.ndarray:
        """A copy of `values`, which the library may read."""
        copy = self._place(values)
        self._arrays.append((name, copy, values.tobytes()))
        return copy

    def array(self, name: str) -> np.ndarray:
        """The copy that was put last under a name."""
        return next(array for its, array, _ in reversed(self._arrays) if its == name)

    def has(self, name: str) -> bool:
        """Whether something was put under a name."""
        return any(its == name for its, _, _ in self._arrays)

    def replace(self, name: str, values: np.ndarray) -> None:
        """Overwrite the copy that was put last under a name."""
        array = self.array(name)
        array[...] = values
        self._arrays = [
            (its, other, array.tobytes() if other is array else before) for its, other, before in self._arrays
        ]

    def seal(self) -> None:
        """The call begins."""

    def unseal(self) -> None:
        """The call has ended."""

    def changed(self) -> list[str]:
        """The names of the arrays that the call has changed."""
        return [name for name, array, before in self._arrays if array.tobytes() != before]

    def _place(self, values: np.ndarray) -> np.ndarray:
        return values.copy()


class SealedMemory(Memory):
    """Pages that cannot be written during the call; an array ends where its last page does, and what follows
    cannot even be read. A library that does either is ended by the system."""

    def __init__(self) -> None:
        super().__init__()
        self._pages: list[mmap.mmap] = []

    def seal(self) -> None:
        for pages in self._pages:
            _protect(pages, 0, len(pages) - mmap.PAGESIZE, _READ)
            _protect(pages, len(pages) - mmap.PAGESIZE, mmap.PAGESIZE, _NOTHING)

    def unseal(self) -> None:
        for pages in self._pages:
            _protect(pages, 0, len(pages), _READ | _WRITE)

    def _place(self, values: np.ndarray) -> np.ndarray:
        whole = -(-max(values.nbytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        pages = mmap.mmap(-1, whole + mmap.PAGESIZE)
        self._pages.append(pages)
        held = np.frombuffer(pages, np.uint8)[whole - values.nbytes : whole]
        copy = held.view(values.dtype).reshape(values.shape)
        copy[...] = values
        return copy


def can_seal() -> bool:
    """Whether this system has `mprotect`."""
    return sys.platform != "win32"


_NOTHING, _READ, _WRITE = 0, 1, 2


def _protect(pages: mmap.mmap, start: int, size: int, access: int) -> None:
    address = np.frombuffer(pages, np.uint8).__array_interface__["data"][0] + start
    system = ctypes.CDLL(None, use_errno=True)
    if system.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), access):
        raise OSError(ctypes.get_errno(), "mprotect failed")
