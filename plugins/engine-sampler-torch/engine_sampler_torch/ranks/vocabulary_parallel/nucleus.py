"""`Nucleus`: top_p of rows that lie on the shards of all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from ..exchange import Exchange
from .arithmetic import LEVELS, NO_KEY, level_logits, weights_below
from .candidates import candidate_logits, mass_limit, union
from .local_shard import BINS, LocalShard
from .parallel_rows import MOST_CANDIDATES, ShareCut


class Nucleus:
    """top_p of some rows: by the ranks' best candidates where these suffice, else by histograms.

    sizes  tokens by rank.
    rows   int64 [m], which rows of the batch these are.
    peak   float32 [m, 1], their greatest logits.
    """

    def __init__(
        self, exchange: Exchange, shard: LocalShard, sizes: Sequence[int], rows: Tensor, peak: Tensor
    ) -> None:
        self._exchange, self._shard, self._sizes = exchange, shard, sizes
        self._rows, self._peak = rows, peak

    def cut(self, cut: ShareCut) -> None:
        """Remove the tokens beyond the share."""
        each = min(MOST_CANDIDATES, max(self._sizes))
        offered = self._exchange.gather((len(self._rows), 1 + each), lambda: self._offer(each))
        total = offered[:, :, 0].sum(0)
        limit = mass_limit(cut, total)
        least, known = self._least_key(offered[:, :, 1:], limit, cut.crossing)
        whole = limit >= total
        least = least.masked_fill(whole, NO_KEY)
        self._exchange.attempt(lambda: self._shard.keep_from(self._rows, least))
        flat = (~known & ~whole).nonzero()[:, 0]
        if len(flat):
            rest = Nucleus(self._exchange, self._shard, self._sizes, self._rows[flat], self._peak[flat])
            rest._cut_flat(limit[flat], cut.crossing[flat])

    def _offer(self, each: int) -> Tensor:
        """This rank's sums of weights, and its best keys: int64 [m, 1 + each]."""
        masses = self._shard.masses(self._rows, self._peak)
        return torch.cat([masses[:, None], self._shard.best_keys(self._rows, each)], dim=1)

    def _least_key(self, offered: Tensor, limit: Tensor, crossing: Tensor) -> tuple[Tensor, Tensor]:
        """(the key of the last token that stays, whether it is known), [m] both; `NO_KEY` where it is not.

        A list of candidates that is full may leave out tokens below its last key, so that what is known ends
        at the greatest of these keys.
        """
        ordered = union(offered)
        width = ordered.shape[1]
        inside = (weights_below(candidate_logits(ordered), self._peak).cumsum(1) <= limit[:, None]).sum(1)
        crossed = ordered.gather(1, inside.clamp(max=width - 1)[:, None])[:, 0]
        known = (inside < width) & (crossed > NO_KEY)
        full = [rank for rank, size in enumerate(self._sizes) if size > offered.shape[2]]
        if full:
            known &= crossed >= offered[full, :, -1].amax(0)
        last = (inside + crossing.long() - 1).clamp(0, width - 1)
        return ordered.gather(1, last[:, None])[:, 0].masked_fill(~known, NO_KEY), known

    def _cut_flat(self, limit: Tensor, crossing: Tensor) -> None:
        """Find the logit at which the cumulative weight exceeds `limit` by a radix select, eight bits a
        message, and then share out the tokens that tie with it, in the order of ids. The likeliest token
        stays in any case, since it does not exceed the limit: it is among the candidates."""
        self._exchange.attempt(lambda: self._shard.weigh_flat(self._rows, self._peak))
        level, above = torch.zeros_like(limit), torch.zeros_like(limit)
        for shift in range(LEVELS.bit_length() - 9, -1, -8):
            bins = self._exchange.total((len(limit), BINS), partial(self._shard.histogram, level, shift))
            downwards = bins.flip(1).cumsum(1) + above[:, None]
            before = (downwards <= limit[:, None]).sum(1).clamp(max=BINS - 1)
            above = torch.cat([above[:, None], downwards], dim=1).gather(1, before[:, None])[:, 0]
            level = level * BINS + (BINS - 1 - before)
        counts = self._exchange.gather((len(limit),), partial(self._shard.ties, level))
        edge = level_logits(level)[:, None]
        one = weights_below(edge, self._peak)[:, 0].clamp(min=1)
        ties = (limit - above) // one + crossing.long()
        own = (ties - counts[: self._exchange.rank].sum(0)).clamp(min=0)
        self._exchange.attempt(lambda: self._shard.keep_levels(self._rows, level, own))
