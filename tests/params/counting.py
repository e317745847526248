"""How many functions a piece of work calls: a measure that no other load on the machine changes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any


def count_calls(work: Callable[[], Any]) -> int:
    """How many functions `work` calls, without those that free what others have left."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls
