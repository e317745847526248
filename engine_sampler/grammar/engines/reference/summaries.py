"""Masks where most tokens stay within one terminal.

Which ones do depends on how far the terminal has been read and on nothing else, so it is found once for
each scan (`Summary`), with the places in the tree of tokens where the terminal may end. Only behind those
the rules are asked, token byte by token byte.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np

from ...cache import Cache
from ...derivatives.limits import MAX_MASK_BYTES
from .configurations import LOST
from .masks import Masks
from .threads import BETWEEN, Thread, Threads
from .trie import ROOT, Ints
from .vocabulary import ReferenceVocabulary
from .walk import walk


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


class SummaryMasks(Masks):
    """The masks of a vocabulary where a terminal may end wherever its expression does."""

    _threads: Threads

    def __init__(self, threads: Threads, vocabulary: ReferenceVocabulary) -> None:
        super().__init__(threads, vocabulary)
        self._scans = threads.scans
        self._summaries: Cache[Summary] = Cache(sys.maxsize, MAX_MASK_BYTES, lambda found: found.size)

    def _texts(self, configuration: int) -> list[Ints]:
        threads = self._threads
        ids: list[Ints] = []
        places: dict[int, list[Ints]] = {}
        for thread in threads.configurations[configuration]:
            for reading in threads.beginnings(thread) if thread.terminal == BETWEEN else (thread,):
                scan = reading.scan
                if not reading.ignored:  # the guard behind ignored text is what is left of it, unbounded
                    scan = self._scans.bounded(scan, self._trie.longest)
                summary = self._summary(scan)
                ids.append(summary.inner)
                self._leave(reading, summary, places)
        return ids + self._beyond(places)

    def _summary(self, scan: int) -> Summary:
        return self._summaries.get(scan, lambda: self._summarise(scan))

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
