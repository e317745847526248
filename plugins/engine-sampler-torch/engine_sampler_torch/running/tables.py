"""`EditTables`: the tokens that penalties and biases list, on the device, from step to step.

What a step uploads for them is the token that joined each history; the lists themselves are uploaded when a
request comes, goes back, or has had tokens from elsewhere. Rows of drafts go on from their request's table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from engine_sampler.arithmetic import FLT_MAX
from engine_sampler.contract import Rows, Sampler

from .listing import Lists, flat_places
from .transfer import NUMPY_DTYPES, Upload

BIASES, PENALTIES = "logit_bias", "penalties"
_AT_ONCE = 8
"""A history that has grown by more tokens since its last step is listed anew."""
_SPARE = 64
"""New lists have room for this many more tokens."""
_OTHER_WAY = 1 - (1 << 32)
"""Added to a move from the first of two tables to the second, gives the reverse move."""
_OTHER_TABLES = 1 | 1 << 32
"""The bits by which a move and the one back differ: the last one of each table's number."""
_MOST_AHEAD = 16
"""Drafts may be so long."""
_FILLS = (
    (0x7FFFFFFF, torch.int32),  # kernels.revise.PADDING
    (0, torch.int32),
    (0, torch.int32),
    (0.0, torch.float32),
)
"""What stands in an entry without a token: of ids, two counts, and a bias."""
_STEP = 256
"""kernels.revise.STEP"""


