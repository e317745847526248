"""`TokenTable`: what every source gives, and a `Tokenizer` is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class TokenTable(NamedTuple):
    """What a source says of its vocabulary; the fields are the arguments of `Tokenizer`."""

    token_bytes: Sequence[bytes]
    """The bytes of token i; b"" where no token has the id i."""
    eos_token_ids: Sequence[int] = ()
    special_token_ids: Iterable[int] = ()
    eot_token_id: int | None = None
    encode: Callable[[str], list[int]] | None = None
    """The source's own, without special tokens around the text; it pickles where the source does."""
