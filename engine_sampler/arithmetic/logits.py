"""Logits in every form an engine provides: NumPy, torch, DLPack, the buffer protocol or `__array__`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .integer_weights import LOGIT_LIMIT

SUPPORTED = ("float32", "float16", "bfloat16")
"""The types of logits."""

_FLOATS = np.dtype(np.float32), np.dtype(np.float16)


class OnStream:
    """Logits on a device, and where in its order of work they are ready: what a library behind
    `engine_sampler.h` needs to know of arrays other than torch's, whose current stream is looked up.

    logits  an array on a device, [rows, width], such as a scheduler takes.
    stream  the address of the stream on which the engine goes on, in the device's own type, as an int; 0 is
            its default stream. Sampling is queued there.
    ready   the address of an event behind which the logits are there; 0 if the stream itself writes them.

    Raises TypeError for addresses that are not ints, ValueError for negative ones.
    """

    __slots__ = ("logits", "ready", "stream")

    def __init__(self, logits: Any, stream: int = 0, ready: int = 0) -> None:
        for name, address in (("stream", stream), ("ready", ready)):
            if type(address) is not int:
                raise TypeError(
                    f"{name} is of type {type(address).__name__}; allowed is an address as an int"
                )
            if not 0 <= address < 1 << 64:
                raise ValueError(f"{name}={address} is not allowed: an address of 64 bits")
        self.logits = logits
        self.stream = stream
        self.ready = ready


class LogitRows:
    """Rows of logits [rows, width], width ≥ vocab_size; `row(i)` gives float32 [vocab_size].

    `logits` may be in any form that an engine provides, also `OnStream`. float32 rows are views of the
    caller's memory and never written to; float16 and bfloat16 rows are widened exactly, one at a time. Any
    row stride is allowed, including 0 and negative ones. Logits on another device stay there: what is read of
    them is copied to the host, once. `LogitRows` may itself be passed as `logits`, and then shares these
    copies. Raises TypeError for other dtypes, ValueError for other shapes, without copying anything.
    """

    __slots__ = ("__weakref__", "_array", "bfloat16", "device", "remote", "shape", "source", "vocab_size")
    _array: np.ndarray | None
    bfloat16: bool
    device: str
    """Where the logits lie: "cpu", "cuda:0", …"""
    remote: RemoteRows | None
    """The rows of logits on another device, as far as copied to the host; None for logits in its memory."""
    shape: tuple[int, ...]
    source: Any
    """The logits as the caller gave them, for backends that read them where they lie."""
    vocab_size: int

    def __init__(self, logits: Any, vocab_size: int) -> None:
        array: np.ndarray | None
        if type(logits) is np.ndarray:  # the most frequent case, in few steps
            self.device, self.remote, self.source = "cpu", None, logits
            array, self.bfloat16 = _with_dtype_checked(logits)
            shape = array.shape
        elif isinstance(logits, LogitRows):
            array, self.bfloat16, self.remote = logits._array, logits.bfloat16, logits.remote
            self.device, self.source, shape = logits.device, logits.source, logits.shape
        else:
            order, logits = (logits, logits.logits) if isinstance(logits, OnStream) else (None, logits)
            self.device = device = _text_of(getattr(logits, "device", "cpu"))
            self.source, self.remote = logits, None
            if device != "cpu" and (remote := RemoteRows.of(logits, device)) is not None:
                remote.order = order
                array, self.bfloat16, self.remote, shape = None, remote.bfloat16, remote, remote.shape
            else:
                array, self.bfloat16 = _as_numpy(logits)
                shape = array.shape
        if len(shape) != 2:
            raise ValueError(f"logits have shape {shape}; allowed is [rows, vocab]")
        if shape[1] < vocab_size:
            raise ValueError(f"logits are {shape[1]} wide; the vocabulary has {vocab_size} tokens")
        if array is not None and shape[1] > 1 and array.strides[1] != array.itemsize:
            array = np.ascontiguousarray(array)
        self._array = array
        self.shape = shape
        self.vocab_size = vocab_size

    @classmethod
    def from_bfloat16_bits(cls, bits: np.ndarray, vocab_size: int) -> LogitRows:
        """bfloat16 rows from their bits, uint16 [rows, width ≥ vocab_size]."""
        rows = cls(bits.view(np.float16), vocab_size)
        rows._array, rows.bfloat16, rows.source = rows.array.view(np.uint16), True, bits
        return rows

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def array(self) -> np.ndarray:
        """The rows in memory, [rows, width]; bfloat16 as uint16 that holds its bits. Columns are contiguous,
        rows may have any stride. Must not be written to. Reading it copies logits from another device as a
        whole."""
        if self.remote is not None:
            return self.remote.array
        assert self._array is not None
        return self._array

    @property
    def width(self) -> int:
        """The number of columns in the input, including padding of the head."""
        return int(self.shape[1])

    @property
    def copied_bytes(self) -> int:
        """How many bytes of logits have been copied from another device to the host."""
        return 0 if self.remote is None else self.remote.copied_bytes

    def row(self, i: int) -> np.ndarray:
        """Row i as float32 [vocab_size]; must not be written to."""
        row = self.array[i] if self.remote is None else self.remote.row(i)
        row = row[: self.vocab_size]
        if self.bfloat16:
            return (row.astype(np.uint32) << 16).view(np.float32)
        if row.dtype != np.float32:
            return row.astype(np.float32)
        row.flags.writeable = False
        return row

    def take(self, rows: slice | list[int]) -> LogitRows:
        """Some of the rows, from the host's copy."""
        array = self.array[rows]
        if self.bfloat16:
            return LogitRows.from_bfloat16_bits(array, self.vocab_size)
        return LogitRows(array, self.vocab_size)

    def fetch(self, rows: Iterable[int] | None = None) -> None:
        """Copy these rows, None = all, to the host in one go if they lie on another device, before they are
        read one by one."""
        if self.remote is not None:
            self.remote.fetch(range(self.shape[0]) if rows is None else rows)