class ListedRows:
    """What the tables need to know of some rows, as long as the same requests are in them.

    names  the samplers whose work they do.
    numbers  int64 [m], the rows that continue their requests, not drafts; `own`, what selects them.
    first_moves  int64 [m], what moves them from the first of their tables to the second, see `_moving`.
    leads  int64 [n], how many tokens of a draft each has, behind its request's own row, `parents`, int64 [n];
           `longest`, the greatest of them.
    """

    def __init__(self, rows: Rows, samplers: Sequence[Sampler], kept: Upload) -> None:
        bound = {sampler.name: rows.bind(sampler) for sampler in samplers}
        self.names = [*bound]
        self.slots, self.table = rows.slot_numbers, rows.slots
        self.size = rows.vocabulary.size
        self.has_histories = PENALTIES in bound
        self.usual = int(self.has_histories)
        """By how much histories that matter grow from step to step."""
        self.first_tables = 2 * self.slots
        drafted = rows.drafted if self.has_histories else None
        self.leads = np.zeros(len(rows), np.int64) if drafted is None else drafted
        self.longest = int(self.leads.max(initial=0))
        self.numbers = np.flatnonzero(self.leads == 0)
        self.own = self.numbers if self.longest else slice(None)
        self.first_moves = _moving(self.first_tables, self.first_tables + 1)[self.own]
        self.parents = np.arange(len(rows)) - self.leads
        self._change = np.full((4, len(rows)), -1, np.int64)
        self._biases = bound[BIASES].resolved if BIASES in bound else None
        self._settings = [of_row for of_row, _ in bound[PENALTIES].resolved] if self.has_histories else []
        self._kept = kept
        self._reaches = np.array(
            [[s.repetition_reach for s in self._settings], [s.reach for s in self._settings]], np.int64
        )
        """int64 [2, n], the sizes of the two windows; −1 without end, 0 for none."""
        self._have_ends = bool((self._reaches > 0).any())
        self._spans = np.where(self._reaches > 0, self._reaches, np.iinfo(np.int64).max)
        """The same, with INT64_MAX for unbounded windows."""
        self._skip_prompts = np.array(
            [[s.scope == "output" for s in self._settings], [s.scope != "all" for s in self._settings]]
        )
        self._skips = bool(self._skip_prompts.any())
        self._differ = any((some[0] != some[1]).any() for some in (self._reaches, self._skip_prompts))
        """Whether the two windows of some row may differ."""
        self._numbers = [kept.add(array) for array in self._factors(rows)] if self.has_histories else []

    @staticmethod
    def can_list(rows: Rows, samplers: Sequence[Sampler]) -> bool:
        """Whether `samplers` are biases, penalties, or both in this order, and no factor depends on how old
        or what a token is."""
        names = [sampler.name for sampler in samplers]
        if names not in ([BIASES], [PENALTIES], [BIASES, PENALTIES]):
            return False
        if PENALTIES not in names:
            return True
        return not any(
            s.slope or s.repetition_decay or s.decay or len(exempt)
            for s, exempt in rows.bind(samplers[-1]).resolved
        )

    def empty_change(self, rounds: int) -> np.ndarray:
        """int64 [4, n] without tokens; with one round, the same in every step, as it is copied before the
        next one."""
        return self._change if rounds == 1 else np.full_like(self._change, -1)

    def join(self, change: np.ndarray, which: np.ndarray | slice, lengths: np.ndarray) -> None:
        """Write the tokens number `lengths` (int64 [m]) of the histories of the rows `which`, or of drafts
        behind these, and those that leave the windows for them."""
        slots, tokens = self.slots[which], self.table.tokens
        starts = self.table.offsets[slots]
        change[1, which] = tokens[starts + lengths]
        if not self._have_ends:
            return
        begins = np.where(self._skip_prompts[:, which], self.table.prompt_lengths[slots], 0)
        reaches = self._reaches[:, which]
        leaving = lengths - reaches
        leave = (reaches > 0) & (leaving >= begins)
        change[2:4, which] = np.where(leave, tokens[starts + np.where(leave, leaving, 0)], -1)

    def join_next(self, change: np.ndarray, lengths: np.ndarray) -> None:
        """`join` of the last token of every history, which has now `lengths` tokens."""
        starts = self.table.offsets.take(self.slots)
        tokens = self.table.tokens
        last = lengths - 1
        tokens.take(starts + last, out=change[1], mode="clip")
        if not self._have_ends:
            return
        leaving = last - self._spans
        begins = np.where(self._skip_prompts, self.table.prompt_lengths[self.slots], 0) if self._skips else 0
        leave = leaving >= begins
        if leave.any():
            change[2:] = np.where(leave, tokens[starts + np.where(leave, leaving, 0)], -1)
        else:
            change[2:] = -1

    def parameters(self) -> list[Tensor]:
        """Factors float32, their inverses, frequencies and presences float64, [n] each, on the device."""
        return [self._kept[number] for number in self._numbers]

    def listed(self, which: np.ndarray) -> Lists:
        """The lists of the rows `which`, int64 [m]."""
        windows = [self._window(0, which)] * 2 if self.has_histories else []
        if self._differ:
            windows[1] = self._window(1, which)
        biases = [] if self._biases is None else [self._biases[i] for i in which.tolist()]
        return Lists.of(len(which), windows, biases)

    def _window(self, number: int, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of some rows that are in a window, row after row, and how many each has."""
        table, slots, reaches = self.table, self.slots[which], self._reaches[number, which]
        lengths = table.lengths[slots]
        begins = np.where(self._skip_prompts[number, which], table.prompt_lengths[slots], 0)
        begins = np.where(reaches < 0, begins, np.maximum(begins, lengths - reaches))
        counts = np.maximum(lengths - begins, 0)
        return table.tokens[flat_places(table.offsets[slots] + begins, counts)], counts

    def _factors(self, rows: Rows) -> list[np.ndarray]:
        repeats, counts = self._reaches != 0
        factors = np.where(repeats, np.minimum(rows["repetition_penalty"], FLT_MAX), 1.0).astype(np.float32)
        with np.errstate(divide="ignore"):
            inverses = 1.0 / factors.astype(np.float64)
        others = [np.where(counts, rows[name], 0.0) for name in ("frequency_penalty", "presence_penalty")]
        return [factors, inverses, *others]


def _moving(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The numbers of the tables to read and to write, as `kernels.revise` takes them."""
    return before | after << 32


@dataclass
class Revision:
    """What a step makes of the tables for some rows.

    changes  the numbers of uploaded arrays int64 [4, n], one after the other, for `kernels.revise_tables`.
    new      those of the tables that are made anew, int64 [m], and of their lists; None without any.
    """

    tables: EditTables
    rows: ListedRows
    upload: Upload
    changes: list[int]
    new: list[int] | None

    @property
    def variant(self) -> Any:
        """What decides what is done, beside the arrays that are uploaded."""
        return self.tables.generation, len(self.changes), self.new is None

    def run(self, kernels: Any, logits: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
        """Bring the tables up to date. Returns the edits of the rows `where` as `kernels.sample` takes them,
        valid until the tables are used again."""
        tables = self.tables
        if self.new is not None:
            which, *lists = (self.upload[number] for number in self.new)
            for of_all, of_new in zip(tables.lists, lists, strict=True):
                of_all[:, : of_new.shape[1]].index_copy_(0, which, of_new)
        edits, parameters = tables.edits(len(where)), self.rows.parameters()
        for number in self.changes:
            kernels.revise_tables(
                logits, self.upload[number], where, tables.lists, edits, parameters, self.rows.size
            )
        return edits


class _Known(NamedTuple):
    """What the current tables of some slots are made from: `values`, int64 [4, n], and its rows.

    epochs, lengths  of the histories, as in `SlotTable`.
    used             how many entries are in use, at most.
    current          which of the two tables is current.
    """

    values: np.ndarray
    epochs: np.ndarray
    lengths: np.ndarray
    used: np.ndarray
    current: np.ndarray

    @classmethod
    def of(cls, epochs: np.ndarray, lengths: np.ndarray) -> _Known:
        """For these histories; the rest is not known yet."""
        values = np.empty((4, len(epochs)), np.int64)
        values[0], values[1] = epochs.view(np.int64), lengths
        return cls(values, *values)


class _Run:
    """Consecutive steps of the same rows, whose histories have grown as usual.

    values  as `_Known.values` after the last of them.
    """

    def __init__(
        self, slots: np.ndarray, values: np.ndarray, change: np.ndarray, usual: int, room: int
    ) -> None:
        """`change` is what the last step has uploaded; histories grow by `usual` tokens in each, and so do
        the lists, up to `room`."""
        self.slots, self.values = slots, values
        self._usual = usual
        self.change = change.copy()
        """Of the next step: the numbers of the tables are right, the tokens those of the last one."""
        self._steps_left = room - usual - int(values[2].max()) if usual else 1
        self._epochs = values[0].tobytes()
        self._next = b""
        self.go_on(values[1])

    def go_on(self, lengths: np.ndarray) -> None:
        """A step is done after which histories have these `lengths`, int64 [n]."""
        self.values[1] = lengths
        if self._usual:
            self._next = (lengths + 1).tobytes()
            self.change[0] ^= _OTHER_TABLES

    def is_usual(self, epochs: np.ndarray, lengths: np.ndarray) -> bool:
        """Whether the histories have grown as usual since the last step."""
        has_grown = not self._usual or lengths.tobytes() == self._next
        return has_grown and self._steps_left > 0 and epochs.tobytes() == self._epochs

    def use(self) -> None:
        """The lists have grown by a token each, at most, and the other tables are current."""
        self._steps_left -= 1
        self.values[2] += 1
        self.values[3] ^= 1


class EditTables:
    """Two tables for each slot of one scheduler, see `kernels.revise`, of which one is current.

    lists       ids, seen and counted int32, biases float32, [2 · slots + 2 · spare rows, width] each.
    generation  how often they have been replaced.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.generation = 0
        self.lists: list[Tensor] = []
        self._edits: tuple[Tensor, Tensor] | None = None
        self._begun: list[Any] = []
        self._going: list[tuple[ListedRows, _Run]] = []
        """What `go_on` has begun."""
        self._runs: dict[ListedRows, _Run] = {}
        """What is known of the tables of these rows, instead of `_known`, where their epochs are 0."""
        self._width = 0
        self._spare = 0
        """For this many rows of drafts there are two tables each, behind those of the slots."""
        self._known = np.zeros((4, 0), np.int64)
        """By slot, as `_Known`. Epoch 0 is nobody's."""

    @property
    def memory(self) -> Any:
        """What `Revision.run` reads and writes."""
        return self.lists, self._edits

    def edits(self, rows: int) -> tuple[Tensor, Tensor]:
        """Where the edits of this many rows are written: ids int64 and values float32 [rows, width]."""
        assert self._edits is not None
        ids, values = self._edits
        return ids[:rows], values[:rows]

    def begin(self, rows: ListedRows, upload: Upload, most: int) -> Revision | None:
        """What a step of these rows needs; None if some row lists more than `most` tokens. Until `settle`,
        nobody knows what is in the tables of their requests."""
        if rows.longest > _MOST_AHEAD:
            return None
        self._end_runs()
        own = rows.own
        slots, table = rows.slots[own], rows.table
        self._make_room(len(table.lengths), len(rows.slots), has_drafts=rows.longest > 0)
        known = self._known[:, slots]
        after = _Known.of(table.epochs[slots], table.lengths[slots])
        grown = after.lengths - known[1]
        if not rows.has_histories:
            grown[:] = 0
        new, rounds = None, 1
        room = min(self._width, most) - rows.longest
        is_usual = (grown == rows.usual).all() and known[2].max() < room - rows.usual
        if not is_usual or (known[0] != after.epochs).any():
            is_usual = False
            stale = (known[0] != after.epochs) | (grown > _AT_ONCE) | (known[2] + grown >= room)
            grown[stale] = 0
            if stale.any():
                new = self._list_anew(rows, rows.numbers[stale], upload, most)
                if new is None:
                    return None
                known = self._known[:, slots]
            rounds = max(1, int(grown.max()))
        changes, current = [], known[3]
        for number in range(rounds):
            change = rows.empty_change(rounds + rows.longest)
            if rows.longest:
                change[0] = _moving(self._spare_tables(rows), self._spare_tables(rows) + 1)
            change[0, own] = current * _OTHER_WAY + rows.first_moves
            if rows.has_histories:
                lengths = after.lengths - grown + number
                joins = None if is_usual else number < grown
                if joins is None or joins.all():
                    rows.join(change, own, lengths)
                else:
                    rows.join(change, rows.numbers[joins], lengths[joins])
                current = current ^ 1
            changes.append(upload.add(change))
        changes += [upload.add(change) for change in self._drafts(rows, current)]
        after.used[:] = known[2] + grown
        after.current[:] = current
        self._known[0, slots] = 0
        is_run = new is None and len(changes) == 1 and bool((grown == rows.usual).all())
        run = (upload.array(changes[0]), rows.usual, room) if is_run else None
        self._begun.append((rows, after.values, run))
        return Revision(self, rows, upload, changes, new)

    def _drafts(self, rows: ListedRows, current: np.ndarray) -> Iterator[np.ndarray]:
        """How rows of drafts go on, token by token, from the current tables of their requests, in two tables
        of their own. What the other rows write to such tables is of no use."""
        if not rows.longest:
            return
        at, spare = np.zeros(len(rows.slots), np.int64), self._spare_tables(rows)
        at[rows.own] = rows.first_tables[rows.own] + current
        at = at[rows.parents]
        for number in range(rows.longest):
            change, after = rows.empty_change(1 + rows.longest), spare + (number & 1)
            change[0] = _moving(at, after)
            joining = np.flatnonzero(rows.leads > number)
            rows.join(change, joining, rows.table.lengths[rows.slots[joining]] + number)
            at = np.where(rows.leads > 0, after, at)
            yield change

    def _spare_tables(self, rows: ListedRows) -> np.ndarray:
        """The first of the two tables of each row, int64 [n]."""
        return 2 * (self._known.shape[1] + np.arange(len(rows.slots)))

    def give_up(self) -> None:
        """A step that has begun may not be queued: these rows are listed anew in their next step."""
        self._begun.clear()
        self._going.clear()

    def go_on(self, rows: ListedRows, change: np.ndarray) -> bool:
        """`begin` of a step whose histories have grown as usual since the one before: what it uploads is
        written to `change`, int64 [4, n]. False if it is another step."""
        run = self._runs.get(rows)
        if run is None:
            return False
        table, slots = rows.table, rows.slots
        lengths = table.lengths.take(slots)
        if not run.is_usual(table.epochs.take(slots), lengths):
            return False
        del self._runs[rows]
        change[...] = run.change
        if rows.has_histories:
            rows.join_next(change, lengths)
            run.use()
        run.go_on(lengths)
        self._going.append((rows, run))
        return True

    def settle(self) -> None:
        """All that has begun is queued."""
        if self._going:
            self._runs.update(self._going)
            self._going.clear()
        for rows, values, run in self._begun:
            if run is None:
                self._known[:, rows.slots[rows.own]] = values
            else:
                self._runs[rows] = _Run(rows.slots, values, *run)
        self._begun.clear()

    def _end_runs(self) -> None:
        """Let `_known` have all that is known."""
        for run in self._runs.values():
            self._known[:, run.slots] = run.values
        self._runs.clear()

    def _list_anew(self, rows: ListedRows, which: np.ndarray, upload: Upload, most: int) -> list[int] | None:
        """The lists of the rows `which`, uploaded; None if some are too long."""
        listed = rows.listed(which)
        longest = int(listed.lengths.max()) + _SPARE
        if longest > most:
            return None
        if longest >= self._width:
            self._replace(self._known.shape[1], _bucket(longest + 1))
        slots = rows.slots[which]
        self._known[2, slots] = listed.lengths
        tables = [
            listed.padded(some, fill, NUMPY_DTYPES[dtype], self._width)
            for some, (fill, dtype) in zip(listed.entries, _FILLS, strict=True)
        ]
        return [upload.add(2 * slots + self._known[3, slots]), *map(upload.add, tables)]

    def _make_room(self, slots: int, rows: int, *, has_drafts: bool) -> None:
        spare = max(self._spare, rows) if has_drafts else self._spare
        if slots > self._known.shape[1] or spare > self._spare:
            self._spare = 1 << (spare - 1).bit_length() if spare else 0
            self._replace(slots, self._width or _STEP)
        if self._edits is None or rows > len(self._edits[0]):
            self._new_edits(rows)

    def _replace(self, slots: int, width: int) -> None:
        """Go on with larger tables."""
        before, self.lists = self.lists, []
        taken = 2 * self._known.shape[1]
        for number, (fill, dtype) in enumerate(_FILLS):
            shape = 2 * (slots + self._spare), width
            lists = torch.full(shape, fill, dtype=dtype, device=self._device)
            if before:
                lists[:taken, : self._width] = before[number][:taken]
            self.lists.append(lists)
        self._known = np.pad(self._known, ((0, 0), (0, slots - self._known.shape[1])))
        self._width = width
        self._new_edits(0 if self._edits is None else len(self._edits[0]))

    def _new_edits(self, rows: int) -> None:
        shape = 1 << max(rows - 1, 0).bit_length(), self._width
        self._edits = (
            torch.empty(shape, dtype=torch.int64, device=self._device),
            torch.empty(shape, dtype=torch.float32, device=self._device),
        )
        self.generation += 1


def _bucket(n: int) -> int:
    """The next power of two, a whole number of steps."""
    return max(_STEP, 1 << (n - 1).bit_length())
