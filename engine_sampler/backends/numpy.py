"""The NumPy backend: the reference that every exact backend equals.

A row is processed at full width only until the first truncation leaves survivors; from there on, all rows of
a group that have few survivors are processed together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from ..arithmetic import FLT_MAX, NARROW, EmptyRow, RowFault, peaked_row, reorder, require_ieee
from ..base.arrays import array_from, padded
from ..base.calling import call_plugin
from ..base.errors import INTERRUPTIONS, PluginFault, described, failure
from ..contract import (
    Backend,
    Batch,
    Chain,
    Group,
    NoTokenLeft,
    Rows,
    Sampler,
    Selection,
    Selector,
    Truncation,
    unpack_bitmask,
)
from .processed import processed_rows

_WORTH_COMPACTING = 128
"""Narrower blocks keep their removed columns: compacting them costs more than carrying them."""


@dataclass
class _Part:
    """A row in progress: the next step of the chain, and its columns."""

    i: int
    step: int
    values: np.ndarray
    ids: np.ndarray | None


class NumpyBackend(Backend):
    """Runs every sampler and selector in NumPy."""

    name = "numpy"

    def __init__(self) -> None:
        require_ieee()
        # glibc maps every large array afresh, at a page fault per 4 KiB, until one as large has been freed;
        # from then on it keeps their memory. This one is freed at once.
        np.empty(16 << 20, np.uint8)

    def score(self, device: str) -> float:
        return 1.0

    def compile(self, chain: Chain) -> Chain:
        return chain

    def apply(self, plan: Chain, logits: np.ndarray, rows: Rows) -> None:
        with np.errstate(all="ignore"):
            for sampler in plan.samplers:
                _apply(sampler, logits, rows.bind(sampler))

    def select(self, plan: Chain, logits: np.ndarray, rows: Rows) -> Selection:
        with np.errstate(all="ignore"):
            return _selected(plan.selector, logits, rows.bind(plan.selector))

    def run(self, batch: Batch) -> None:
        with np.errstate(all="ignore"):
            for group in batch.groups:
                _GroupRun(batch, group).run()

    def process(self, batch: Batch) -> np.ndarray:
        return processed_rows(batch, self.run)

    def resume(
        self, batch: Batch, group: Group, step: int, survivors: Mapping[int, tuple[np.ndarray, np.ndarray]]
    ) -> None:
        """Run the chain of `group` from its sampler number `step` on, for the rows of `batch` in `survivors`:
        (ids int64 [m], ascending, and logits float32 [m], at least one and none −inf), which the samplers
        before it have left."""
        with np.errstate(all="ignore"):
            places = {row: i for i, row in enumerate(group.index.tolist())}
            parts = [_Part(places[row], step, values, ids) for row, (ids, values) in survivors.items()]
            _GroupRun(batch, group).resume(parts)


class _GroupRun:
    """One group of one step."""

    def __init__(self, batch: Batch, group: Group) -> None:
        self.batch = batch
        self.group = group
        self.chain: Chain = group.plan
        self.rows = group.rows
        if group.masked and batch.bitmask is not None:
            self.rows = group.rows.under(batch.bitmask[group.index])

    def run(self) -> None:
        self._run(self._guard(i, partial(self._read, i)) for i in range(len(self.group.index)))

    def resume(self, parts: Iterable[_Part]) -> None:
        """Run the rest of the chain on rows that have gone through its first steps."""
        self._run(self._guard(part.i, partial(self._narrow_down, part)) for part in parts)

    def _run(self, narrowed: Iterable[_Part | None]) -> None:
        parts = []
        for part in narrowed:
            if part is None:
                continue
            i = part.i
            if len(part.values) <= NARROW:
                parts.append(part)
            else:
                self._guard(i, partial(self._finish, [part], careful=True))
        for step in sorted({part.step for part in parts}):
            self._finish_together([part for part in parts if part.step == step])

    def _guard(self, i: int, work: Callable[[], Any]) -> Any:
        """Do `work` for row i; a fault ends that row alone."""
        try:
            return work()
        except RowFault as fault:
            text = NoTokenLeft(fault) if isinstance(fault, EmptyRow) else str(fault)
            self.batch.errors[self.group.index[i]] = text
        except (MemoryError, *INTERRUPTIONS):
            raise
        except BaseException as error:
            self.batch.errors[self.group.index[i]] = failure("the chain", error)
        return None

    # --- wide: one row at a time -----------------------------------------------------------------

    def _read(self, i: int) -> _Part:
        """Read row i, apply its mask, and run the chain until few columns are left, or to its end."""
        row = int(self.group.index[i])
        values, peak = peaked_row(self.batch.logits.row(row))
        part = _Part(i, 0, values, None)
        if self.group.masked and self.batch.bitmask is not None:
            allowed = unpack_bitmask(self.batch.bitmask[row], len(part.values))
            part.values, part.ids = self._survivors(part, np.flatnonzero(allowed), "the grammar")
        return self._narrow_down(part, peak if part.ids is None else None)

    def _narrow_down(self, part: _Part, peak: np.ndarray | None = None) -> _Part:
        """Run the chain on a row until few columns are left, or to its end; `peak` is its greatest logit as
        long as it is unchanged."""
        values, owned = part.values, part.ids is not None
        first = part.step
        for part.step, sampler in enumerate(self.chain.samplers[first:], first):
            if len(part.values) <= NARROW:
                return part
            rows = self._rows(part, peak if part.values is values else None).bind(sampler)
            if isinstance(sampler, Truncation):
                kept = _call(sampler, sampler.kept_columns, part.values, rows)
                if 2 * len(kept) <= len(part.values):
                    part.values, part.ids = self._survivors(part, kept, sampler.name)
                    owned = True
                    continue
                whole, part.values = part.values, np.full_like(part.values, -np.inf)
                part.values[kept] = whole[kept]
                owned = True
            else:
                if not owned:
                    part.values, owned = part.values.copy(), True
                given = rows.ids
                _apply(sampler, part.values[None], rows)
                ids = _ids_after(sampler, rows, given)
                part.ids = None if ids is None else ids[0]
            _check(sampler, part.values[None])
        part.step = len(self.chain.samplers)
        return part

    def _survivors(self, part: _Part, columns: np.ndarray, who: str) -> tuple[np.ndarray, np.ndarray]:
        """(values, ids) of `columns`, without those that are removed already."""
        values = part.values[columns]
        alive = values > -np.inf
        if not alive.all():
            columns, values = columns[alive], values[alive]
        if not len(columns):
            raise EmptyRow(f"{who} leaves no token")
        return values, columns if part.ids is None else part.ids[columns]

    def _rows(self, part: _Part, peak: np.ndarray | None = None) -> Rows:
        ids = None if part.ids is None else part.ids[None]
        return self.rows.take(slice(part.i, part.i + 1), ids, peak)

    # --- narrow: rows together -------------------------------------------------------------------

    def _finish_together(self, parts: list[_Part]) -> None:
        """Finish rows as one block; if that fails, one by one, so that only the faulty ones end."""
        try:
            self._finish(parts)
        except INTERRUPTIONS:
            raise
        except BaseException:
            for part in parts:
                self._guard(part.i, partial(self._finish, [part], careful=True))

    def _finish(self, parts: Sequence[_Part], *, careful: bool = False) -> None:
        """Run the rest of the chain and choose. `careful` checks after every sampler, which identifies
        the one at fault. Otherwise a fault is found at the end of the chain: a row without tokens stays
        empty, but NaN and +inf are checked wherever they can arise, since later samplers may hide them."""
        left = self.chain.samplers[parts[0].step :]
        values, rows = self._block(parts, writable=bool(left))
        for sampler in left:
            bound = rows.bind(sampler)
            if isinstance(sampler, Truncation):
                np.putmask(values, ~_call(sampler, sampler.kept, values, bound), -np.inf)
                values, rows = _compact(values, rows)
            else:
                _apply(sampler, values, bound)
                rows.ids = _ids_after(sampler, bound, rows.ids)
            if careful or sampler is left[-1] or not isinstance(sampler, Truncation):
                _check(sampler, values)
        if self.batch.processed is not None:
            self._write(parts, values, rows, self.batch.processed)
            return
        selector = self.chain.selector
        self._store(parts, values, rows, _selected(selector, values, rows.bind(selector)))

    def _block(self, parts: Sequence[_Part], writable: bool) -> tuple[np.ndarray, Rows]:
        """The rows as one block: float32 [n, longest], padded with −inf."""
        if len(parts) == 1:
            values = parts[0].values[None]
            return values.copy() if writable else values, self._rows(parts[0])
        which = np.array([part.i for part in parts])
        values = padded([part.values for part in parts], -np.inf, np.float32)
        survivors = [part.ids for part in parts if part.ids is not None]
        if not survivors:
            return values, self.rows.take(which)
        ids = padded(survivors, self.rows.vocabulary.size, np.int64)
        return values, self.rows.take(which, ids)

    def _store(self, parts: Sequence[_Part], values: np.ndarray, rows: Rows, selection: Selection) -> None:
        target = self.group.index[[part.i for part in parts]]
        self.batch.token_ids[target] = rows.token_ids_at(selection.columns)
        if selection.notes is not None:
            self.batch.notes[target] = selection.notes
        if self.group.want_processed:
            for j, row in enumerate(target.tolist()):
                alive = np.flatnonzero(values[j] > -np.inf)
                ids = alive if rows.ids is None else rows.ids[j, alive]
                self.batch.survivors[row] = ids, values[j, alive]

    def _write(self, parts: Sequence[_Part], values: np.ndarray, rows: Rows, out: np.ndarray) -> None:
        """Write rows after their chains to their places in `out`."""
        for j, part in enumerate(parts):
            row = out[self.group.index[part.i]]
            if rows.ids is None:
                row[:] = values[j]
            else:
                alive = np.flatnonzero(values[j] > -np.inf)
                row.fill(-np.inf)
                row[rows.ids[j, alive]] = values[j, alive]


def _compact(values: np.ndarray, rows: Rows) -> tuple[np.ndarray, Rows]:
    """Drop removed columns, if that at least halves the block."""
    if rows.ids is None or values.shape[1] < _WORTH_COMPACTING:
        return values, rows
    counts = (values > -np.inf).sum(axis=1)
    width = max(int(counts.max()), 1)
    if 2 * width > values.shape[1]:
        return values, rows
    # A stable sort by "gone" moves survivors to the front and keeps their order.
    front = np.argsort(values == -np.inf, axis=1, kind="stable")[:, :width]
    ids = reorder(rows.ids, front)
    ids[np.arange(width) >= counts[:, None]] = rows.vocabulary.size
    return reorder(values, front), rows.take(slice(None), ids)


def apply_to_row(sampler: Sampler, row: np.ndarray, rows: Rows) -> None:
    """Run one sampler on one row [m] in place, as a step of a chain; raises `RowFault` if it fails."""
    if isinstance(sampler, Truncation):
        kept = _call(sampler, sampler.kept_columns, row, rows)
        values = row[kept]
        row.fill(-np.inf)
        row[kept] = values
    else:
        _apply(sampler, row[None], rows)


def _check(sampler: Sampler, values: np.ndarray) -> None:
    """Raise a fault that names `sampler` if it left a row [n, columns] without a finite best token."""
    peak = values.max(axis=1)
    highest, lowest = peak.max(), peak.min()
    if not highest <= FLT_MAX:
        raise RowFault(f"{sampler.name} gives {highest}")
    if lowest == -np.inf:
        raise EmptyRow(f"{sampler.name} leaves no token")


def _ids_after(sampler: Sampler, rows: Rows, given: np.ndarray | None) -> np.ndarray | None:
    """The ids of the columns after `sampler` has run, which may have replaced those that were `given`."""
    ids = rows.ids
    if ids is not given:
        shape = None if given is None else given.shape
        if type(ids) is not np.ndarray or ids.dtype != np.int64 or ids.shape != shape:
            raise RowFault(f"{sampler.name} failed: it replaced rows.ids with {described(ids)}")
    return ids


def _selected(selector: Selector, values: np.ndarray, rows: Rows) -> Selection:
    """One surviving column per row, as `selector` chooses."""

    def select(values: np.ndarray, rows: Rows) -> Selection:
        return _checked_selection(selector, selector.select(values, rows), values)

    return cast(Selection, _call(selector, select, values, rows))


def _checked_selection(selector: Selector, selection: Any, values: np.ndarray) -> Selection:
    """What `selector` returned for float32 `values` [n, width], as plain arrays."""
    n, width = values.shape
    if not isinstance(selection, Selection):
        raise PluginFault(
            f"{selector.name} failed: select must return a Selection, not {described(selection)}"
        )
    columns, notes = array_from(selection.columns, n), selection.notes
    is_index = columns.shape == (n,) and columns.dtype.kind in "iu"
    if not is_index or columns.min() < 0 or columns.max() >= width:
        raise PluginFault(f"{selector.name} failed: select must return one column for each row")
    if notes is not None:
        notes = array_from(notes, n)
        if notes.shape != (n,):
            raise PluginFault(f"{selector.name} failed: select returned notes of shape {notes.shape}")
        if notes.dtype.kind not in "fiub":
            raise PluginFault(f"{selector.name} failed: select returned notes of dtype {notes.dtype}")
        notes = notes.astype(np.float64)
    if values[np.arange(n), columns].min() == -np.inf:
        raise PluginFault(f"{selector.name} chose a removed token")
    return Selection(columns.astype(np.int64, copy=False), notes)


def _apply(sampler: Sampler, values: np.ndarray, rows: Rows) -> None:
    """Have `sampler` change `values` in place. One that returns others instead fails: nobody uses them."""
    given: Any = _call(sampler, sampler.apply, values, rows)
    if isinstance(given, np.ndarray) and not np.may_share_memory(given, values):
        raise RowFault(f"{sampler.name} failed: apply must change logits in place, and returned others")


def _call(part: Sampler | Selector, method: Callable[..., Any], values: np.ndarray, rows: Rows) -> Any:
    """Call a sampler or selector on a view, which cannot be resized; an exception becomes a fault that names
    it."""
    try:
        return call_plugin(part.name, method, values[:], rows)
    except PluginFault as fault:
        raise RowFault(str(fault)) from fault