class RemoteRows:
    """Logits [rows, width] on another device, and the copies that have been made of them.

    copied_bytes  how many bytes these copies have.
    order         where they are ready, as the caller has said it; None if not.
    exported      what a backend keeps that reads them where they lie; None if none does.
    reader        copies rows [n, width] to the host in place of the array's own ways, bfloat16 as uint16 that
                  holds its bits; None if there is no such function, or if it returns None.
    """

    __slots__ = (
        "_array",
        "_rows",
        "_source",
        "bfloat16",
        "copied_bytes",
        "exported",
        "order",
        "reader",
        "shape",
    )

    def __init__(self, source: Any, shape: tuple[int, ...], bfloat16: bool) -> None:
        self._source = source
        self._array: np.ndarray | None = None
        self._rows: dict[int, np.ndarray] = {}
        self.shape = shape
        self.bfloat16 = bfloat16
        self.copied_bytes = 0
        self.order: OnStream | None = None
        self.exported: Any = None
        self.reader: Callable[[Sequence[int]], np.ndarray | None] | None = None

    @classmethod
    def of(cls, logits: Any, device: str) -> RemoteRows | None:
        """`logits` on `device`; None if they lie in the host's memory, or do not state shape and dtype.
        Raises TypeError for other dtypes."""
        if "cpu" in device.lower() or not (hasattr(logits, "shape") and hasattr(logits, "dtype")):
            return None
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(logits, torch.Tensor):
            _check_dense(logits, torch)
        dtype = _text_of(logits.dtype).rpartition(".")[2]
        if dtype not in SUPPORTED:
            raise _unsupported(dtype)
        needs_none = getattr(logits, "requires_grad", True) is False
        source = logits if needs_none or not hasattr(logits, "detach") else logits.detach()
        return cls(source, tuple(logits.shape), dtype == "bfloat16")

    @property
    def array(self) -> np.ndarray:
        """All rows."""
        if self._array is None:
            self._array, self._rows = self._copied(self._source), {}
        return self._array

    def row(self, i: int) -> np.ndarray:
        """One row, [width]."""
        self.fetch((i,))
        return self._rows[i] if self._array is None else self._array[i]

    def fetch(self, rows: Iterable[int]) -> None:
        """Copy what is missing of these rows, in one copy."""
        missing = self._missing(rows)
        if not missing:
            return
        copies = None if self.reader is None else self.reader(missing)
        if copies is not None:
            self.copied_bytes += copies.nbytes
            self._rows.update(zip(missing, copies, strict=True))
            return
        if len(missing) == self.shape[0]:
            self._array = self._copied(self._source)
            return
        first, end = missing[0], missing[-1] + 1
        where = slice(first, end) if end - first == len(missing) else np.array(missing)
        self._rows.update(zip(missing, self._copied(self._source[where]), strict=True))

    def _missing(self, rows: Iterable[int]) -> list[int]:
        """Those of `rows` that have not been copied, ascending."""
        return [] if self._array is not None else sorted({int(i) for i in rows}.difference(self._rows))

    def _copied(self, logits: Any) -> np.ndarray:
        array, _ = _as_numpy(logits)
        self.copied_bytes += array.nbytes
        return np.ascontiguousarray(array)


