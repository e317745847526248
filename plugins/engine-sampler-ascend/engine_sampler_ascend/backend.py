"""The backends that this package registers: a library behind `engine_sampler.h`, opened at its first use."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from engine_sampler.contract import Backend, DeferredBackend

from .presence import LIBRARY, missing

if TYPE_CHECKING:
    from engine_sampler.for_backends import LibraryBackend

MODES = {"ascend": None, "ascend_operators": "operators"}
"""By name of the backend: what the library calls its way of working, None for its own choice."""


class AscendBackend(DeferredBackend):
    """Logits on an NPU, by CANN's operators.

    name     "ascend" is exact: greedy, top_k and temperature run on the NPU, and the host goes on with the
             few tokens that are left of each row. "ascend_operators" draws with CANN's operators, from
             numbers that follow from seed and position; its tokens are not those of other backends.
    library  another file than the one that was compiled with this package.

    Nothing is loaded before logits on an NPU are asked about. Raises ValueError for another name; the first
    use raises `BackendError` if the library cannot be used: `reason` cannot always tell before.
    """

    def __init__(self, name: str = "ascend", *, library: str | Path = LIBRARY) -> None:
        if name not in MODES:
            raise ValueError(f"name={name!r} is not allowed: one of {', '.join(MODES)}")
        super().__init__(
            name, f"{__name__}:{type(self).__name__}", exact=name == "ascend", hosts_the_rest=True
        )
        self._path = library

    @property
    def reason(self) -> str:  # type: ignore[override]
        """Why this backend cannot be used here, as a message; "" if nothing is known to be missing."""
        return missing() if self._path == LIBRARY else ""

    @functools.cached_property
    def opened(self) -> LibraryBackend:
        """The library, loaded now if it has not been used yet."""
        from engine_sampler.for_backends import LibraryBackend  # when it is first needed: it loads cffi

        return LibraryBackend(self._path, name=self.name, isa=MODES[self.name])

    def loaded(self) -> Backend:
        return self.opened

    @property
    def target(self) -> str:
        """The chip, once the library has been used."""
        return self.opened.target if "opened" in vars(self) else ""

    def score(self, device: str) -> float:
        return 0.0  # by name only: no NPU has shown yet that it is exact, and faster

    def reads_from(self, device: str) -> bool:
        return "npu" in device and self.opened.reads_from(device)
