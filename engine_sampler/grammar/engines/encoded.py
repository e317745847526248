"""Forced text in the tokens in which the model's own tokenizer would write it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

MAX_ENCODED = 256
"""The most bytes of forced text that are encoded at once: what follows them is forced when they have come."""


def as_encoded(
    matcher: Any, longest: Sequence[int], split: Callable[[bytes, bool], list[int]] | None, limit: int
) -> list[int]:
    """The tokens that must come next, at most `limit`.

    longest  the longest tokens of the forced text: the answer without `split`, and where there are none
    split    `Tokenizer.certain_ids` of a tokenizer with an encoding of its own
    """
    if split is None or not longest:
        return list(longest)
    data, after = matcher.forced_bytes(MAX_ENCODED), matcher.fork()
    after.accept_bytes(data)
    ids = split(data, not after.next_bytes())[:limit]
    return ids[: matcher.validate(ids)]
