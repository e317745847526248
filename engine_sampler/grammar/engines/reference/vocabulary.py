"""The vocabulary of the engine, prepared once for all grammars: a trie over bytes, stored level by level."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import numpy.typing as npt

from ....base.cached import cached_property
from ....contract import bitmask_words

Ints = npt.NDArray[np.int64]

ROOT = 0


class Trie:
    """The text tokens; tokens without bytes and the `excluded` ids are left out.

    Nodes are numbered level by level, and within a level by parent: the children of a node are consecutive.

    byte          uint8 [nodes]: the byte that leads to a node (0 for the root)
    level_starts  int64 [levels + 1]: the first node of each level
    child_starts  int64 [nodes + 1]: the first child of each node
    token_starts  int64 [nodes + 1]: for each node, the index in `tokens` of the first token that ends there
    tokens        int64 [tokens]
    """

    def __init__(self, token_bytes: Sequence[bytes], excluded: Collection[int]) -> None:
        ids = [i for i, data in enumerate(token_bytes) if data and i not in excluded]
        ids.sort(key=token_bytes.__getitem__)
        text = np.frombuffer(b"".join(token_bytes[i] for i in ids), np.uint8)
        lengths = np.fromiter((len(token_bytes[i]) for i in ids), np.int64, len(ids))
        begins = np.cumsum(lengths) - lengths
        node = np.zeros(len(ids), np.int64)  # for each token, the node after its bytes so far
        parents, values, starts = [np.zeros(1, np.int64)], [np.zeros(1, np.uint8)], [0, 1]
        alive = np.arange(len(ids))
        while len(alive := alive[lengths[alive] >= len(starts) - 1]):
            parent, value = node[alive], text[begins[alive] + len(starts) - 2]
            new = np.ones(len(alive), bool)
            new[1:] = (parent[1:] != parent[:-1]) | (value[1:] != value[:-1])
            node[alive] = starts[-1] + np.cumsum(new) - 1
            parents.append(parent[new])
            values.append(value[new])
            starts.append(starts[-1] + int(new.sum()))
        self.level_starts = np.array(starts)
        self.byte = np.concatenate(values)
        counts = np.bincount(np.concatenate(parents)[1:], minlength=starts[-1])
        self.child_starts = np.concatenate(([1], 1 + np.cumsum(counts)))
        order = np.argsort(node, kind="stable")
        self.tokens = np.array(ids, np.int64)[order]
        self.token_starts = np.searchsorted(node[order], np.arange(starts[-1] + 1))

    @property
    def longest(self) -> int:
        """The length of the longest token, in bytes."""
        return len(self.level_starts) - 2

    def children(self, nodes: Ints) -> tuple[Ints, Ints]:
        """The children of nodes: their numbers, and for each the index of its parent in `nodes`."""
        return expand(self.child_starts, nodes)

    def tokens_at(self, nodes: Ints) -> Ints:
        """The ids of the tokens that end at nodes."""
        indices, _ = expand(self.token_starts, nodes)
        return self.tokens[indices]

    def child(self, node: int, byte: int) -> int | None:
        """The child of a node over a byte, or None."""
        start, end = int(self.child_starts[node]), int(self.child_starts[node + 1])
        child = start + int(np.searchsorted(self.byte[start:end], byte))
        return child if child < end and self.byte[child] == byte else None


def expand(starts: Ints, which: Ints) -> tuple[Ints, Ints]:
    """The members of the ranges starts[i] .. starts[i + 1] for i in `which`, each with the index of its i."""
    begins = starts[which]
    counts = starts[which + 1] - begins
    owners = np.repeat(np.arange(len(which)), counts)
    shift = begins - (np.cumsum(counts) - counts)
    return np.arange(len(owners)) + shift[owners], owners


class ReferenceVocabulary:
    """The tokens that grammars choose from.

    token_bytes        the bytes of each token; for a special token these are its name, which is not text
    eos_token_ids      tokens that end the text and have no other use
    special_token_ids  tokens that are not text: they may occur where a rule names them
    split              `Tokenizer.certain_ids`; None for a tokenizer without an encoding of its own
    """

    def __init__(
        self,
        token_bytes: Sequence[bytes],
        eos_token_ids: Sequence[int] = (),
        special_token_ids: Sequence[int] = (),
        split: Callable[[bytes, bool], list[int]] | None = None,
    ) -> None:
        self.token_bytes = tuple(token_bytes)
        self.split = split
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
