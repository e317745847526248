"""The samplers on rows of few candidates, which every rank has: the same on all, so nothing is exchanged."""

from __future__ import annotations

import torch
from torch import Tensor

from engine_sampler.arithmetic import MASS_SLACK

from ...arithmetic import mass_reaching, mass_within, scale_draw
from .arithmetic import NO_KEY, edited, key_ids, key_logits, keys, weights_below
from .parallel_rows import ShareCut


def mass_limit(cut: ShareCut, total: Tensor) -> Tensor:
    """The cumulative weight up to which tokens are inside, int64 [m], for totals int64 [m]: by
    `mass_reaching` or `mass_within`."""
    return torch.where(cut.reach, mass_reaching(cut.p, total) - 1, mass_within(cut.p, total))


def threshold(peak: Tensor, depth: Tensor) -> Tensor:
    """The least logit that min_p keeps, float32 [n, 1]: float32(max + ln(min_p) − 2^−20) in float64."""
    return ((peak.double() + depth) - MASS_SLACK).float()


class ShardCandidates:
    """Rows of candidates: all tokens that survive in them.

    rows    int64 [m], which rows of the batch these are.
    values  float32 [m, k], −inf where there is no candidate.
    ids     int64 [m, k].
    """

    def __init__(self, rows: Tensor, values: Tensor, ids: Tensor) -> None:
        self.rows, self.values, self.ids = rows, values, ids

    @classmethod
    def best(cls, rows: Tensor, offered: Tensor, k: Tensor, most: int) -> ShardCandidates:
        """The best `k` [m] of the keys that the ranks have `offered`, int64 [ranks, m, each]; k ≤ most."""
        ordered = union(offered)[:, :most]
        values = candidate_logits(ordered)
        beyond = torch.arange(ordered.shape[1], device=k.device) >= k[:, None]
        return cls(rows, values.masked_fill(beyond, -torch.inf), key_ids(ordered))

    def scale(self, scale: Tensor) -> None:
        """Temperature: float32 [n, 1] factors of all rows of the batch."""
        self.values = edited(self.values * scale[self.rows], self.values)

    def cut_below(self, least: Tensor) -> None:
        """min_p: float32 [n, 1] thresholds of all rows of the batch."""
        self.values = self.values.masked_fill(self.values < least[self.rows], -torch.inf)

    def cut_after(self, which: Tensor, count: Tensor) -> None:
        """top_k: keep the first `count` [w] candidates of the rows at `which` [w]."""
        self._keep_first(which, count[:, None])

    def cut_share(self, which: Tensor, cut: ShareCut, peak: Tensor) -> None:
        """top_p on the rows at `which` [w], where the maxima of all rows of the batch are `peak` [n, 1]."""
        w = weights_below(self.values[which], peak[self.rows[which]])
        limit = mass_limit(cut, w.sum(1))
        cumulative = w.gather(1, self._order(which)).cumsum(1)
        inside = (cumulative <= limit[:, None]).sum(1)
        self._keep_first(which, (inside + cut.crossing.long()).clamp(min=1)[:, None])

    def draw(self, peak: Tensor, random: Tensor) -> Tensor:
        """The drawn tokens, int64 [m], −1 where no candidate has a weight; `random` int64 [n] holds 64 random
        bits for each row of the batch."""
        ids, order = self.ids.sort(dim=1)
        w = weights_below(self.values, peak[self.rows]).gather(1, order)
        total = w.sum(1)
        above = w.cumsum(1) > scale_draw(random[self.rows], total)[:, None]
        first = above.int().argmax(1, keepdim=True)
        return ids.gather(1, first)[:, 0].masked_fill(total == 0, -1)

    def _order(self, which: Tensor) -> Tensor:
        """The columns of the rows at `which` in (logit desc, id asc) order, int64 [w, k]."""
        return keys(self.values[which], self.ids[which]).argsort(dim=1, descending=True)

    def _keep_first(self, which: Tensor, count: Tensor) -> None:
        """Keep the first `count` [w, 1] candidates of the rows at `which`, in order."""
        place = self._order(which).argsort(dim=1)
        self.values[which] = self.values[which].masked_fill(place >= count, -torch.inf)


def union(offered: Tensor) -> Tensor:
    """The keys that all ranks have offered, int64 [ranks, m, each], best first: int64 [m, ranks · each]."""
    return offered.transpose(0, 1).flatten(1).sort(dim=1, descending=True).values


def candidate_logits(key: Tensor) -> Tensor:
    """The float32 logits of keys, −inf for `NO_KEY`."""
    return key_logits(key).masked_fill(key == NO_KEY, -torch.inf)
