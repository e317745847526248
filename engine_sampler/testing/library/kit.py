"""`LibraryContract`: the checks of a compiled library as a test class to subclass."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from ..results import FAILED
from .checking import check_apart


class LibraryContract:
    """All checks of `engine-sampler check`, in a process of their own. Subclass it; pytest does the rest.

        class TestMine(LibraryContract):
            library = "build/libmine.so"

    library  the path of the shared library.
    seconds  for how long random programs, requests and boundaries are tried; 0: a few seconds of processor
             time, which ENGINE_SAMPLER_TEST_ROUNDS multiplies.
    seed     from which seed on. A failure names the seed with which it comes first.
    """

    library: ClassVar[str | Path]
    seconds: ClassVar[float] = 0.0
    seed: ClassVar[int] = 0

    def test_the_library_keeps_its_promises(self) -> None:
        results = check_apart(self.library, self.seconds, self.seed)
        failed = [f"{result.name}: {result.detail}" for result in results if result.outcome == FAILED]
        assert not failed, "\n".join(failed)
