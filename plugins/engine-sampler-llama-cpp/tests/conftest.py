"""The shim, compiled where the tests run, in a host of its own or in llama.cpp's."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path[:0] = [str(Path(__file__).parent)]


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if sys.platform == "win32" or not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("the shim needs a C compiler of a POSIX system")
    import llama_shim

    if not llama_shim.kernels().is_file():
        pytest.skip("there are no packaged kernels to link")
    return llama_shim.Shim(llama_shim.compile_shim(tmp_path_factory.mktemp("shim") / "shim.so"))
