"""The C kernels that come with the package.

Environment: ENGINE_SAMPLER_ISA forces an instruction set (baseline, avx2, avx512, neon or portable).
"""

from __future__ import annotations

import os

from ..base.errors import quoted
from ..base.packaged import library_path
from .library import LibraryBackend, LibraryError

_ABSENT = (
    "the package was built without a working C compiler; install GCC or Clang, then install "
    "engine-sampler again with ENGINE_SAMPLER_REQUIRE_NATIVE=1 to see what the compiler says"
)


_INSTRUCTION_SETS = ("baseline", "avx2", "avx512", "neon", "portable")


class NativeBackend(LibraryBackend):
    """The C kernels of this package, in the best instruction set of this machine."""

    name = "native"  # LibraryBackend takes it from its library
    trusted = True

    def __init__(self) -> None:
        path = library_path()
        try:
            if path is None:
                raise LibraryError(_ABSENT)
            isa = os.environ.get("ENGINE_SAMPLER_ISA") or None
            if isa is not None and isa not in _INSTRUCTION_SETS:
                allowed = ", ".join(_INSTRUCTION_SETS)
                raise LibraryError(f"ENGINE_SAMPLER_ISA={quoted(isa)} is not allowed: one of {allowed}")
            super().__init__(path, name=self.name, isa=isa)
        except LibraryError as error:
            self.reason = str(error)

    def score(self, device: str) -> float:
        return 0.0 if self.reason else super().score(device)
