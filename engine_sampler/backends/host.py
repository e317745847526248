"""The NumPy backend: the reference that every exact backend equals.

A row is read once in full, and only as long as the chain needs it so: the first truncation leaves
survivors, and from there on all rows of a group that have few are handled together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..arithmetic import FLT_MAX, LOGIT_LIMIT, require_ieee
from ..chain import Chain
from ..contract import Backend, Batch, Group, Sampler, Selection, Truncation
from ..ranking import NARROW
from ..rows import Rows, padded


class RowFault(Exception):
    """A row cannot give a token; the text says why."""


@dataclass
class _Part:
    """A row under way: the next step of the chain, and its columns."""

    i: int
    step: int
    values: np.ndarray
    ids: np.ndarray | None


class NumpyBackend(Backend):
    """Every sampler and selector, in NumPy."""

    name = "numpy"

    def __init__(self) -> None:
        require_ieee()
        # glibc maps large arrays afresh each time, at a page fault per 4 KiB, until one as large has
        # been freed; from then on it keeps their memory. This one is freed at once.
        np.empty(16 << 20, np.uint8)

    def score(self, device: str) -> float:
        return 1.0

    def compile(self, chain: Chain) -> Chain:
        return chain

    def apply(self, plan: Chain, logits: np.ndarray, rows: Rows) -> None:
        with np.errstate(all="ignore"):
            for sampler in plan.samplers:
                sampler.apply(logits, rows.bind(sampler))

    def select(self, plan: Chain, logits: np.ndarray, rows: Rows) -> Selection:
        with np.errstate(all="ignore"):
            return plan.selector.select(logits, rows.bind(plan.selector))

    def run(self, batch: Batch) -> None:
        with np.errstate(all="ignore"):
            for group in batch.groups:
                _GroupRun(batch, group).run()


class _GroupRun:
    """One group of one step."""

    def __init__(self, batch: Batch, group: Group) -> None:
        self.batch = batch
        self.group = group
        self.chain: Chain = group.plan

    def run(self) -> None:
        parts = []
        for i in range(len(self.group.index)):
            part = self._guard(i, partial(self._narrow_down, i))
            if part is None:
                continue
            if part.ids is not None and len(part.ids) <= NARROW:
                parts.append(part)
            else:
                self._guard(i, partial(self._finish, [part]))
        for step in sorted({part.step for part in parts}):
            self._finish_together([part for part in parts if part.step == step])

    def _guard(self, i: int, work: Callable[[], Any]) -> Any:
        """Do `work` for row i; a fault ends that row alone."""
        try:
            return work()
        except RowFault as fault:
            self.batch.errors[self.group.index[i]] = str(fault)
        return None

    # --- wide: one row at a time -----------------------------------------------------------------

    def _narrow_down(self, i: int) -> _Part:
        """Run the chain on row i until few columns are left, or to its end."""
        row = int(self.group.index[i])
        part = _Part(i, 0, checked_row(self.batch.logits.row(row)), None)
        if self.group.masked and self.batch.bitmask is not None:
            allowed = unpack_bitmask(self.batch.bitmask[row], len(part.values))
            part.values, part.ids = self._survivors(part, allowed, "the grammar")
        owned = part.ids is not None
        for part.step, sampler in enumerate(self.chain.samplers):
            if part.ids is not None and len(part.ids) <= NARROW:
                return part
            rows = self._rows(part).bind(sampler)
            if isinstance(sampler, Truncation):
                mask = _call(sampler, sampler.keep, part.values[None], rows)[0]
                if 2 * np.count_nonzero(mask) <= len(mask):
                    part.values, part.ids = self._survivors(part, mask, sampler.name)
                    owned = True
                    continue
            if not owned:
                part.values, owned = part.values.copy(), True
            if isinstance(sampler, Truncation):
                part.values[~mask] = -np.inf
            else:
                _call(sampler, sampler.apply, part.values[None], rows)
        part.step = len(self.chain.samplers)
        return part

    def _survivors(self, part: _Part, mask: np.ndarray, who: str) -> tuple[np.ndarray, np.ndarray]:
        columns = np.flatnonzero(mask)
        values = part.values[columns]
        alive = values > -np.inf
        if not alive.all():
            columns, values = columns[alive], values[alive]
        if not len(columns):
            raise RowFault(f"{who} leaves no token")
        return values, columns if part.ids is None else part.ids[columns]

    def _rows(self, part: _Part) -> Rows:
        ids = None if part.ids is None else part.ids[None]
        return self.group.rows.take(slice(part.i, part.i + 1), ids)

    # --- narrow: rows together -------------------------------------------------------------------

    def _finish_together(self, parts: list[_Part]) -> None:
        """Finish rows as one block; if that fails, one by one, so that only the guilty ones end."""
        try:
            self._finish(parts)
        except RowFault:
            for part in parts:
                self._guard(part.i, partial(self._finish, [part]))

    def _finish(self, parts: Sequence[_Part]) -> None:
        left = self.chain.samplers[parts[0].step :]
        values, rows = self._block(parts, writable=bool(left))
        for sampler in left:
            bound = rows.bind(sampler)
            if not isinstance(sampler, Truncation):
                _call(sampler, sampler.apply, values, bound)
                continue
            mask = _call(sampler, sampler.keep, values, bound)
            values[~mask] = -np.inf
            values, rows = _compact(values, rows)
        peak = values.max(axis=1)
        if not ((peak > -np.inf) & (peak <= FLT_MAX)).all():
            self._blame(parts, peak)
        selector = self.chain.selector
        selection = _call(selector, selector.select, values, rows.bind(selector))
        self._store(parts, values, rows, selection)

    def _block(self, parts: Sequence[_Part], writable: bool) -> tuple[np.ndarray, Rows]:
        """The rows side by side: float32 [n, longest], padded with −inf."""
        if len(parts) == 1:
            values = parts[0].values[None]
            return values.copy() if writable else values, self._rows(parts[0])
        beyond = self.group.rows.vocabulary.size
        ids = padded([part.ids for part in parts], beyond, np.int64)  # type: ignore[misc]
        values = padded([part.values for part in parts], -np.inf, np.float32)
        which = np.array([part.i for part in parts])
        return values, self.group.rows.take(which, ids)

    def _blame(self, parts: Sequence[_Part], peak: np.ndarray) -> None:
        """Raise a fault that names the sampler behind the first bad row."""
        if len(parts) > 1:
            raise RowFault("a row of this block is at fault")
        part = parts[0]
        row = int(self.group.index[part.i])
        values = checked_row(self.batch.logits.row(row))[None].copy()
        rows = self.group.rows.take(slice(part.i, part.i + 1))
        for sampler in self.chain.samplers:
            _call(sampler, sampler.apply, values, rows.bind(sampler))
            if not values.max() <= FLT_MAX:
                raise RowFault(f"{sampler.name} gives {values.max()}")
            if values.max() == -np.inf:
                raise RowFault(f"{sampler.name} leaves no token")
        raise RowFault(f"the chain ends with a greatest logit of {peak[0]}")

    def _store(self, parts: Sequence[_Part], values: np.ndarray, rows: Rows, selection: Selection) -> None:
        columns = np.asarray(selection.columns)
        chosen = values[np.arange(len(parts)), columns]
        if not (chosen > -np.inf).all():
            raise RowFault(f"{self.chain.selector.name} chose a removed token")
        target = self.group.index[[part.i for part in parts]]
        self.batch.token_ids[target] = rows.token_ids_at(columns)
        if selection.notes is not None:
            self.batch.notes[target] = selection.notes
        if self.group.want_processed:
            for j, row in enumerate(target.tolist()):
                alive = np.flatnonzero(values[j] > -np.inf)
                ids = alive if rows.ids is None else rows.ids[j, alive]
                self.batch.survivors[row] = ids, values[j, alive]


def checked_row(row: np.ndarray) -> np.ndarray:
    """float32 `row` [vocab] as the chain may see it: raises `RowFault` for NaN, +inf, logits above
    2^100 and rows without a token; logits below −2^100 read as −inf (in a copy)."""
    peak = row.max()
    if not peak <= LOGIT_LIMIT:
        raise RowFault(f"the row's greatest logit is {peak}; allowed is at most 2^100")
    if peak < -LOGIT_LIMIT:
        raise RowFault("every logit of the row is -inf")
    if row.min() < -LOGIT_LIMIT:
        low = row < -LOGIT_LIMIT
        if np.count_nonzero(low) != np.count_nonzero(row == -np.inf):
            return np.where(low, np.float32(-np.inf), row)
    return row


def unpack_bitmask(words: np.ndarray, vocab_size: int) -> np.ndarray:
    """bool [vocab] from int32 words [ceil(vocab / 32)]: bit j of word i is token 32·i + j."""
    little = np.ascontiguousarray(words, "<i4").view(np.uint8)
    return np.unpackbits(little, bitorder="little", count=vocab_size).view(bool)


def _compact(values: np.ndarray, rows: Rows) -> tuple[np.ndarray, Rows]:
    """Drop columns that are gone in every row's tail, where that at least halves the block."""
    counts = (values > -np.inf).sum(axis=1)
    width = max(int(counts.max()), 1)
    if 2 * width > values.shape[1] or width + 64 > values.shape[1] or rows.ids is None:
        return values, rows
    # A stable sort by "gone" moves survivors to the front and keeps their order.
    front = np.argsort(values == -np.inf, axis=1, kind="stable")[:, :width]
    ids = np.take_along_axis(rows.ids, front, axis=1)
    ids[np.arange(width) >= counts[:, None]] = rows.vocabulary.size
    return np.take_along_axis(values, front, axis=1), rows.take(slice(None), ids)


def _call(part: Sampler | Any, method: Callable[..., Any], values: np.ndarray, rows: Rows) -> Any:
    """Call a sampler or selector; whatever it raises becomes a fault that names it."""
    try:
        return method(values, rows)
    except Exception as error:
        raise RowFault(f"{part.name} failed: {type(error).__name__}: {error}") from error
