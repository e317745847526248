"""Masks of the Earley parser, computed from summaries: most tokens stay within one terminal.

Which tokens do depends only on the progress within the terminal, so it is computed once for each scan
(`Summary`), together with the trie nodes at which the terminal may end. Only from those nodes on does the
parser read tokens byte by byte.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np

from ...cache import Cache
from ...derivatives.limits import MAX_MASK_BYTES
from .configurations import REJECTED
from .masks import ConfigurationMasks
from .threads import BETWEEN_TERMINALS, EarleyConfigurations, EarleyThread
from .vocabulary import ROOT, Ints, ReferenceVocabulary
from .walk import traverse


class Summary(NamedTuple):
    """The tokens that stay within a terminal from a scan on, and the nodes at which the terminal may end.

    inner   int64: token ids
    nodes   int64: trie nodes below the root at which the terminal may end
    scans   int64: the scan at each of these nodes
    """

    inner: Ints
    nodes: Ints
    scans: Ints

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.inner.nbytes + self.nodes.nbytes + self.scans.nbytes


class SummaryMasks(ConfigurationMasks):
    """The masks of a vocabulary under an Earley parser, whose terminals may end wherever they match."""

    _configurations: EarleyConfigurations

    def __init__(self, configurations: EarleyConfigurations, vocabulary: ReferenceVocabulary) -> None:
        super().__init__(configurations, vocabulary)
        self._scans = configurations.scans
        self._summaries: Cache[Summary] = Cache(sys.maxsize, MAX_MASK_BYTES, lambda found: found.size)

    def weight(self) -> int:
        return super().weight() + self._summaries.info().weight

    def _texts(self, configuration: int) -> list[Ints]:
        configurations = self._configurations
        ids: list[Ints] = []
        seeds: dict[int, list[Ints]] = {}
        for thread in configurations.threads[configuration]:
            between = thread.terminal == BETWEEN_TERMINALS
            for reader in configurations.beginnings(thread) if between else (thread,):
                scan = reader.scan
                if not reader.ignored:  # the guard after ignored text is its rest, which must stay exact
                    scan = self._scans.bounded(scan, self._trie.longest)
                summary = self._summary(scan)
                ids.append(summary.inner)
                self._add_seeds(reader, summary, seeds)
        return ids + self._tokens_below(seeds)

    def _summary(self, scan: int) -> Summary:
        return self._summaries.get(scan, lambda: self._summarise(scan))

    def _summarise(self, scan: int) -> Summary:
        inner, nodes, scans = [], [], []
        for level in traverse(self._trie, np.array([ROOT]), np.array([scan]), self._scans.step):
            if level.nodes[0] == ROOT:
                continue  # no token is empty, and a terminal that ends there is another thread
            distinct, which = np.unique(level.states, return_inverse=True)
            continues = np.array([self._scans.continues(state) for state in distinct.tolist()], bool)[which]
            ends = np.array([self._scans.can_end(state) for state in distinct.tolist()], bool)[which]
            inner.append(self._trie.tokens_at(level.nodes[continues]))
            nodes.append(level.nodes[ends])
            scans.append(level.states[ends])
        none = np.zeros(0, np.int64)
        return Summary(*(np.concatenate(arrays) if arrays else none for arrays in (inner, nodes, scans)))

    def _add_seeds(self, thread: EarleyThread, summary: Summary, seeds: dict[int, list[Ints]]) -> None:
        """Add to `seeds`, by configuration, the nodes at which a thread's terminal may end."""
        for scan in np.unique(summary.scans).tolist():
            after = self._configurations.between(self._configurations.endings(thread, scan))
            if after != REJECTED:
                seeds.setdefault(after, []).append(summary.nodes[summary.scans == scan])
