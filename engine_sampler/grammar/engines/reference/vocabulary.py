"""A vocabulary, prepared once for all grammars."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ....contract import bitmask_words
from .trie import Trie


class ReferenceVocabulary:
    """The tokens that grammars choose from.

    token_bytes        of each token its bytes; those of a special one are its name, which is no text
    eos_token_ids      tokens that end the text, and are nothing else
    special_token_ids  tokens that are no text: they come where a rule names them
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
                raise ValueError(f"there is no token {token_id}: the vocabulary has {len(self.token_bytes)}")

    @property
    def words(self) -> int:
        """The int32 words of a mask."""
        return bitmask_words(len(self.token_bytes))

    @cached_property
    def trie(self) -> Trie:
        """The tokens that are text, as a tree."""
        return Trie(self.token_bytes, self.special_ids | self.eos_ids)
