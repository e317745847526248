"""`TokenTable`: the vocabulary that every source provides, from which a `Tokenizer` is constructed."""

from __future__ import annotations

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
