"""`TokenTable`: the vocabulary that every source provides, from which a `Tokenizer` is constructed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class TokenTable(NamedTuple):
    """A source's description of its vocabulary; the fields are the arguments of `Tokenizer`."""

    token_bytes: Sequence[bytes]
    """The bytes of token i; b"" if no token has the id i."""
    eos_token_ids: Sequence[int] = ()
    special_token_ids: Iterable[int] = ()
    eot_token_id: int | None = None
    encode: Callable[[str], list[int]] | None = None
    """The source's own encoding, without special tokens around the text; it can be pickled if the source
    can."""
    inexact: str | None = None
    """Why `encode`, or the longest match in its place, may give other ids than the source itself."""
    added_token_ids: Iterable[int] = ()
    """Tokens that were added to the vocabulary as text: each is found in a text before others split it."""


def warn_inexact(reason: str) -> None:
    """Warn that a text is encoded in another way than by its source."""
    warnings.warn(f"encode may give other ids than the model's own tokenizer: {reason}", stacklevel=3)
