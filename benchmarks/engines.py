"""What is measured of this library: requests of some cases, a step, a backend's run, the pass."""

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
from engine_sampler.backends.library.header import contract
from engine_sampler.backends.library.tensor import Tensor
from engine_sampler.backends.native import NativeBackend
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.contract import Batch

from . import rows
from .cases import CONTEXT, REMEMBERING, Shape, params_of
from .measure import Work, nothing


class _Keeping:
    """A backend that keeps the last batch that it ran."""

    batch: Batch

    def run(self, batch: Batch) -> None:
        self.batch = batch
        super().run(batch)  # type: ignore[misc]


class _Native(_Keeping, NativeBackend):
    """The C kernels."""


class _Numpy(_Keeping, NumpyBackend):
    """The NumPy backend."""


class Engine:
    """A scheduler with a request for each row of logits, by turns of `cases`; it has made one step.

    grows  whether `run` gets a new token each time, as it does where the history matters.
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
    ) -> None:
        self._backend = _Native() if native else _Numpy()
        if self._backend.reason:
            pytest.skip(self._backend.reason)
        self.scheduler = Scheduler(vocab_size, backend=self._backend, num_threads=num_threads)
        self._logits = logits
        self._before = self._grow if grows or any(case in REMEMBERING for case in cases) else nothing
        self._next = itertools.cycle(history or [0])
        for _, case in zip(range(len(logits)), itertools.cycle(cases), strict=False):
            self.scheduler.add(params_of(case), history)
        self.scheduler.step(logits)

    @classmethod
    def of(cls, shape: Shape, **options: Any) -> Engine:
        """With the rows of `shape`, and histories like texts."""
        logits = rows.batch(shape.vocab_size, shape.batch, shape.rows)
        return cls([shape.case], logits, shape.vocab_size, rows.history(shape.vocab_size, CONTEXT), **options)

    @property
    def step(self) -> Work:
        """A whole step."""
        return Work(partial(self.scheduler.step, self._logits))

    @property
    def run(self) -> Work:
        """The backend's `run` of the last step's batch, with a new token each time if the engine grows."""
        kind = type(self._backend).__mro__[2]  # without the keeping
        return Work(partial(kind.run, self._backend, self._backend.batch), self._before)

    def behind(self, bitmask: np.ndarray) -> Work:
        """The same with a mask on every row, int32 [rows, ceil(vocab / 32)]."""
        kind, batch = type(self._backend).__mro__[2], self._backend.batch
        groups = [replace(group, masked=True) for group in batch.groups]
        given = replace(batch, groups=groups, bitmask=bitmask, cache={})
        return Work(partial(kind.run, self._backend, given), self._before)

    @property
    def kernels(self) -> Work:
        """The one call into C of the last step."""
        call = self._backend.batch.cache[self._backend]
        return Work(partial(call._run, call._context, call._struct), self._before)

    def _grow(self) -> None:
        for request in self.scheduler.request_ids:
            self.scheduler.accept(request, [next(self._next)])


@cache
def _native() -> NativeBackend:
    return NativeBackend()


def reading(logits: np.ndarray) -> Work:
    """The pass: the native library's maximum of every row of float32 `logits`."""
    backend, ffi = _native(), contract()
    if backend.reason:
        pytest.skip(backend.reason)
    n, vocab_size = logits.shape
    given = Tensor(LogitRows(logits, vocab_size))
    index, out = ffi.new("int64_t[]", list(range(n))), ffi.new("float[]", n)
    maxima, context, tensor = backend.library.function("maxima"), backend._context.pointer, given.pointer

    def read() -> None:
        assert maxima(context, tensor, vocab_size, index, n, out) == 0

    read()
    assert list(out) == logits.max(axis=1).tolist()
    read.kept = given, logits  # type: ignore[attr-defined]  # the tensor only points at them
    return Work(read)