def _text_of(thing: Any) -> str:
    """`str` of a device or a dtype; torch's, which are values that never change, are asked for it once."""
    return _kept_text(thing) if type(thing).__module__ == "torch" else str(thing)


@functools.lru_cache(maxsize=64)
def _kept_text(thing: Any) -> str:
    return str(thing)


def _as_numpy(logits: Any) -> tuple[np.ndarray, bool]:
    """(array, is_bfloat16): bfloat16 is returned as uint16 that holds its bits."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(logits, torch.Tensor):
        _check_dense(logits, torch)
        tensor = logits.detach().cpu()
        if tensor.dtype == torch.bfloat16:
            return tensor.view(torch.uint16).numpy(), True
        try:
            array = tensor.numpy()
        except TypeError:  # a type that NumPy lacks
            raise _unsupported(str(tensor.dtype).rpartition(".")[2]) from None
    elif isinstance(logits, np.ndarray):
        array = np.asarray(logits)  # np.matrix has its own indexing rules
    else:
        array = _from_protocols(logits)
    return _with_dtype_checked(array)


def _check_dense(tensor: Any, torch: Any) -> None:
    """Raise TypeError for a tensor of torch that has no values, or not one after the other."""
    if tensor.is_nested or tensor.layout is not torch.strided:
        kind = "nested" if tensor.is_nested else f"of the layout {tensor.layout}"
        raise TypeError(f"logits are {kind}; allowed are dense tensors")
    if tensor.is_meta:
        raise TypeError("logits are on the device meta, where tensors have no values")


def _with_dtype_checked(array: np.ndarray) -> tuple[np.ndarray, bool]:
    """`_as_numpy` of an array; raises TypeError for a dtype that is not supported."""
    if array.dtype in _FLOATS:  # equal only in native byte order
        return array, False
    if array.dtype.name == "bfloat16" and array.dtype.isnative:  # ml_dtypes
        return array.view(np.uint16), True
    raise _unsupported(array.dtype)


def _unsupported(dtype: Any) -> TypeError:
    return TypeError(f"logits have dtype {dtype}; allowed are {', '.join(SUPPORTED)}")


_DLPACK_OPTIONS: tuple[dict[str, Any], ...] = ({}, {"device": "cpu", "copy": True})


def _from_protocols(logits: Any) -> np.ndarray:
    """From DLPack, the buffer protocol or `__array__`."""
    if hasattr(logits, "__dlpack__"):
        # The second way asks for a copy on the host, where the first is refused for memory that is elsewhere.
        for options in _DLPACK_OPTIONS:
            try:
                return np.from_dlpack(logits, **options)
            except (BufferError, RuntimeError, TypeError):  # a dtype or device for which there is no DLPack
                pass
    try:
        return np.asarray(logits)
    except Exception as error:
        raise TypeError(f"logits of type {type(logits).__name__} cannot be read as an array") from error


class RowFault(Exception):
    """A row cannot yield a token; the message says why."""


class EmptyRow(RowFault):
    """Its tokens have all been removed by what the message names."""


def checked_row(row: np.ndarray) -> np.ndarray:
    """float32 `row` [vocab] as input for the chain: raises `RowFault` for NaN, +inf, logits above 2^100 and
    rows without a token; logits below −2^100 become −inf (in a copy)."""
    return peaked_row(row)[0]


def peaked_row(row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The result of `checked_row`, and its greatest logit as an array [1]."""
    peak = row.max(keepdims=True)
    if not peak <= LOGIT_LIMIT:
        raise RowFault(f"the row's greatest logit is {peak[0]}; allowed is at most 2^100")
    if peak < -LOGIT_LIMIT:
        raise RowFault("every logit of the row is -inf")
    if row.min() < -LOGIT_LIMIT:
        low = row < -LOGIT_LIMIT
        if np.count_nonzero(low) != np.count_nonzero(row == -np.inf):
            return np.where(low, np.float32(-np.inf), row), peak
    return row, peak
