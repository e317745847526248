"""Third-party samplers inside a compiled backend's loop."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any

import numpy as np

from ...base.errors import INTERRUPTIONS
from ...contract import Rows, Sampler, SlotTable
from ..numpy import apply_to_row
from .header import contract
from .request_table import RequestTable


def uses_row_function(sampler: Sampler) -> bool:
    """Whether a compiled backend calls the C function of `sampler`, and not its `apply`."""
    return sampler.row_function is not None and not sampler.lazy


class SlotFunctions:
    """The functions of third-party samplers for the requests of one `SlotTable`: the sampler's own C
    function, or a callback that runs its `apply` on one row.

    They live as long as this object. A row whose sampler raises fails, and the host runs it again.
    """

    def __init__(self, slots: SlotTable, table: RequestTable) -> None:
        self._slots = weakref.ref(slots)
        self._table = table
        self._callbacks: list[Any] = []
        self._interruption: BaseException | None = None

    def fill(self, op: Any, sampler: Sampler) -> None:
        """Complete the `es_op` of `sampler`."""
        if not uses_row_function(sampler):
            callback = contract().callback(
                "es_row_function", partial(self._apply, sampler), error=1, onerror=self._note_interruption
            )
            self._callbacks.append(callback)
            op.function = callback
            return
        address = contract().cast("uintptr_t", sampler.row_function)
        op.function = contract().cast("es_row_function", address)
        cells = self._table.cells(sampler)
        op.values, op.n_values, op.states = cells.values, cells.width, cells.states

    def raise_interruption(self) -> None:
        """Raise the exception that interrupted a callback: none can pass through C."""
        interruption, self._interruption = self._interruption, None
        if interruption is not None:
            raise interruption

    def _note_interruption(self, kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        """A callback was interrupted before it could catch anything; its row fails."""
        if isinstance(error, INTERRUPTIONS):
            self._interruption = error

    def _apply(self, sampler: Sampler, row: Any, logits: Any, ids: Any, n: int, state: Any) -> int:
        try:
            slots = self._slots()
            assert slots is not None
            rows = Rows(slots, np.array([row.slot]))
            if ids:
                rows.ids = _view(ids, n, np.int32).astype(np.int64)[None]
            with np.errstate(all="ignore"):
                apply_to_row(sampler, _view(logits, n, np.float32), rows.bind(sampler))
        except INTERRUPTIONS as interruption:
            self._interruption = interruption
            return 1
        except BaseException:
            return 1
        return 0


def _view(pointer: Any, n: int, dtype: type) -> np.ndarray:
    """The C array of n elements of four bytes as an array [n]."""
    return np.frombuffer(contract().buffer(pointer, 4 * n), dtype)
