"""`LocalShard`: the logits of one rank's tokens, as they pass through the chains."""

from __future__ import annotations

import torch
from torch import Tensor

from engine_sampler.arithmetic import LOGIT_LIMIT

from .arithmetic import NAN_KEY, NO_KEY, edited, keys, levels, weights_below
from .edits import biased, divided, lowered
from .parallel_rows import ParallelRows

BINS = 256
"""A histogram is over eight bits of the logits' levels."""


class LocalShard:
    """A rank's logits [rows, tokens], copied to float32 and changed step by step; −inf removes a token.

    logits  as given, any dtype; not written to.
    first   the id of its first token.
    """

    def __init__(self, logits: Tensor, first: int) -> None:
        self.device = logits.device
        self._logits = logits
        self._first = first
        self._values = torch.empty(0)
        self._ids = torch.arange(first, first + logits.shape[1], device=self.device)
        self._weights = torch.empty(0)
        self._levels = torch.empty(0)

    # --- edits -----------------------------------------------------------------------------------

    def edited_maxima(self, rows: ParallelRows) -> Tensor:
        """Apply masks, biases and penalties. Returns int64 keys [n, 3]: those of the best token as given,
        after the masks, and after all edits."""
        values = self._logits.float()
        raw_maxima = self._best(values)
        values = values.masked_fill(values < -float(LOGIT_LIMIT), -torch.inf)
        if rows.bitmask is not None:
            values = values.masked_fill(~self._allowed(rows.bitmask), -torch.inf)
        masked = self._best(values)
        rows.bias.apply(values, biased)
        rows.bias.remove(values)
        repeated, counted = rows.penalties
        repeated.apply(values, divided)
        counted.apply(values, lowered)
        self._values = values
        return torch.stack([raw_maxima, masked, self._best(values)], dim=1)

    def _best(self, values: Tensor) -> Tensor:
        """The key of the best token of each row; `NAN_KEY` where there is NaN."""
        if not values.shape[1]:
            return torch.full((len(values),), NO_KEY, device=self.device)
        peak, column = values.max(dim=1)
        return keys(peak, self._ids[column]).masked_fill(peak.isnan(), NAN_KEY)

    def _allowed(self, bitmask: object) -> Tensor:
        """bool [n, tokens], from int32 [n, words] over the whole vocabulary."""
        words = torch.as_tensor(bitmask).to(self.device)
        return ((words[:, self._ids >> 5] >> (self._ids & 31)) & 1).bool()

    # --- samplers --------------------------------------------------------------------------------

    def drop(self, faulty: Tensor) -> None:
        """Leave rows, bool [n, 1], without tokens."""
        self._values = self._values.masked_fill(faulty.to(self.device), -torch.inf)

    def scale(self, scale: Tensor) -> None:
        """Temperature: factors float32 [n, 1]."""
        self._values = edited(self._values * scale.to(self.device), self._values)

    def cut_below(self, least: Tensor) -> None:
        """min_p: thresholds float32 [n, 1]."""
        self._values = self._values.masked_fill(self._values < least.to(self.device), -torch.inf)

    def best_keys(self, rows: Tensor, count: int) -> Tensor:
        """The keys of the best `count` tokens of some rows, descending: int64 [m, count], `NO_KEY` where
        there are fewer."""
        own = keys(self._some(rows), self._ids)
        found = own.topk(min(count, own.shape[1]), dim=1).values
        out = torch.full((len(own), count), NO_KEY, device=self.device)
        out[:, : found.shape[1]] = found
        return out

    def keep_from(self, rows: Tensor, least: Tensor) -> None:
        """Keep the tokens of some rows whose key is at least `least` [m]."""
        some = self._some(rows)
        below = keys(some, self._ids) < least.to(self.device)[:, None]
        self._replace(rows, some.masked_fill(below, -torch.inf))

    def masses(self, rows: Tensor, peak: Tensor) -> Tensor:
        """The sums of the weights of some rows, int64 [m], where the maxima of these are `peak` [m, 1]. They
        are kept for `pick` and `histogram`."""
        self._weights = weights_below(self._some(rows), peak.to(self.device))
        return self._weights.sum(1)

    def pick(self, target: Tensor) -> Tensor:
        """The first token whose cumulative weight exceeds `target` [m], among the rows last weighed: int64
        [m], −1 where the target lies before or beyond this shard."""
        goal = target.to(self.device)
        cumulative = self._weights.cumsum(1)
        place = (cumulative <= goal[:, None]).sum(1)
        inside = (goal >= 0) & (place < cumulative.shape[1])
        return (place + self._first).masked_fill(~inside, -1)

    # --- flat rows -------------------------------------------------------------------------------

    def weigh_flat(self, rows: Tensor, peak: Tensor) -> None:
        """Prepare `histogram` of some rows."""
        self.masses(rows, peak)
        self._levels = levels(self._some(rows))

    def histogram(self, prefix: Tensor, shift: int) -> Tensor:
        """Weight by the next eight bits of the logits' levels, from bit `shift` on, of the tokens whose
        higher bits are `prefix` [m]: int64 [m, 256]."""
        own = self._levels >> (shift + 8) == prefix.to(self.device)[:, None]
        digits = (self._levels >> shift) & (BINS - 1)
        bins = torch.zeros((len(digits), BINS), dtype=torch.int64, device=self.device)
        return bins.scatter_add_(1, digits, self._weights * own)

    def ties(self, level: Tensor) -> Tensor:
        """How many tokens have the level `level` [m], int64 [m]."""
        return (self._levels == level.to(self.device)[:, None]).sum(1)

    def keep_levels(self, rows: Tensor, level: Tensor, ties: Tensor) -> None:
        """Keep the tokens above `level` [m], and the first `ties` [m] of those at it."""
        edge = level.to(self.device)[:, None]
        at = self._levels == edge
        kept = (self._levels > edge) | (at & (at.cumsum(1) <= ties.to(self.device)[:, None]))
        self._replace(rows, self._some(rows).masked_fill(~kept, -torch.inf))

    # --- inside ----------------------------------------------------------------------------------

    def _some(self, rows: Tensor) -> Tensor:
        return self._values.index_select(0, rows.to(self.device))

    def _replace(self, rows: Tensor, values: Tensor) -> None:
        self._values[rows.to(self.device)] = values
