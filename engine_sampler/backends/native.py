"""The C kernels that come with the package.

Environment: ENGINE_SAMPLER_ISA forces an instruction set (baseline, avx2, avx512, neon or portable);
ENGINE_SAMPLER_NATIVE_LIBRARY is a library to load in place of the packaged one, such as a build with
sanitizers.
"""

from __future__ import annotations

import importlib.resources
import os
import sys
from pathlib import Path

from .library import LibraryBackend, LibraryError

_SUFFIXES = {"win32": ".dll", "darwin": ".dylib"}
_ABSENT = (
    "the package was built without a working C compiler; install GCC or Clang, then install "
    "engine-sampler again with ENGINE_SAMPLER_REQUIRE_NATIVE=1 to see what the compiler says"
)


class NativeBackend(LibraryBackend):
    """The C kernels of this package, in the best instruction set of this machine."""

    name = "native"  # LibraryBackend takes it from its library

    def __init__(self) -> None:
        path = library_path()
        try:
            if path is None:
                raise LibraryError(_ABSENT)
            super().__init__(path, name=self.name, isa=os.environ.get("ENGINE_SAMPLER_ISA") or None)
        except LibraryError as error:
            self.reason = str(error)

    def score(self, device: str) -> float:
        return 0.0 if self.reason else super().score(device)


def library_path() -> Path | None:
    """The file that ENGINE_SAMPLER_NATIVE_LIBRARY names, or the packaged one; None without either."""
    if given := os.environ.get("ENGINE_SAMPLER_NATIVE_LIBRARY"):
        return Path(given)
    name = f"libengine_sampler{_SUFFIXES.get(sys.platform, '.so')}"
    packaged = Path(str(importlib.resources.files("engine_sampler") / "_native" / name))
    return packaged if packaged.is_file() else None
