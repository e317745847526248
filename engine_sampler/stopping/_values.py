"""How values of criteria are read."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..samplers._phrases import token_ids

MOST_BYTES = 32768
"""Of all texts of one parameter together: they come from clients."""

_TEXTS = f"a text or a list of texts, none of them empty, with at most {MOST_BYTES} bytes in all"


def texts(value: Any) -> tuple[str, ...]:
    """One text or several as a tuple, each once; raises TypeError or ValueError."""
    entries = (value,) if isinstance(value, str) else value
    if not isinstance(entries, Collection) or isinstance(entries, (bytes, dict)):
        raise TypeError(_TEXTS)
    for entry in entries:
        if not isinstance(entry, str):
            raise TypeError(_TEXTS)
        if not entry:
            raise ValueError(_TEXTS)
    if sum(len(entry.encode()) for entry in entries) > MOST_BYTES:  # refuses lone surrogates as well
        raise ValueError(_TEXTS)
    return tuple(dict.fromkeys(entries))


def ids(value: Any) -> tuple[int, ...]:
    """A collection of token ids as a tuple, each once; raises TypeError."""
    return tuple(dict.fromkeys(token_ids(value)))
