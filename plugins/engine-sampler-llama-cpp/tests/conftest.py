"""The shim, compiled where the tests run, in a host of its own or llama.cpp's; a tiny model, loaded once."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine_sampler import Tokenizer

sys.path[:0] = [str(Path(__file__).parent)]


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if sys.platform == "win32" or not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("the shim needs a C compiler of a POSIX system")
    import llama_shim

    if not llama_shim.kernels().is_file():
        pytest.skip("there are no packaged kernels to link")
    return llama_shim.Shim(llama_shim.compile_shim(tmp_path_factory.mktemp("shim") / "shim.so"))


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("gguf")
    import tiny_gguf

    return tiny_gguf.write_model(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="session")
def loaded(model: Path) -> Iterator[Any]:
    llama_cpp = pytest.importorskip("llama_cpp")
    with closing(llama_cpp.Llama(str(model), n_ctx=128, verbose=False)) as llama:
        yield llama


@pytest.fixture
def llm(loaded: Any) -> Any:
    """The model with an empty cache: cached earlier texts would change its logits in the last bits."""
    loaded.reset()
    return loaded


@pytest.fixture(scope="session")
def tokenizer(loaded: Any) -> Tokenizer:
    from engine_sampler_llama_cpp import tokenizer_of

    return tokenizer_of(loaded)
