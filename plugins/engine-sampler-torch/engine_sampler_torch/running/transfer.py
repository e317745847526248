"""The two copies of a step: everything that the device needs, and everything that the host needs."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

_ALIGNMENT = 16
"""Every array begins at a multiple of this many bytes: at least those of one element."""
_SMALLEST = 1 << 16
_DTYPES = {
    np.dtype(name): getattr(torch, name) for name in ("float64", "float32", "int64", "int32", "bool", "uint8")
}
NUMPY_DTYPES = {dtype: name for name, dtype in _DTYPES.items()}
_MOST_VIEWS = 1024
_WORD = 8
"""Every tensor of a download begins at a multiple of this many bytes."""


class StreamEvent(Protocol):
    """An event on a device's stream, as torch's are."""

    def synchronize(self) -> Any: ...

    def query(self) -> bool: ...


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Buffers:
    """A buffer on the host and one on the device, which are used again in every step and grow by doubling.

    Their contents are valid until the next step. The host's is pinned where the device can copy from it
    meanwhile.
    """

    def __init__(self, device: torch.device, smallest: int = _SMALLEST) -> None:
        self.device = device
        self.packed = np.zeros(0, np.uint8)
        """The host's bytes."""
        self.generation = 0
        """How often they have been replaced."""
        self._smallest = smallest
        self._host = self._there = torch.from_numpy(self.packed)
        self._views: dict[tuple[int, torch.dtype, tuple[int, ...]], Tensor] = {}
        self._landings: dict[tuple[torch.dtype, tuple[int, ...]], Tensor] = {}
        self._sized: dict[int, tuple[Tensor, Tensor]] = {}
        self._event: Any = None

    def of(self, size: int) -> tuple[Tensor, Tensor]:
        """`size` bytes on the host and on the device."""
        if size > len(self.packed) or not len(self.packed):
            self._grow(size)
        found = self._sized.get(size)
        if found is None:
            found = _remember(self._sized, size, (self._host[:size], self._there[:size]))
        return found

    def view(self, offset: int, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        """A part of the device's buffer; steps that are alike get the same tensors."""
        key = (offset, dtype, shape)
        found = self._views.get(key)
        if found is None:
            end = offset + math.prod(shape) * dtype.itemsize
            found = _remember(self._views, key, self._there[offset:end].view(dtype).view(shape))
        return found

    def landing(self, tensor: Tensor) -> Tensor:
        """The first part of the host's buffer, for a copy of `tensor`."""
        key = (tensor.dtype, tensor.shape)
        found = self._landings.get(key)
        if found is None:
            host, _ = self.of(tensor.numel() * tensor.element_size())
            found = _remember(self._landings, key, host.view(tensor.dtype).view(tensor.shape))
        return found

    def record(self) -> StreamEvent:
        """An event on the current stream of a card, now: the same as in the step before, which nobody waits
        for any more."""
        if self._event is None:
            self._event = torch.cuda.Event()
        self._event.record(torch.cuda.current_stream(self.device.index))
        event: StreamEvent = self._event
        return event

    @property
    def memory(self) -> tuple[Tensor, Tensor]:
        """All that is there on the host and on the device."""
        return self._host, self._there

    def _grow(self, size: int) -> None:
        room, is_host = max(self._smallest, 1 << (size - 1).bit_length()), self.device.type == "cpu"
        self._host = torch.empty(room, dtype=torch.uint8, pin_memory=self.device.type == "cuda")
        self._there = self._host if is_host else torch.empty(room, dtype=torch.uint8, device=self.device)
        self.packed = self._host.numpy()
        self.generation += 1
        self._views.clear()
        self._landings.clear()
        self._sized.clear()


def _remember(cache: dict[_Key, _Value], key: _Key, value: _Value) -> _Value:
    if len(cache) == _MOST_VIEWS:
        cache.clear()
    cache[key] = value
    return value


class Upload:
    """Arrays that are copied to the device together."""

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._arrays: list[np.ndarray] = []
        self._offsets: list[int] = []
        self._size = 0

    def add(self, array: np.ndarray) -> int:
        """Have `array` copied; returns its number. Raises TypeError for dtypes that no step uses."""
        array = np.ascontiguousarray(array)
        if array.dtype not in _DTYPES:
            raise TypeError(f"an input has dtype {array.dtype}; allowed are {', '.join(map(str, _DTYPES))}")
        self._arrays.append(array)
        self._offsets.append(self._size)
        self._size += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        return len(self._arrays) - 1

    @property
    def device(self) -> torch.device:
        """Where they are copied to."""
        return self._buffers.device

    def array(self, number: int) -> np.ndarray:
        """The array of this number, as it was given."""
        return self._arrays[number]

    def place(self, number: int) -> np.ndarray:
        """The array of this number as it lies in the host's buffer, once it is packed: what is written there
        is copied to the device by a graph that holds the copy."""
        array, start = self._arrays[number], self._offsets[number]
        return self._buffers.packed[start : start + array.nbytes].view(array.dtype).reshape(array.shape)

    @property
    def layout(self) -> Hashable:
        """What decides where the arrays will be on the device, and which types and shapes they have."""
        forms = [(array.dtype.num, array.shape) for array in self._arrays]
        return self._buffers.generation, tuple(forms)

    def send(self) -> None:
        """Copy all of them, without waiting."""
        self.pack()
        self.copy()

    def pack(self) -> None:
        """Write all of them into the host's buffer, which is copied next."""
        if not self._arrays:
            return
        self._buffers.of(self._size)
        packed = self._buffers.packed
        for offset, array in zip(self._offsets, self._arrays, strict=True):
            packed[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)

    def copy(self) -> None:
        """Copy the buffer, without waiting."""
        if self._arrays:
            host, there = self._buffers.of(self._size)
            if there.device.type != "cpu":
                there.copy_(host, non_blocking=True)

    def __getitem__(self, number: int) -> Tensor:
        """The array of this number, on the device, once it is sent."""
        array = self._arrays[number]
        return self._buffers.view(self._offsets[number], _DTYPES[array.dtype], array.shape)


class Download:
    """Tensors that are copied to the host together: the one synchronisation of a step."""

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._tensors: list[Tensor] = []
        self._forms: list[tuple[torch.dtype, tuple[int, ...], int]] = []
        """The dtype, shape and bytes of each."""
        self._arrays: list[np.ndarray] = []
        self._whole: Tensor | None = None
        """All tensors as one, on the host if the copy could be queued."""
        self._is_queued = False
        self._done: StreamEvent | None = None
        """When that is there."""

    def add(self, tensor: Tensor) -> int:
        """Have `tensor` copied; returns its number."""
        self._tensors.append(tensor.contiguous())
        self._forms.append((tensor.dtype, tuple(tensor.shape), tensor.numel() * tensor.element_size()))
        return len(self._tensors) - 1

    def queue(self) -> None:
        """Queue the copy of all of them, without waiting where the device allows that."""
        self.copy()
        self.mark()

    def copy(self) -> None:
        """The copy alone, so that a graph can hold it."""
        if not self._tensors:
            return
        whole = self.whole()
        if whole.is_cuda:
            landing = self._buffers.landing(whole)
            landing.copy_(whole, non_blocking=True)
            self.land(landing)
        else:
            self._whole = whole

    def whole(self) -> Tensor:
        """All tensors that have been added as one, on the device."""
        tensors, self._tensors = self._tensors, []
        if len(tensors) == 1:
            return tensors[0]
        return torch.cat([part for tensor in tensors for part in _words_of(tensor)])

    def land(self, landing: Tensor) -> None:
        """All of them are copied to `landing`, on the host; that is queued."""
        self._whole, self._is_queued = landing, True

    def mark(self) -> None:
        """Note what is queued now: `receive` waits for that."""
        if self._is_queued:
            self._done = self._buffers.record()

    @property
    def place(self) -> int:
        """Which memory of the host it uses."""
        return self._buffers.generation

    @property
    def is_done(self) -> bool:
        """Whether `receive` need not wait, once it is queued."""
        return self._done is None or self._done.query()

    def receive(self) -> None:
        """Copy all of them, and wait for that."""
        if self._whole is None:
            self.queue()
        if self._whole is None:
            return
        self.wait()
        whole = self._whole.cpu().numpy()
        if len(self._forms) == 1:
            self._arrays = [whole.copy()]
            return
        self._arrays, offset = [], 0
        for dtype, shape, size in self._forms:
            array = whole[offset : offset + size].copy().view(NUMPY_DTYPES[dtype])
            self._arrays.append(array.reshape(shape))
            offset += size + -size % _WORD

    def wait(self) -> None:
        """Wait until all of them are there."""
        if self._done is not None:
            wait(self._done)

    @property
    def landed(self) -> np.ndarray:
        """Where a graph that holds the copy leaves all of them."""
        assert self._whole is not None
        return self._whole.numpy()

    def form_of(self, number: int) -> tuple[int, tuple[int, ...]]:
        """(at which byte of all of them the tensor of this number begins, its shape)."""
        sizes = (size for _, _, size in self._forms[:number])
        return sum(size + -size % _WORD for size in sizes), self._forms[number][1]

    def view(self, number: int) -> np.ndarray:
        """The tensor of this number, where a graph that holds the copy leaves it."""
        (start, shape), (dtype, _, size) = self.form_of(number), self._forms[number]
        landed = self.landed.reshape(-1).view(np.uint8)
        view: np.ndarray = landed[start : start + size].view(NUMPY_DTYPES[dtype]).reshape(shape)
        return view

    def __getitem__(self, number: int) -> np.ndarray:
        """The tensor of this number, on the host."""
        return self._arrays[number]


def wait(done: StreamEvent) -> None:
    """Wait for an event on a stream, and for nothing behind it."""
    done.synchronize()


def _words_of(tensor: Tensor) -> list[Tensor]:
    """The bytes of a tensor, and what is missing to whole words."""
    if not tensor.numel():
        return [tensor.new_empty(0, dtype=torch.uint8)]
    of_tensor = tensor.reshape(-1).view(torch.uint8)
    missing = -len(of_tensor) % _WORD
    return [of_tensor, of_tensor.new_empty(missing)] if missing else [of_tensor]
