"""Which tokens may follow: masks, found once for each configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from ...cache import Cache
from ...derivatives.limits import MAX_MASK_BYTES
from .configurations import Configurations
from .trie import ROOT, Ints, Trie
from .vocabulary import ReferenceVocabulary
from .walk import walk

Mask = npt.NDArray[np.int32]


class Masks:
    """The masks of a vocabulary under one set of tables.

    Bit t % 32 of word t // 32 is 1 where token t may follow; masks are int32 [words].
    """

    def __init__(self, threads: Configurations[Any], vocabulary: ReferenceVocabulary) -> None:
        self._threads = threads
        self._vocabulary = vocabulary
        self._eos_ids = np.array(sorted(vocabulary.eos_ids), np.int64)
        self._masks: Cache[Mask] = Cache(sys.maxsize, MAX_MASK_BYTES, lambda mask: mask.nbytes)
        self.ended = self._mask([self._eos_ids])

    @property
    def _trie(self) -> Trie:
        return self._vocabulary.trie

    def mask(self, configuration: int) -> Mask:
        """The mask of a configuration, which is not to be written to."""
        return self._masks.get(configuration, lambda: self._mask(self._allowed(configuration)))

    def _mask(self, ids: Iterable[Ints]) -> Mask:
        bits = np.zeros(self._vocabulary.words * 32, bool)
        for some in ids:
            bits[some] = True
        mask = np.packbits(bits, bitorder="little").view("<i4").astype(np.int32)
        mask.flags.writeable = False
        return mask

    def _allowed(self, configuration: int) -> list[Ints]:
        threads = self._threads
        special = threads.special_ids(configuration) & self._vocabulary.special_ids
        ids = [np.array(sorted(special), np.int64), *self._texts(configuration)]
        if threads.accepting(configuration):
            ids.append(self._eos_ids)
        return ids

    def _texts(self, configuration: int) -> list[Ints]:
        """The tokens of text that may follow: byte by byte from the first one on."""
        return self._beyond({configuration: [np.array([ROOT])]})

    def _beyond(self, places: dict[int, list[Ints]]) -> list[Ints]:
        """The tokens that can be read on from the places where a terminal ended."""
        if not places:
            return []
        nodes = np.concatenate([part for parts in places.values() for part in parts])
        states = np.concatenate(
            [np.full(len(part), state) for state, parts in places.items() for part in parts]
        )
        levels = walk(self._trie, nodes, states, self._threads.step)
        return [self._trie.tokens_at(level.nodes) for level in levels]

    def can_go_on(self, node: int, configuration: int) -> bool:
        """Whether the text can go on from a configuration to the end of a token below a node."""
        levels = walk(self._trie, np.array([node]), np.array([configuration]), self._threads.step)
        next(levels)
        return any(len(self._trie.tokens_at(level.nodes)) for level in levels)
