"""Masks of the tokens that may follow, computed once for each configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from ...cache import Cache
from ...derivatives.limits import MAX_MASK_BYTES
from .configurations import Configurations
from .vocabulary import ROOT, Ints, ReferenceVocabulary, Trie
from .walk import traverse

Mask = npt.NDArray[np.int32]


class ConfigurationMasks:
    """The masks of a vocabulary under one set of tables.

    Masks are int32 [words]; bit t % 32 of word t // 32 is 1 if token t may follow.

    ended   the mask after the end of the text: EOS tokens only
    """

    def __init__(self, configurations: Configurations[Any], vocabulary: ReferenceVocabulary) -> None:
        self._configurations = configurations
        self._vocabulary = vocabulary
        self._eos_ids = np.array(sorted(vocabulary.eos_ids), np.int64)
        self._masks: Cache[Mask] = Cache(sys.maxsize, MAX_MASK_BYTES, lambda mask: mask.nbytes)
        self.ended = self._mask([self._eos_ids])

    @property
    def _trie(self) -> Trie:
        return self._vocabulary.trie

    def weight(self) -> int:
        """The bytes of what is cached here."""
        return self._masks.info().weight

    def mask(self, configuration: int) -> Mask:
        """The mask of a configuration; read-only."""
        return self._masks.get(configuration, lambda: self._mask(self._allowed(configuration)))

    def _mask(self, ids: Iterable[Ints]) -> Mask:
        bits = np.zeros(self._vocabulary.words * 32, bool)
        for some in ids:
            bits[some] = True
        mask = np.packbits(bits, bitorder="little").view("<i4").astype(np.int32)
        mask.flags.writeable = False
        return mask

    def _allowed(self, configuration: int) -> list[Ints]:
        configurations = self._configurations
        special = configurations.special_ids(configuration) - self._vocabulary.eos_ids
        ids = [np.array(sorted(special), np.int64), *self._texts(configuration)]
        if configurations.accepting(configuration):
            ids.append(self._eos_ids)
        return ids

    def _texts(self, configuration: int) -> list[Ints]:
        """The text tokens that may follow, found by reading them byte by byte from the root of the trie."""
        return self._tokens_below({configuration: [np.array([ROOT])]})

    def _tokens_below(self, seeds: dict[int, list[Ints]]) -> list[Ints]:
        """The tokens that can be read from trie nodes on, which are given by configuration."""
        if not seeds:
            return []
        nodes = np.concatenate([part for parts in seeds.values() for part in parts])
        states = np.concatenate(
            [np.full(len(part), state) for state, parts in seeds.items() for part in parts]
        )
        levels = traverse(self._trie, nodes, states, self._configurations.step)
        return [self._trie.tokens_at(level.nodes) for level in levels]

    def can_complete_token(self, node: int, configuration: int) -> bool:
        """Whether the text can continue from a configuration to the end of a token below a trie node."""
        levels = traverse(self._trie, np.array([node]), np.array([configuration]), self._configurations.step)
        next(levels)
        return any(len(self._trie.tokens_at(level.nodes)) for level in levels)
