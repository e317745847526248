"""`Block`: rows of logits in progress on a device; `DeviceStep` and `DeviceSelector`: what a sampler and a
selector do to them.

A step equals its sampler in `engine_sampler.samplers` bit for bit. It has two halves: `inputs`, on the host,
reads parameters, states and histories; `apply`, on the device, uses what has been copied there. `apply` never
waits for the device, so shapes depend on the host's values alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine_sampler.arithmetic import FLT_MAX
from engine_sampler.contract import Rows

from ..arithmetic import NEGATIVE_INFINITY, columns_of, distances, first_columns, weights

Given = Mapping[str, Tensor]
"""The arrays that `inputs` returned, on the device."""

_FLT_MAX = float(FLT_MAX)


@dataclass(eq=False)
class Block:
    """Rows of logits in progress.

    values      float32 [n, m]; −inf = removed. Only the methods below may change them.
    ids         int64 [n, m], the token id of each column, ascending in every row, padded with vocab_size
                (values −inf); None: column j is token j, and m is vocab_size.
    vocab_size  the number of tokens.
    faults      int64 [n], 0 = sound; `check` and `fail` write them.
    bitmask     int32 [n, words] or None, which tokens the grammars of this step allow.
    owned       whether `values` may be written to in place. They may not if they are the caller's logits, or
                if somebody keeps them: set it to False then.
    peaks       float32 [n] or None, the greatest value of a faulty row when its fault was found.
    is_partial  whether rows have more tokens than there are columns: those that edits list, see
                `DeviceStep.sparse_ids`. A row in which they leave no token is done again on the host.
    """

    values: Tensor
    ids: Tensor | None
    vocab_size: int
    faults: Tensor
    bitmask: Tensor | None = None
    owned: bool = False
    peaks: Tensor | None = None
    is_partial: bool = False
    _known: dict[str, Tensor] = field(default_factory=dict)
    _columns: Tensor | None = None

    @property
    def width(self) -> int:
        """m, the number of columns."""
        return self.values.shape[1]

    # --- what is known of the values: computed when needed, and kept until they change -------------------

    @property
    def distances(self) -> Tensor:
        """y = (l − max)·log2 e, float32 [n, m]; −inf where removed."""
        return self._by_column("distances", lambda: distances(self.values), NEGATIVE_INFINITY)

    @property
    def weights(self) -> Tensor:
        """w, int64 [n, m]; 0 where removed."""
        return self._by_column("weights", lambda: weights(self.distances), 0)

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
        """0 … m − 1, int64 [m]."""
        if self._columns is None or len(self._columns) != self.width:
            self._columns = torch.arange(self.width, device=self.values.device)
        return self._columns

    def order(self, most: int | None = None) -> Tensor:
        """The columns in (logit desc, id asc) order, int64 [n, ≥ min(most, m)]; all of them for None."""
        most = self.width if most is None else min(most, self.width)
        order = self._known.get("order")
        if order is None or order.shape[1] < most:
            order = self._known["order"] = first_columns(self.values, most)
        return order

    def at_least(self, least: Tensor, most: int) -> Tensor:
        """How many tokens a truncation must leave: min(least, alive), int64 [n], where `least` [n] is
        max(1, min_keep), and `most` the greatest of them, as the host knows."""
        return least if most == 1 else torch.minimum(least, self.alive)

    def columns_of(self, token_ids: Tensor) -> tuple[Tensor, Tensor]:
        """(columns, present), int64 and bool [n, e]: where `token_ids` [n, e] are; any column if absent. An
        id of `vocab_size` is padding."""
        columns, found = columns_of(token_ids.to(torch.int64), self.ids, self.width)
        return columns, found & (token_ids < self.vocab_size)

    def token_ids_at(self, columns: Tensor) -> Tensor:
        """The token ids at `columns` [n], int64 [n]."""
        return columns if self.ids is None else self.ids.gather(1, columns[:, None])[:, 0]

    def allowed_by(self, bitmask: Tensor) -> Tensor:
        """bool [n, m]: the columns whose tokens have a 1 in `bitmask`, int32 [n, words]."""
        if self.ids is None:
            bits = bitmask[:, :, None] >> torch.arange(32, dtype=torch.int32, device=bitmask.device)
            return (bits & 1).flatten(1)[:, : self.vocab_size] == 1
        ids = self.ids.clamp(max=self.vocab_size - 1)
        return (bitmask.gather(1, ids >> 5).to(torch.int64) >> (ids & 31)) & 1 == 1

    # --- changes -----------------------------------------------------------------------------------------

    def replace(self, values: Tensor) -> None:
        """Go on with new logits, float32 [n, m], which the block may write to, unless they have gradients."""
        self.values, self.owned = values, not values.requires_grad
        self._known.clear()

    def keep(self, mask: Tensor) -> None:
        """Remove the columns that are False in bool `mask` [n, m]."""
        drop = self.values.masked_fill_ if self.owned else self.values.masked_fill
        self.replace(drop(~mask, NEGATIVE_INFINITY))

    def keep_upper(self, mask: Tensor) -> None:
        """`keep` for a `mask` of the first tokens in (logit desc, id asc) order, one at least: what is known
        of them stays true."""
        known = {name: value for name, value in self._known.items() if name in {"order", "best"}}
        for name in ("distances", "weights"):
            before = self._known.get(name, self._known.get(_before_cuts(name)))
            if before is not None:
                known[_before_cuts(name)] = before
        self.keep(mask)
        self._known.update(known)

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

    def keep_heavy(self, need: Tensor) -> None:
        """Keep the longest prefix, in order, of tokens with weight ≥ `need` [n], at least the first."""
        self.keep_upper(self.heavy(need))

    def heavy(self, need: Tensor) -> Tensor:
        """bool [n, m]: the longest prefix, in order, of tokens with weight ≥ `need`, at least the first."""
        return self.above_best(self.weights < need[:, None])

    def above_best(self, failing: Tensor) -> Tensor:
        """bool [n, m]: the tokens with a logit above that of every `failing` one (bool [n, m]), at least the
        first in order."""
        highest = self.values.masked_fill(~failing, NEGATIVE_INFINITY).amax(1, keepdim=True)
        return (self.values > highest) | (self.columns == self.best[:, None])

    def narrow(self, k: int) -> None:
        """Go on with the first `k` ≤ m columns in order, their ids ascending; what is in others is lost."""
        columns = self.order(k)[:, :k].sort(1).values
        values = self.values.gather(1, columns)
        self.ids = columns if self.ids is None else self.ids.gather(1, columns)
        self.replace(values)

    def store(self, columns: Tensor, present: Tensor, values: Tensor) -> None:
        """Write float32 `values` [n, e] to `columns` [n, e] where `present` [n, e]; entries of one column
        have one value."""
        # A scatter has no mask: absent entries repeat the first that is present, or write what is there.
        values = torch.where(present, values, self.values.gather(1, columns))
        first = present.to(torch.uint8).argmax(1, keepdim=True)
        repeated = values.gather(1, first)
        if values.requires_grad:  # a gradient belongs to one of the entries that are written to one place
            present, repeated = present.scatter(1, first, True), repeated.detach()
        columns = torch.where(present, columns, columns.gather(1, first))
        values = torch.where(present, values, repeated)
        self.replace(self._writable().scatter_(1, columns, values))

    def check(self, step: int) -> None:
        """Note rows without a finite greatest logit as faults of step number `step`: 1 + 2·step if no token
        is left, 2 + 2·step if the greatest is +inf or NaN."""
        peak = self.values.amax(1)
        sound = (peak > NEGATIVE_INFINITY) & (peak <= _FLT_MAX)
        self.fail(~sound, (peak != NEGATIVE_INFINITY) + (1 + 2 * step), peak)

    def fail(self, faulty: Tensor, faults: Tensor, peak: Tensor) -> None:
        """Give the rows `faulty` (bool [n]) the codes `faults` (int64 [n]) unless they have one, and note
        `peak`, their greatest logit, float32 [n]. They go on as rows of one token."""
        new = faulty & (self.faults == 0)
        self.faults = torch.where(new, faults, self.faults)
        self.peaks = torch.where(new, peak, torch.zeros_like(peak) if self.peaks is None else self.peaks)
        values = self._writable().masked_fill_(faulty[:, None], NEGATIVE_INFINITY)
        values[:, 0].masked_fill_(faulty, 0.0)
        self.replace(values)

    def _writable(self) -> Tensor:
        return self.values if self.owned else self.values.clone()

    # --- the cache ---------------------------------------------------------------------------------------

    def _cached(self, name: str, compute: Callable[[], Tensor]) -> Tensor:
        value = self._known.get(name)
        if value is None:
            value = self._known[name] = compute()
        return value

    def _by_column(self, name: str, compute: Callable[[], Tensor], removed: float) -> Tensor:
        """A figure of each column: new, or what cuts have left of the one before them."""

        def found() -> Tensor:
            before = self._known.pop(_before_cuts(name), None)
            return (
                compute()
                if before is None
                else before.masked_fill_(self.values == NEGATIVE_INFINITY, removed)
            )

        return self._cached(name, found)


def _before_cuts(name: str) -> str:
    return f"{name} before cuts"


class DeviceStep:
    """What one sampler does to a `Block`.

    may_fail    whether a row may be left without a token, or with +inf or NaN, so that the caller must
                `check` after it. Steps of third parties always may.
    parameters_only  whether `inputs` and `fixed` follow from the parameters alone. They are asked for once
                then, and not in every step, for as long as the same requests are in the same rows.
    positions_only  the same with seeds and positions; `histories_only`, and with the tokens so far, and
                states that follow from these. Rows of drafts are drawn with their requests' then, before it
                is known that the drafts are right.
    searches    whether `inputs` look through whole histories, so that this is done for few rows of drafts.
    sparse_ids  the names of the inputs that list, int32 [n, e], all token ids whose logits the step reads
                or changes, so that it may be applied to a block of these alone; () if it reads whole rows.
    """

    name: str
    may_fail = True
    parameters_only = False
    positions_only = False
    histories_only = False
    searches = False
    sparse_ids: tuple[str, ...] = ()

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        """What `apply` needs of parameters, states and histories: arrays of float64, float32, int64, int32 or
        bool, on the host, before anything runs on the device. `rows` is bound to the sampler; its `ids` are
        None."""
        return {}

    def fixed(self, rows: Rows) -> Hashable:
        """What decides the shapes and the path of `apply`, beside the shapes of its inputs: a host value."""
        return None

    def reads_rows(self, fixed: Any) -> bool:
        """Whether what `apply` makes of a logit depends on others of its row."""
        return not self.sparse_ids

    def apply(self, block: Block, tensors: Given, fixed: Any) -> None:
        """Change `block`. Every row has at least one finite column."""
        raise NotImplementedError


class FigureStep(DeviceStep):
    """A step that changes each logit by itself, given a figure of its row."""

    def figure(self, block: Block, tensors: Given, fixed: Any) -> Tensor:
        """The figure of each row, [n]. What gradients it has are those of a replay."""
        raise NotImplementedError

    def apply_with(self, figure: Tensor, block: Block, tensors: Given, fixed: Any) -> None:
        """`apply` to a block of any of the rows' columns."""
        raise NotImplementedError

    def apply(self, block: Block, tensors: Given, fixed: Any) -> None:
        self.apply_with(self.figure(block, tensors, fixed), block, tensors, fixed)


class DeviceSelector:
    """How one selector chooses from a `Block`; all but `select` is as in `DeviceStep`."""

    name: str
    parameters_only = False
    positions_only = False

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {}

    def fixed(self, rows: Rows) -> Hashable:
        return None

    def select(self, block: Block, tensors: Given, fixed: Any) -> tuple[Tensor, Tensor | None]:
        """(columns int64 [n], notes float64 [n] or None) of the chosen tokens; `block` stays as it is."""
        raise NotImplementedError
