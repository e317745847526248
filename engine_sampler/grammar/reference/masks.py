"""Which tokens may follow: masks, found once for each configuration.

Most tokens stay within one terminal. Which ones do depends on how far the terminal has been read and on
nothing else, so it is found once for each scan (`Summary`), with the places in the tree of tokens where
the terminal may end. Only behind those the rules are asked, token byte by token byte.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .limits import MAX_MASK_BYTES
from .remembered import Remembered
from .threads import BETWEEN, LOST, Thread, Threads
from .trie import ROOT, Ints, Trie
from .vocabulary import ReferenceVocabulary
from .walk import walk

Mask = npt.NDArray[np.int32]


class Summary(NamedTuple):
    """The tokens that stay within a terminal from a scan on, and where the terminal may end before.

    inner   int64: token ids
    nodes   int64: nodes of the tree where the terminal may end, below the root
    scans   int64: how far it has been read there
    """

    inner: Ints
    nodes: Ints
    scans: Ints

    @property
    def size(self) -> int:
        """Its memory in bytes."""
        return self.inner.nbytes + self.nodes.nbytes + self.scans.nbytes


class Masks:
    """The masks of a vocabulary under one set of tables.

    Bit t % 32 of word t // 32 is 1 where token t may follow; masks are int32 [words].
    """

    def __init__(self, threads: Threads, vocabulary: ReferenceVocabulary) -> None:
        self._threads = threads
        self._scans = threads.scans
        self._vocabulary = vocabulary
        self._eos_ids = np.array(sorted(vocabulary.eos_ids), np.int64)
        self._summaries: Remembered[int, Summary] = Remembered(MAX_MASK_BYTES)
        self._masks: Remembered[int, Mask] = Remembered(MAX_MASK_BYTES)
        self.ended = self._mask([self._eos_ids])

    @property
    def _trie(self) -> Trie:
        return self._vocabulary.trie

    def mask(self, configuration: int) -> Mask:
        """The mask of a configuration, which is not to be written to."""
        found = self._masks.get(configuration)
        if found is None:
            found = self._mask(self._allowed(configuration))
            self._masks.put(configuration, found, found.nbytes)
        return found

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
        ids = [np.array(sorted(special), np.int64)]
        if threads.accepting(configuration):
            ids.append(self._eos_ids)
        places: dict[int, list[Ints]] = {}
        for thread in threads.configurations[configuration]:
            for reading in threads.beginnings(thread) if thread.terminal == BETWEEN else (thread,):
                scan = reading.scan
                if not reading.ignored:  # the guard behind ignored text is what is left of it, unbounded
                    scan = self._scans.bounded(scan, self._trie.longest)
                summary = self._summary(scan)
                ids.append(summary.inner)
                self._leave(reading, summary, places)
        ids += self._beyond(places)
        return ids

    def _summary(self, scan: int) -> Summary:
        found = self._summaries.get(scan)
        if found is None:
            found = self._summarise(scan)
            self._summaries.put(scan, found, found.size)
        return found

    def _summarise(self, scan: int) -> Summary:
        inner, nodes, scans = [], [], []
        for level in walk(self._trie, np.array([ROOT]), np.array([scan]), self._scans.step):
            if level.nodes[0] == ROOT:
                continue  # no token is empty, and what ends there is another thread
            kinds, which = np.unique(level.states, return_inverse=True)
            goes_on = np.array([self._scans.continues(kind) for kind in kinds.tolist()], bool)[which]
            ends = np.array([self._scans.can_end(kind) for kind in kinds.tolist()], bool)[which]
            inner.append(self._trie.tokens_at(level.nodes[goes_on]))
            nodes.append(level.nodes[ends])
            scans.append(level.states[ends])
        none = np.zeros(0, np.int64)
        return Summary(*(np.concatenate(arrays) if arrays else none for arrays in (inner, nodes, scans)))

    def _leave(self, thread: Thread, summary: Summary, places: dict[int, list[Ints]]) -> None:
        """Add to `places`, by configuration, the nodes where a thread's terminal may end."""
        for scan in np.unique(summary.scans).tolist():
            behind = self._threads.between(self._threads.endings(thread, scan))
            if behind != LOST:
                places.setdefault(behind, []).append(summary.nodes[summary.scans == scan])

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
