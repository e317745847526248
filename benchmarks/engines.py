"""The measured work of this library: a scheduler's step, a backend's run, and the pass."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from engine_sampler import Scheduler
from engine_sampler.arithmetic import LogitRows
from engine_sampler.backends.library import LibraryBackend
from engine_sampler.backends.library.header import contract
from engine_sampler.backends.library.tensor import Tensor
from engine_sampler.backends.native import NativeBackend
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.cli.bench import rows
from engine_sampler.contract import Batch

from .cases import CONTEXT, HISTORY_CASES, Shape, params_of
from .measure import Work, nothing


class _Recording:
    """A mixin for a backend that records its last batch."""

    batch: Batch

    def run(self, batch: Batch) -> None:
        self.batch = batch
        super().run(batch)  # type: ignore[misc]


class _Native(_Recording, NativeBackend):
    """The C kernels."""


class Recorded(_Recording, LibraryBackend):
    """Any build of the library, with any instruction set."""


class _Numpy(_Recording, NumpyBackend):
    """The NumPy backend."""


class Engine:
    """A scheduler with one request per row of logits, cycling through `cases`, after one step.

    backend  in place of the native one.
    grows  whether each `run` accepts a new token first; always true for `HISTORY_CASES`.
    """

    def __init__(
        self,
        cases: Sequence[str],
        logits: Any,
        vocab_size: int,
        history: Sequence[int] = (),
        *,
        native: bool = True,
        num_threads: int | None = None,
        grows: bool = False,
        backend: Recorded | None = None,
    ) -> None:
        self._backend = backend or (_Native() if native else _Numpy())
        if self._backend.reason:
            pytest.skip(self._backend.reason)
        self.scheduler = Scheduler(vocab_size, backend=self._backend, num_threads=num_threads)
        self._logits = logits
        self._before = self._grow if grows or any(case in HISTORY_CASES for case in cases) else nothing
        self._next = itertools.cycle(history or [0])
        for _, case in zip(range(len(logits)), itertools.cycle(cases), strict=False):
            self.scheduler.add(params_of(case), history)
        self.scheduler.step(logits)

    @classmethod
    def of(cls, shape: Shape, **options: Any) -> Engine:
        """An engine with the rows of `shape` and histories that resemble texts."""
        logits = rows.batch(shape.vocab_size, shape.batch, shape.rows)
        return cls([shape.case], logits, shape.vocab_size, rows.history(shape.vocab_size, CONTEXT), **options)

    @property
    def step(self) -> Work:
        """A whole step."""
        return Work(partial(self.scheduler.step, self._logits))

    @property
    def run(self) -> Work:
        """The backend's `run` on the last step's batch, after a new token each time if the engine grows."""
        kind = type(self._backend).__mro__[2]  # without the recording
        return Work(partial(kind.run, self._backend, self._backend.batch), self._before)

    def run_masked(self, bitmask: np.ndarray) -> Work:
        """`run` with a mask on every row, int32 [rows, ceil(vocab / 32)]."""
        kind, batch = type(self._backend).__mro__[2], self._backend.batch
        groups = [replace(group, masked=True) for group in batch.groups]
        masked = replace(batch, groups=groups, bitmask=bitmask, cache={})
        return Work(partial(kind.run, self._backend, masked), self._before)

    @property
    def kernels(self) -> Work:
        """The single call into C of the last step."""
        call = self._backend.batch.cache[self._backend].work
        return Work(partial(call._run, call._context, call._struct), self._before)

    def _grow(self) -> None:
        for request in self.scheduler.request_ids:
            self.scheduler.accept(request, [next(self._next)])


@cache
def _native() -> NativeBackend:
    return NativeBackend()


def reading(logits: np.ndarray) -> Work:
    """The pass: the maximum of every row of float32 `logits`, by the native library."""
    backend, ffi = _native(), contract()
    if backend.reason:
        pytest.skip(backend.reason)
    n, vocab_size = logits.shape
    tensor = Tensor(LogitRows(logits, vocab_size))
    index, out = ffi.new("int64_t[]", list(range(n))), ffi.new("float[]", n)
    maxima, context, pointer = backend.library.function("maxima"), backend._context.pointer, tensor.pointer

    def read() -> None:
        assert maxima(context, pointer, vocab_size, index, n, out) == 0

    read()
    assert list(out) == logits.max(axis=1).tolist()
    read.owners = tensor, logits  # type: ignore[attr-defined]  # keep alive what the pointer refers to
    return Work(read)
