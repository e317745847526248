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
    isa_fault = ""
    """Why the instruction set of ENGINE_SAMPLER_ISA cannot be used here."""

    def __init__(self) -> None:
        path, isa = library_path(), os.environ.get("ENGINE_SAMPLER_ISA") or None
        if path is None:
            self.reason = _ABSENT
            return
        try:
            if isa is not None and isa not in _INSTRUCTION_SETS:
                raise LibraryError(f"one of {', '.join(_INSTRUCTION_SETS)}")
            super().__init__(path, name=self.name, isa=isa)
        except LibraryError as error:
            self.reason = str(error)
            if isa is not None:
                self.reason = self.isa_fault = f"ENGINE_SAMPLER_ISA={quoted(isa)} is not allowed: {error}"

    def score(self, device: str) -> float:
        return 0.0 if self.reason else super().score(device)
