"""Token masks: int32 `[rows, ceil(vocab / 32)]`; bit t % 32 of word t // 32 allows token t."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from .work import Work


def bitmask_words(vocab_size: int) -> int:
    """The width of a mask in words: ceil(vocab_size / 32)."""
    return (vocab_size + 31) // 32


def allocate_bitmask(rows: int, vocab_size: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """A mask of `rows` rows that allows every token, int32 `[rows, ceil(vocab_size / 32)]`."""
    return np.full((rows, bitmask_words(vocab_size)), -1, np.int32)


def checked_bitmask(bitmask: Any, words: int) -> tuple[int, int]:
    """The number of rows of `bitmask` and of words per row.

    Raises TypeError unless it is a writable C-contiguous int32 array `[rows, words or more]`.
    """
    if not isinstance(bitmask, np.ndarray) or bitmask.dtype != np.int32:
        kind = bitmask.dtype if isinstance(bitmask, np.ndarray) else type(bitmask).__name__
        raise TypeError(f"bitmask is of {kind}, allowed is a NumPy array of int32")
    shaped = bitmask.ndim == 2 and bitmask.shape[1] >= words
    if not shaped or not bitmask.flags.c_contiguous or not bitmask.flags.writeable:
        raise TypeError(
            f"bitmask has the shape {bitmask.shape}, "
            f"allowed is a writable C-contiguous [rows, {words} or more]"
        )
    return bitmask.shape[0], bitmask.shape[1]


def allows(words: np.ndarray, token_id: int) -> bool:
    """Whether one row of a bitmask, int32 [words], allows a token."""
    return bool(int(words[token_id // 32]) >> token_id % 32 & 1)


def unpack_bitmask(words: np.ndarray, vocab_size: int) -> np.ndarray:
    """bool [vocab] from int32 words [ceil(vocab / 32)]: bit j of word i is token 32·i + j."""
    little = np.ascontiguousarray(words, "<i4").view(np.uint8)
    return np.unpackbits(little, bitorder="little", count=vocab_size).view(bool)


class Matcher(Protocol):
    """One text under a constraint: what a request requires of a grammar, or of a substitute for one.

    Its calls take as long as they take, and all requests of the step wait. One that may take long should be a
    `BoundedMatcher`.
    """

    def fill_bitmask(self, bitmask: Any, row: int = 0) -> None:
        """Write the mask of the next token to a row of `bitmask`, int32 `[rows, ceil(vocab / 32)]`: bit
        t % 32 of word t // 32 is 1 if token t may follow."""

    def accept(self, token_id: int) -> bool:
        """Accept a token. If it cannot follow, return False and change nothing."""

    def accept_bytes(self, data: bytes) -> bool:
        """Accept bytes, which need not be those of a token."""

    def rollback(self, n: int) -> None:
        """Undo the last n accepts."""

    def fork(self) -> Matcher:
        """An independent copy."""

    def is_accepting(self) -> bool:
        """Whether the text may end here."""

    def is_terminated(self) -> bool:
        """Whether the text has ended."""

    def forced_tokens(self) -> list[int]:
        """The tokens that must come next."""

    def validate(self, token_ids: Any) -> int:
        """How many of the tokens, from the first on, could be accepted in sequence."""


class BoundedMatcher(Matcher, Protocol):
    """A matcher whose calls stop when they have used up the work that they are allowed.

    bounded  True: the scheduler passes `work` to the three methods below.

    A call that `work` does not suffice for raises `UnfinishedError`. It has changed nothing that can be seen,
    but keeps what it has found, so that it gets further when it is repeated. The scheduler postpones the
    request, and repeats the call in the next step. Without `work` a call takes as long as it needs.
    """

    @property
    def bounded(self) -> bool: ...

    def fill_bitmask(self, bitmask: Any, row: int = 0, work: Work | None = None) -> None: ...

    def accept(self, token_id: int, work: Work | None = None) -> bool: ...

    def forced_tokens(self, *, work: Work | None = None) -> list[int]: ...


def is_bounded(matcher: Any) -> bool:
    """Whether a matcher is a `BoundedMatcher`."""
    return getattr(matcher, "bounded", False) is True
