"""How values of criteria are read."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..samplers._phrases import token_ids

_TEXTS = "a text or a list of texts, none of them empty"


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
        entry.encode()  # refuses lone surrogates, which no bytes stand for
    return tuple(dict.fromkeys(entries))


def ids(value: Any) -> tuple[int, ...]:
    """A collection of token ids as a tuple, each once; raises TypeError."""
    return tuple(dict.fromkeys(token_ids(value)))
