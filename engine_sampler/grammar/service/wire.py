"""Messages between the engine's process and a worker: pickled objects whose arrays of integers follow as
plain bytes, so that receiving a large grammar holds the interpreter's lock for microseconds at a time."""

from __future__ import annotations

import io
import os
import pickle
import struct
from array import array
from typing import Any

from ..errors import GrammarLimitError

MAX_BYTES = 512 << 20
"""The most bytes of a message."""

MAX_PARTS = 1 << 16
"""The most parts of a message: the pickled object and its arrays."""

CHUNK = 1 << 16
"""Bytes that are read or written at a time: what a pipe holds."""

_COUNT = struct.Struct("<I")


class _Pickler(pickle.Pickler):
    """Leaves out arrays of integers, and collects them in `arrays`."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.arrays: list[array[int]] = []

    def persistent_id(self, value: Any) -> int | None:
        if type(value) is not array or value.typecode != "i":
            return None
        self.arrays.append(value)
        return len(self.arrays) - 1


class _Unpickler(pickle.Unpickler):
    """Puts `arrays` where a `_Pickler` left them out."""

    def __init__(self, payload: bytes | bytearray, arrays: list[array[int]]) -> None:
        super().__init__(io.BytesIO(payload))
        self._arrays = arrays

    def persistent_load(self, number: Any) -> array[int]:
        return self._arrays[number]


def encode(message: Any) -> list[bytes | memoryview]:
    """The parts of `message` in order, to be written one after the other.

    Raises GrammarLimitError for a message with more than `MAX_BYTES`, and what pickle raises for one that
    cannot be pickled.
    """
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(message)
    parts = [file.getbuffer(), *(memoryview(values).cast("B") for values in pickler.arrays if len(values))]
    sizes = [file.getbuffer().nbytes, *(len(values) * values.itemsize for values in pickler.arrays)]
    if sum(sizes) > MAX_BYTES or len(sizes) > MAX_PARTS:
        raise GrammarLimitError(f"the grammar takes {sum(sizes)} bytes, the limit is {MAX_BYTES}")
    return [_COUNT.pack(len(sizes)), struct.pack(f"<{len(sizes)}Q", *sizes), *parts]


def send(descriptor: int, parts: list[bytes | memoryview]) -> None:
    """Write an encoded message to a pipe. Raises OSError if nobody reads it."""
    for part in parts:
        view = memoryview(part)
        while view:
            view = view[os.write(descriptor, view[:CHUNK]) :]


def receive(descriptor: int) -> Any:
    """The next message of a pipe. Raises EOFError if the pipe ends, ValueError for a malformed message."""
    (count,) = _COUNT.unpack(_read(descriptor, _COUNT.size))
    if not 1 <= count <= MAX_PARTS:
        raise ValueError(f"a message with {count} parts is not allowed: 1..{MAX_PARTS}")
    sizes = struct.unpack(f"<{count}Q", _read(descriptor, 8 * count))
    if sum(sizes) > MAX_BYTES:
        raise ValueError(f"a message of {sum(sizes)} bytes is not allowed: at most {MAX_BYTES}")
    payload = _read(descriptor, sizes[0])
    return _Unpickler(payload, [_read_array(descriptor, size) for size in sizes[1:]]).load()


def _read(descriptor: int, size: int) -> bytearray:
    data = bytearray()
    while len(data) < size:
        data += _read_some(descriptor, size - len(data))
    return data


def _read_array(descriptor: int, size: int) -> array[int]:
    values = array("i")
    if size % values.itemsize:
        raise ValueError(f"an array of {size} bytes is not allowed: a multiple of {values.itemsize}")
    left, rest = size, b""
    while left:
        chunk = rest + _read_some(descriptor, left)
        left -= len(chunk) - len(rest)
        whole = len(chunk) - len(chunk) % values.itemsize
        values.frombytes(chunk[:whole])
        rest = chunk[whole:]
    return values


def _read_some(descriptor: int, size: int) -> bytes:
    chunk = os.read(descriptor, min(size, CHUNK))
    if not chunk:
        raise EOFError("the pipe has ended")
    return chunk
