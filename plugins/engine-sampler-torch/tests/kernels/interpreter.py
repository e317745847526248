"""Triton's interpreter, made bearable: it patches `triton.language` anew in every call of a device
function, which takes about two times as long as the arithmetic. Here it is patched once for each kernel.
What is computed is the same."""

from __future__ import annotations

import types
from typing import Any

import triton.language as tl
from triton.runtime import interpreter


class _Unpatched:
    def restore(self) -> None:
        """Nothing was patched."""


def patch_once() -> None:
    """From now on, only the outermost call patches `triton.language`, for kernels and device functions
    alike."""
    original = interpreter._patch_lang
    both = types.SimpleNamespace(__globals__={"tl": tl, "core": tl.core})
    depth = 0

    class Scope:
        def __init__(self) -> None:
            self.inner = original(both)

        def restore(self) -> None:
            nonlocal depth
            depth -= 1
            self.inner.restore()

    def patch(fn: Any) -> Any:
        nonlocal depth
        if depth:
            return _Unpatched()
        depth += 1
        return Scope()

    interpreter._patch_lang = patch
