"""exllamav3's own base classes, from the files of its package: the package itself needs CUDA."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType


def _folder() -> Path | None:
    spec = find_spec("exllamav3")
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None


def _make_importable(folder: Path) -> None:
    """Let the modules with the base classes be imported, without what their packages import."""
    for name in ("", ".generator", ".generator.sampler", ".generator.filter"):
        module = ModuleType(f"exllamav3{name}")
        module.__path__ = [str(folder.joinpath(*name.split(".")))]
        sys.modules[module.__name__] = module
    tokenizer = ModuleType("exllamav3.tokenizer")
    tokenizer.Tokenizer = object  # type: ignore[attr-defined]
    sys.modules["exllamav3.tokenizer"] = tokenizer


FOLDER = _folder()
"""Of the installed package; None without one."""

if FOLDER is not None:
    _make_importable(FOLDER)
