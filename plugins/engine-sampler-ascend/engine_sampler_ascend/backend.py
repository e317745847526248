"""The backends that this package registers: a library behind `engine_sampler.h`, opened at its first use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine_sampler import Backend, Batch, Chain, LibraryBackend, Logprobs, Rows, Sampler, Selection, Selector
from engine_sampler.arithmetic import LogitRows

from .presence import LIBRARY, missing

MODES = {"ascend": None, "ascend-operators": "operators"}
"""By name of the backend: what the library calls its way of working, None for its own choice."""


class AscendBackend(Backend):
    """Logits on an NPU, by CANN's operators.

    name     "ascend" is exact: greedy, top_k and temperature run on the NPU, and the host goes on with the
             few tokens that are left of each row. "ascend-operators" draws with CANN's operators, from
             numbers that follow from seed and position; its tokens are not those of other backends.
    library  another file than the one that was compiled with this package.

    Nothing is loaded before logits on an NPU are asked about. Raises ValueError for another name; the first
    use raises `BackendError` if the library cannot be used: `reason` cannot always tell before.
    """

    hosts_the_rest = True

    def __init__(self, name: str = "ascend", *, library: str | Path = LIBRARY) -> None:
        if name not in MODES:
            raise ValueError(f"name={name!r} is not allowed: one of {', '.join(MODES)}")
        self.name = name  # type: ignore[misc]
        self.exact = name == "ascend"  # type: ignore[misc]
        self._path = library

    @property
    def reason(self) -> str:  # type: ignore[override]
        """Why this backend cannot be used here, as a message; "" if nothing is known to be missing."""
        return missing() if self._path == LIBRARY else ""

    @functools.cached_property
    def opened(self) -> LibraryBackend:
        """The library, loaded now if it has not been used yet."""
        return LibraryBackend(self._path, name=self.name, isa=MODES[self.name])

    @property
    def target(self) -> str:
        """The chip, once the library has been used."""
        return self.opened.target if "opened" in vars(self) else ""

    def score(self, device: str) -> float:
        return 0.0  # by name only: no NPU has shown yet that it is exact, and faster

    def reads_from(self, device: str) -> bool:
        return "npu" in device and self.opened.reads_from(device)

    def supports(self, sampler: Sampler | Selector) -> bool:
        return self.opened.supports(sampler)

    def runs_as(self, sampler: Sampler | Selector) -> str:
        return self.opened.runs_as(sampler)

    def compile(self, chain: Chain) -> Chain:
        return chain

    def apply(self, plan: Chain, logits: np.ndarray, rows: Rows) -> None:
        self.opened.apply(plan, logits, rows)

    def select(self, plan: Chain, logits: np.ndarray, rows: Rows) -> Selection:
        return self.opened.select(plan, logits, rows)

    def begin(self, batch: Batch) -> Callable[[], None] | None:
        return self.opened.begin(batch)

    def run(self, batch: Batch) -> None:
        self.opened.run(batch)

    def process(self, batch: Batch) -> Any:
        return self.opened.process(batch)

    def prepare_masks(self, bitmask: np.ndarray, rows: Sequence[int], device: str) -> Any:
        return self.opened.prepare_masks(bitmask, rows, device)

    def logprobs(self, logits: LogitRows, token_ids: np.ndarray, top_n: int) -> Logprobs | None:
        return self.opened.logprobs(logits, token_ids, top_n)
