"""`Block`: rows of logits in progress on a device; `DeviceStep` and `DeviceSelector`: what a sampler and a
selector do to them.

A step equals its sampler in `engine_sampler.samplers` bit for bit. It has two halves: `inputs`, on the host,
reads parameters, states and histories; `apply`, on the device, uses what has been copied there. `apply` never
waits for the device, so shapes depend on the host's values alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from engine_sampler import Rows
from engine_sampler.arithmetic import FLT_MAX
from torch import Tensor

from ..arithmetic import NEGATIVE_INFINITY, descending, distances, first_columns, weights

Given = Mapping[str, Tensor]
"""The arrays that `inputs` returned, on the device."""

_FLT_MAX = float(FLT_MAX)


@dataclass(eq=False)
class Block:
    """Rows of logits in progress.

    values      float32 [n, m]; −inf = removed. Change them by the methods below, or by `replace`.
    ids         int64 [n, m], the token id of each column, ascending in every row, padded with vocab_size
                (values −inf); None: column j is token j, and m is vocab_size.
    vocab_size  the number of tokens.
    faults      int64 [n], 0 = sound; `check` writes them.
    peaks       float32 [n], the greatest value that a faulty row had when its fault was found; 0 if sound.
    bitmask     int32 [n, words] or None, which tokens the grammars of this step allow.
    owned       whether `values` may be written to in place; not if they are the caller's logits.
    """

    values: Tensor
    ids: Tensor | None
    vocab_size: int
    faults: Tensor
    bitmask: Tensor | None = None
    owned: bool = False
    peaks: Tensor | None = None
    _known: dict[str, Tensor] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """m, the number of columns."""
        return self.values.shape[1]

    # --- what is known of the values; computed when needed, and kept until they change --------------------

    @property
    def distances(self) -> Tensor:
        """y = (l − max)·log2 e, float32 [n, m]; −inf where removed."""
        return self._masked("distances", lambda: distances(self.values), NEGATIVE_INFINITY)

    @property
    def weights(self) -> Tensor:
        """w, int64 [n, m]; 0 where removed."""
        return self._masked("weights", lambda: weights(self.distances), 0)

    @property
    def total(self) -> Tensor:
        """S, the sum of the weights, int64 [n]."""
        return self._cached("total", lambda: self.weights.sum(1))

    @property
    def alive(self) -> Tensor:
        """The number of tokens that remain, int64 [n]."""
        return self._cached("alive", lambda: (self.values > NEGATIVE_INFINITY).sum(1))

    @property
    def best(self) -> Tensor:
        """The first column in (logit desc, id asc) order, int64 [n]."""
        return self._cached("best", lambda: self.values.argmax(1))

    @property
    def columns(self) -> Tensor:
        """0 … m − 1, int64."""
        return torch.arange(self.width, device=self.values.device)

    def order(self, most: int | None = None) -> Tensor:
        """The columns in (logit desc, id asc) order, int64 [n, ≥ min(most, m)]; all of them for None."""
        most = self.width if most is None else min(most, self.width)
        order = self._known.get("order")
        if order is None or order.shape[1] < most:
            order = descending(self.values) if 2 * most > self.width else first_columns(self.values, most)
            self._known["order"] = order
        return order

    def columns_of(self, token_ids: Tensor) -> tuple[Tensor, Tensor]:
        """(columns, present), int64 and bool [n, e]: where `token_ids` [n, e] are; any column if absent."""
        if self.ids is None:
            return token_ids.clamp(max=self.width - 1), token_ids < self.width
        columns = torch.searchsorted(self.ids, token_ids).clamp_(max=self.width - 1)
        return columns, (self.ids.gather(1, columns) == token_ids) & (token_ids < self.vocab_size)

    def token_ids_at(self, columns: Tensor) -> Tensor:
        """The token ids at `columns` [n], int64 [n]."""
        return columns if self.ids is None else self.ids.gather(1, columns[:, None])[:, 0]

    # --- changes ------------------------------------------------------------------------------------------

    def replace(self, values: Tensor) -> None:
        """Go on with new logits, float32 [n, m]."""
        self.values, self.owned = values, True
        self._known.clear()

    def keep(self, mask: Tensor) -> None:
        """Remove the columns that are False in bool `mask` [n, m]."""
        self.replace(torch.where(mask, self.values, NEGATIVE_INFINITY))

    def keep_upper(self, mask: Tensor) -> None:
        """`keep` for a `mask` that is True for the first tokens in (logit desc, id asc) order, one at least:
        distances, weights and the order of what stays do not change."""
        order, best = self._known.get("order"), self._known.get("best")
        stale = {name: self._known[name] for name in ("distances", "weights") if name in self._known}
        self.keep(mask)
        if order is not None:
            self._known["order"] = order
        if best is not None:
            self._known["best"] = best
        for name, values in stale.items():
            self._known[f"unmasked {name}"] = values

    def keep_leading(self, counts: Tensor, most: int | None = None) -> None:
        """Keep the first `counts` ≥ 1 (int64 [n]) tokens in (logit desc, id asc) order; `most` is a bound on
        `counts`, if the host knows one."""
        self.keep_upper(self.leading(counts, most))

    def leading(self, counts: Tensor, most: int | None = None) -> Tensor:
        """bool [n, m]: the first `counts` tokens in order; removed tokens may be reported either way."""
        order = self.order(most)
        last = order.gather(1, counts.clamp(max=order.shape[1])[:, None] - 1)
        threshold = self.values.gather(1, last)
        return (self.values > threshold) | ((self.values == threshold) & (self.columns <= last))

    def keep_above_best(self, failing: Tensor) -> None:
        """Keep the tokens with a logit above that of every `failing` one (bool [n, m]), at least the first."""
        highest = torch.where(failing, self.values, NEGATIVE_INFINITY).amax(1, keepdim=True)
        self.keep_upper((self.values > highest) | (self.columns == self.best[:, None]))

    def keep_heavy(self, need: Tensor) -> None:
        """Keep the longest prefix of tokens with weight ≥ `need` (int64 [n]), at least the first."""
        self.keep_above_best(self.weights < need[:, None])

    def narrow(self, k: int) -> None:
        """Go on with the first `k` < m columns in order, ids ascending; for rows in which no more are left."""
        columns = self.order(k)[:, :k].sort(1).values
        values = self.values.gather(1, columns)
        self.ids = columns if self.ids is None else self.ids.gather(1, columns)
        self.replace(values)

    def store(self, columns: Tensor, present: Tensor, values: Tensor) -> None:
        """Write float32 `values` [n, e] to `columns` [n, e], distinct within a row, where `present` [n, e]."""
        # Absent entries repeat the first one that is present, or write back what is there.
        old = self.values.gather(1, columns)
        values = torch.where(present, values, old)
        first = present.to(torch.uint8).argmax(1, keepdim=True)
        columns = torch.where(present, columns, columns.gather(1, first))
        values = torch.where(present, values, values.gather(1, first))
        stored = self.values if self.owned else self.values.clone()
        self.replace(stored.scatter_(1, columns, values))

    def check(self, step: int) -> None:
        """Note rows without a finite greatest logit as faults of step number `step`: 1 + 2·step if no token is
        left, 2 + 2·step if the greatest is +inf or NaN. They go on as rows of one token."""
        peak = self.values.amax(1)
        empty = peak == NEGATIVE_INFINITY
        faulty = empty | ~(peak <= _FLT_MAX)
        found = torch.where(empty, 1 + 2 * step, 2 + 2 * step)
        self.fail(faulty, found, peak)

    def fail(self, faulty: Tensor, faults: Tensor | int, peak: Tensor) -> None:
        """Give the rows `faulty` (bool [n]) the code `faults` unless they have one, with the greatest logit
        `peak`, float32 [n]; they go on as rows of one token."""
        new = faulty & (self.faults == 0)
        self.faults = torch.where(new, faults, self.faults)
        self.peaks = torch.where(new, peak, torch.zeros_like(peak) if self.peaks is None else self.peaks)
        harmless = torch.where(self.columns == 0, 0.0, NEGATIVE_INFINITY)
        self.replace(torch.where(faulty[:, None], harmless, self.values))

    # --- the cache ----------------------------------------------------------------------------------------

    def _cached(self, name: str, compute: Any) -> Tensor:
        value = self._known.get(name)
        if value is None:
            value = self._known[name] = compute()
        return value

    def _masked(self, name: str, compute: Any, removed: float) -> Tensor:
        """A value for each column: what is left of the one before a cut, or a new one."""

        def masked() -> Tensor:
            before = self._known.pop(f"unmasked {name}", None)
            if before is None:
                return compute()
            return before.masked_fill(self.values == NEGATIVE_INFINITY, removed)

        return self._cached(name, masked)


class DeviceStep:
    """What one sampler does to a `Block`.

    may_fail  whether a row may be left without a token or with +inf or NaN, so that the caller must `check`
              after it. Steps of third parties always may.
    """

    name: str
    may_fail = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        """What `apply` needs of parameters, states and histories, as arrays [n, …] of float64, float32, int64,
        int32 or bool; on the host, before anything runs on the device. `rows` is bound to the sampler, and its
        `ids` are None."""
        return {}

    def fixed(self, rows: Rows) -> Hashable:
        """What decides the shapes and the path of `apply`, beside the shapes of its inputs: a host value."""
        return None

    def apply(self, block: Block, given: Given, fixed: Any) -> None:
        """Change `block`. Every row has at least one finite column."""
        raise NotImplementedError


class DeviceSelector:
    """How one selector chooses from a `Block`; `inputs` and `fixed` as in `DeviceStep`."""

    name: str

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {}

    def fixed(self, rows: Rows) -> Hashable:
        return None

    def select(self, block: Block, given: Given, fixed: Any) -> tuple[Tensor, Tensor | None]:
        """(columns int64 [n], notes float64 [n] or None) of the chosen tokens; `block` does not change."""
        raise NotImplementedError
