"""engine-sampler on Ascend NPUs: two backends for logits on an NPU, which are used by name.

`ascend` is exact: CANN finds the best tokens of each row, and the host goes on with these.
`ascend_operators` draws with CANN's own operators. CANN is loaded when a backend is first used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine_sampler.contract import hookimpl

from .backend import AscendBackend

__all__ = ["AscendBackend", "register_backends"]


@hookimpl
def register_backends(register: Callable[[Any], None]) -> None:
    register(AscendBackend("ascend"))
    register(AscendBackend("ascend_operators"))
