"""`BackendTrials`: a backend that is tried on random chains, beside the reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ..arithmetic import Logprobs, checked_row, row_logprobs
from ..backends.hosted import supports_all
from ..backends.numpy import NumpyBackend
from ..contract import Backend, Group, unpack_bitmask
from .batches import RowResults, run_batch
from .cases import times
from .chains import ChainTrial, chain_trials
from .search.searching import Searching


class BackendTrials(Searching):
    """What the laws of backends share.

    `place` puts logits on the backend's device; by default they stay on the host.

    vocab_sizes  sizes to try.
    chains       random chains of every size, and random steps. ENGINE_SAMPLER_TEST_ROUNDS multiplies them.
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

    def given(self, logits: Any) -> Any:
        """Logits on the backend's device; those that only the host can have stay as they are."""
        return logits if self.takes_bits else self.place(logits)

    @property
    def takes_bits(self) -> bool:
        """Whether logits stay on the host, where they may be `LogitRows` of bfloat16."""
        return type(self).place is BackendTrials.place

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

    def expect(self, trial: object, results: RowResults, right: RowResults, where: str) -> None:
        for i in range(len(right.token_ids)):
            drawn, expected = results.row(i), right.row(i)
            empty = results.errors[i] is None or results.token_ids[i] == -1
            assert empty, f"row {i} fails and has the token {results.token_ids[i]}, not -1, {where}, {trial}"
            if self.backend.exact:
                differs = next((k for k in (2, 0, 1) if drawn[k] != expected[k]), None)
                if differs is None and right.processed and drawn[3] != expected[3]:
                    raise AssertionError(
                        f"the survivors of row {i} differ from the reference {where}, {trial}"
                    )
            else:
                differs = (
                    2
                    if bool(drawn[2]) != bool(expected[2])
                    else 0
                    if not drawn[2] and drawn[0] not in expected[3][0]
                    else None
                )
            if differs is not None:
                raise AssertionError(
                    f"row {i} gives {results.described(i)}, not {right.described(i)}, {where}, {trial}"
                )

    def logprobs_of_reference(
        self,
        group: Group,
        i: int,
        raw: np.ndarray,
        token: int,
        k: int,
        survivors: tuple[Any, Any],
        words: np.ndarray | None = None,
    ) -> tuple[Any, ...]:
        """The logprobs of row `i` of `group`, of every kind, if `token` is chosen, with k others (−1 = all);
        `words` is the row's mask."""
        checked, rows = checked_row(raw), group.rows.take(slice(i, i + 1))
        penalized = checked[None].copy()
        if words is not None:
            penalized[0, ~unpack_bitmask(words, len(raw))] = -np.inf
            rows = rows.under(words[None])
        NumpyBackend().apply(group.plan.edits_only(), penalized, rows)
        ids, logits = survivors
        return (
            row_logprobs(checked, token, k),
            row_logprobs(penalized[0], token, k),
            row_logprobs(logits, token, k, ids),
        )

    def expect_logprobs(self, trial: object, table: Logprobs, i: int, right: Any, what: str) -> None:
        """Raise AssertionError unless row `i` of `table` begins with the entries `right`."""
        k, first = len(right.token_ids), int(table.starts[i])
        same = table.entry_token_ids[first : first + k].tolist() == right.token_ids.tolist()
        same &= int(table.ranks[i]) == right.rank
        logprobs = table.entry_logprobs[first : first + k]
        same &= np.allclose(logprobs, right.logprobs, rtol=1e-6, atol=1e-5)
        assert same, f"the {what} of row {i} differ from the reference, {trial}"
