"""`ParallelStep`: one step of vocabulary-parallel sampling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine_sampler.arithmetic import LOGIT_LIMIT, RowFault, checked_row

from ...arithmetic import scale_draw
from ..exchange import Exchange
from ..shards import VocabularyShards
from .arithmetic import edited, key_ids, key_logits
from .candidates import ShardCandidates, threshold
from .local_shard import LocalShard
from .nucleus import Nucleus
from .parallel_rows import ParallelRows, ShareCut, Stage


@dataclass(frozen=True, eq=False)
class ParallelSample:
    """The tokens of one step, the same on all ranks.

    token_ids  int64 [rows] on the device of the logits, −1 for a faulty row.
    errors     why a row is faulty, else None.
    """

    token_ids: Tensor
    errors: list[str | None]


class ParallelStep:
    """One step.

    What a rank computes of its shard may fail: that happens within a message, or in `attempt`. What follows
    from messages is computed on all ranks alike, failed ones too, so that all take part in the same messages.
    """

    def __init__(
        self, exchange: Exchange, shards: VocabularyShards, rows: ParallelRows, shard: LocalShard
    ) -> None:
        self._exchange = exchange
        self._rows = rows
        self._shard = shard
        self._sizes = shards.sizes
        self._wide = np.flatnonzero(~rows.greedy)
        """The rows that are on their shards still."""
        self._narrow: list[tuple[np.ndarray, ShardCandidates]] = []
        """Those of which every rank has the candidates: their numbers, ascending, and these."""
        self._peak = torch.empty(0)
        """float32 [n, 1], the greatest logit of each row as it is now, 0 for a faulty one."""

    def run(self) -> ParallelSample:
        """Draw a token for each row; raises what `Exchange.settle` does."""
        n = self._rows.count
        best = self._exchange.greatest((n, 3), lambda: self._shard.edited_maxima(self._rows))
        faulty = _faulty(best)
        self._peak = key_logits(best[:, 2:]).masked_fill(faulty, 0.0)
        if len(self._wide):  # then messages follow, which tell of a failure
            self._exchange.attempt(lambda: self._shard.drop(faulty))
        for stage in self._rows.stages:
            self._run_stage(stage)
        token_ids = key_ids(best[:, 2])
        self._draw(token_ids)
        token_ids = token_ids.masked_fill(faulty[:, 0], -1)
        self._exchange.settle()
        return ParallelSample(token_ids.to(self._shard.device), _errors(best, faulty))

    # --- stages ----------------------------------------------------------------------------------

    def _run_stage(self, stage: Stage) -> None:
        if stage.scale is not None:
            self._scale(self._tensor(stage.scale))
        if stage.depth is not None:
            self._cut_below(threshold(self._peak, self._tensor(stage.depth)))
        if stage.top_k is not None:
            self._top_k(*stage.top_k)
        if stage.top_p is not None:
            rows, cut = stage.top_p
            self._top_p(rows, cut.on(self._peak.device))

    def _scale(self, scale: Tensor) -> None:
        """Temperature. The greatest logit of a row stays the greatest."""
        self._peak = edited(self._peak * scale, self._peak)
        for _, candidates in self._narrow:
            candidates.scale(scale)
        if len(self._wide):
            self._exchange.attempt(lambda: self._shard.scale(scale))

    def _cut_below(self, least: Tensor) -> None:
        """min_p."""
        for _, candidates in self._narrow:
            candidates.cut_below(least)
        if len(self._wide):
            self._exchange.attempt(lambda: self._shard.cut_below(least))

    def _top_k(self, rows: np.ndarray, k: np.ndarray) -> None:
        """top_k: of rows on their shards, every rank gets the candidates."""
        for own, candidates in self._narrow:
            which, places = _places(rows, own)
            if len(which):
                candidates.cut_after(self._tensor(places), self._tensor(k[which]))
        which, _ = _places(rows, self._wide)
        if not len(which):
            return
        rows, k = rows[which], k[which]
        most = int(k.max())
        where, each = self._tensor(rows), min(most, max(self._sizes))
        offered = self._exchange.gather((len(rows), each), lambda: self._shard.best_keys(where, each))
        self._narrow.append((rows, ShardCandidates.best(where, offered, self._tensor(k), most)))
        self._wide = np.setdiff1d(self._wide, rows)

    def _top_p(self, rows: np.ndarray, cut: ShareCut) -> None:
        for own, candidates in self._narrow:
            which, places = _places(rows, own)
            if len(which):
                candidates.cut_share(self._tensor(places), cut.take(self._tensor(which)), self._peak)
        which, _ = _places(rows, self._wide)
        if len(which):
            where = self._tensor(rows[which])
            nucleus = Nucleus(self._exchange, self._shard, self._sizes, where, self._peak[where])
            nucleus.cut(cut.take(self._tensor(which)))

    # --- the draw --------------------------------------------------------------------------------

    def _draw(self, token_ids: Tensor) -> None:
        """Write the drawn tokens of all rows that are not greedy into `token_ids` [n]."""
        random = self._tensor(self._rows.draws())
        for _, candidates in self._narrow:
            token_ids[candidates.rows] = candidates.draw(self._peak, random)
        if not len(self._wide):
            return
        rows = self._tensor(self._wide)
        peak = self._peak[rows]
        masses = self._exchange.gather((len(rows),), lambda: self._shard.masses(rows, peak))
        target = scale_draw(random[rows], masses.sum(0)) - masses[: self._exchange.rank].sum(0)
        token_ids[rows] = self._exchange.greatest((len(rows),), lambda: self._shard.pick(target))

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self._exchange.device)


def _places(rows: np.ndarray, among: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(which of `rows` are among others, their places there), int64 both."""
    which = np.flatnonzero(np.isin(rows, among))
    return which, np.searchsorted(among, rows[which])


def _faulty(best: Tensor) -> Tensor:
    """Rows that cannot yield a token, bool [n, 1], by the keys of `LocalShard.edited_maxima`."""
    peaks = key_logits(best)
    sound = (peaks[:, 0].abs() <= float(LOGIT_LIMIT)) & (peaks[:, 1:] > -torch.inf).all(1)
    return ~sound[:, None]


def _errors(best: Tensor, faulty: Tensor) -> list[str | None]:
    """What is wrong with each row, in the words of the core."""
    peaks = key_logits(best).cpu().numpy()
    errors: list[str | None] = [None] * len(peaks)
    for row in np.flatnonzero(faulty.cpu().numpy()).tolist():
        try:
            checked_row(peaks[row, :1])
            culprit = "the grammar" if peaks[row, 1] == -np.inf else "logit_bias"
            errors[row] = f"{culprit} leaves no token"
        except RowFault as fault:
            errors[row] = str(fault)
    return errors
