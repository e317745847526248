"""`BackendTrials`: a backend that is tried on random chains, beside the reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ..backends.hosted import supports_all
from ..backends.numpy import NumpyBackend
from ..contract import Backend, Group
from .batches import RowResults, run_batch
from .cases import times
from .chains import ChainTrial, chain_trials


class BackendTrials:
    """What the laws of backends share.

    `place` puts logits on the backend's device; by default they stay on the host.

    vocab_sizes  sizes to try.
    chains       random chains of every size. ENGINE_SAMPLER_TEST_ROUNDS multiplies them.
    """

    backend: ClassVar[Backend]
    vocab_sizes: ClassVar[Sequence[int]] = (1, 40, 300, 2100)
    chains: ClassVar[int] = 12

    def place(self, logits: np.ndarray) -> Any:
        """Logits as the backend gets them. Override it to put them on its device."""
        return logits

    def run(
        self,
        backend: Backend,
        logits: np.ndarray,
        groups: list[Group],
        bitmask: np.ndarray | None = None,
        cache: dict[Any, Any] | None = None,
    ) -> RowResults:
        """One step of `groups` on `backend`: on the one that is tried, with logits on its device."""
        given = self.place(logits) if backend is self.backend else logits
        return run_batch(backend, given, groups, bitmask, cache)

    def trials(self) -> Iterator[ChainTrial]:
        """The random chains that the backend supports."""
        for trial in chain_trials(self.vocab_sizes, times(self.chains)):
            if self.backend.hosts_the_rest or supports_all(self.backend, trial.chain):
                yield trial

    def group(
        self, backend: Backend, trial: ChainTrial, index: np.ndarray | None = None, **options: Any
    ) -> Group:
        """The rows of a trial as rows 0, 1, … of some logits, or as the rows `index`."""
        where = np.arange(len(trial.rows)) if index is None else index
        return Group(backend.compile(trial.chain), where, trial.rows, **options)

    def compare(
        self,
        trial: ChainTrial,
        where: str,
        *,
        logits: np.ndarray | None = None,
        bitmask: np.ndarray | None = None,
        want_processed: bool = False,
    ) -> RowResults:
        """The outcome of the rows, after comparing it with that of the reference."""
        given = trial.logits if logits is None else logits
        masked, wanted = bitmask is not None, want_processed or not self.backend.exact
        found, right = (
            self.run(b, given, [self.group(b, trial, masked=masked, want_processed=wanted)], bitmask)
            for b in (self.backend, NumpyBackend())
        )
        self.expect(trial, found, right, where)
        return found

    def expect(self, trial: ChainTrial, results: RowResults, right: RowResults, where: str) -> None:
        for i in range(len(right.token_ids)):
            drawn, expected = results.row(i), right.row(i)
            if self.backend.exact:
                differs = next((k for k in (2, 0, 1) if drawn[k] != expected[k]), None)
                if differs is None and right.processed and drawn[3] != expected[3]:
                    raise AssertionError(
                        f"the survivors of row {i} differ from the reference {where}, {trial}"
                    )
            else:
                differs = (
                    2
                    if drawn[2] != expected[2]
                    else 0
                    if not drawn[2] and drawn[0] not in expected[3][0]
                    else None
                )
            if differs is not None:
                raise AssertionError(
                    f"row {i} gives {results.described(i)}, not {right.described(i)}, {where}, {trial}"
                )
