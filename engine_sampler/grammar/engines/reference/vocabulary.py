"""The vocabulary of the engine, prepared once for all grammars."""

from __future__ import annotations

from collections.abc import Sequence

from ....base.cached import cached_property
from ....contract import bitmask_words
from .trie import Trie


class ReferenceVocabulary:
    """The tokens that grammars choose from.

    token_bytes        the bytes of each token; for a special token these are its name, which is not text
    eos_token_ids      tokens that end the text and have no other use
    special_token_ids  tokens that are not text: they may occur where a rule names them
    """

    def __init__(
        self,
        token_bytes: Sequence[bytes],
        eos_token_ids: Sequence[int] = (),
        special_token_ids: Sequence[int] = (),
    ) -> None:
        self.token_bytes = tuple(token_bytes)
        self.eos_ids = frozenset(eos_token_ids)
        self.special_ids = frozenset(special_token_ids) - self.eos_ids
        for token_id in sorted(self.special_ids | self.eos_ids):
            if not 0 <= token_id < len(self.token_bytes):
                raise ValueError(f"no token {token_id}: the vocabulary has {len(self.token_bytes)} tokens")

    @property
    def words(self) -> int:
        """The number of int32 words in a mask."""
        return bitmask_words(len(self.token_bytes))

    @cached_property
    def trie(self) -> Trie:
        """The text tokens as a trie."""
        return Trie(self.token_bytes, self.special_ids | self.eos_ids)
