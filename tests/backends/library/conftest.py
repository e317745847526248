"""The library that comes with the package, for tests that need more than the toy vendor offers."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine_sampler.base.packaged import library_path


@pytest.fixture(scope="session")
def packaged() -> Path:
    """The path of the library; skips the test if the package was built without a compiler."""
    path = library_path()
    if path is None:
        pytest.skip("the package was built without a C compiler")
    return path
