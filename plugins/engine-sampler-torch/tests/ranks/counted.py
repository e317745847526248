"""What goes through the collectives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch.distributed as dist

_GATHER = "all_gather_single" if hasattr(dist, "all_gather_single") else "all_gather_into_tensor"
_GIVEN = {_GATHER: 1, "all_to_all_single": 1}
"""The argument of each collective that a rank gives."""


@contextmanager
def counted(group: Any = None) -> Iterator[list[tuple[str, int]]]:
    """(collective, bytes that this rank gives to it), one after the other; those of one group, if given."""
    seen: list[tuple[str, int]] = []

    def wrapped(name: str) -> Any:
        original = getattr(dist, name)

        def call(*arguments: Any, **keywords: Any) -> Any:
            given = arguments[_GIVEN[name]]
            if group is None or keywords["group"] is group:
                seen.append((name, given.numel() * given.element_size()))
            return original(*arguments, **keywords)

        return call

    with patch.multiple(dist, **{name: wrapped(name) for name in _GIVEN}):
        yield seen
