"""`Substrings`: the tokens that contain some bytes or end with them, found without reading every token."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence

import numpy as np

from ..base.cached import cached_property


class Substrings:
    """An index of the bytes of tokens, built once; ids in `excluded` are never found.

    A search reads the places of the rarest byte, or of the rarest pair of bytes, that it looks for.
    """

    def __init__(self, token_bytes: Sequence[bytes], excluded: Collection[int]) -> None:
        self._pieces = [b"" if i in excluded else data for i, data in enumerate(token_bytes)]

    def prepare(self) -> None:
        """Build all parts of the index."""
        self._by_byte, self._places, self._by_end  # noqa: B018  (computed here)

    def containing(self, data: bytes) -> np.ndarray:
        """The ids of the tokens that contain `data`, ascending, int64."""
        if len(data) == 1:
            return self._by_byte.of(data[0])
        text, owners, pairs_at = self._places
        pairs = [data[i] << 8 | data[i + 1] for i in range(len(data) - 1)]
        rarest = min(range(len(pairs)), key=lambda i: pairs_at.count(pairs[i]))
        starts = pairs_at.of(pairs[rarest]) - rarest
        starts = starts[(starts >= 0) & (starts + len(data) <= len(text))]
        starts = starts[owners[starts] == owners[starts + len(data) - 1]]
        for i, byte in enumerate(data):
            if i not in (rarest, rarest + 1):
                starts = starts[text[starts + i] == byte]
        found = owners[starts]
        return found[np.diff(found, prepend=-1) != 0]

    def ending_with(self, data: bytes) -> np.ndarray:
        """The ids of the tokens that end with `data`, in no order, int64."""
        reversed_pieces, ids = self._by_end
        key = data[::-1]
        first = bisect_left(reversed_pieces, key)
        return ids[
            first : bisect_left(reversed_pieces, True, first, key=lambda piece: piece[: len(key)] > key)
        ]

    @cached_property
    def _text(self) -> tuple[np.ndarray, np.ndarray]:
        """All tokens end to end, uint8, and the token of each byte, int64."""
        lengths = np.fromiter(map(len, self._pieces), np.int64, len(self._pieces))
        return np.frombuffer(b"".join(self._pieces), np.uint8), np.repeat(np.arange(len(lengths)), lengths)

    @cached_property
    def _by_byte(self) -> _Buckets:
        """The tokens that contain each byte."""
        text, owners = self._text
        order = np.argsort(text, kind="stable")
        owners, values = owners[order], text[order]
        first = (np.diff(owners, prepend=-1) != 0) | (np.diff(values, prepend=0) != 0)
        return _Buckets(owners[first], values[first], 1 << 8)

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray, _Buckets]:
        """All tokens end to end, the token of each byte, and where each pair of bytes is."""
        text, owners = self._text
        pairs = text[:-1].astype(np.uint16) << 8 | text[1:]
        order = np.argsort(pairs, kind="stable")
        return text, owners, _Buckets(order, pairs, 1 << 16)

    @cached_property
    def _by_end(self) -> tuple[list[bytes], np.ndarray]:
        """The tokens' bytes backwards, sorted, and the token of each."""
        backwards = [data[::-1] for data in self._pieces]
        order = sorted((i for i, data in enumerate(backwards) if data), key=backwards.__getitem__)
        return [backwards[i] for i in order], np.array(order, np.int64)


class _Buckets:
    """`entries` in ascending order of their keys, which are below `kinds`; `keys` are theirs in any order."""

    def __init__(self, entries: np.ndarray, keys: np.ndarray, kinds: int) -> None:
        self._entries = entries
        self._ends = np.cumsum(np.bincount(keys, minlength=kinds))

    def of(self, key: int) -> np.ndarray:
        """The entries of `key`, in their order."""
        return self._entries[self._ends[key] - self.count(key) : self._ends[key]]

    def count(self, key: int) -> int:
        return int(self._ends[key] - (self._ends[key - 1] if key else 0))
