"""Tokens and notes of many requests, side by side in one pool."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import mmap
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

TokenIds = Sequence[int] | np.ndarray
Notes = Sequence[float | None] | np.ndarray

UNBOUNDED = 2**62
"""A length that no request reaches."""

ONE = np.ones(1, np.int64)
"""Adding an array costs half of what adding a Python number does."""

_SPARE_CELLS = 64
"""The least number of free cells in a region when it is created or moved."""

_SPARE_AFTER_PROMPT = 1024
"""The most of them for a request without output, however long its prompt is."""

_NEARLY_FULL = 16
"""When any region has to move, those with fewer free cells than this move too, so that moves are rare."""

_GROWTH = 4
"""How many times the cells in use a pool has when it is packed anew."""


class PoolArrays(NamedTuple):
    """Arrays that are replaced together. A reader on another thread that takes a length first, then these
    arrays, then the offset, sees tokens that belong together while no slot is opened or closed: until then,
    nothing is written into the region that a move has left."""

    tokens: np.ndarray
    notes: np.ndarray
    offsets: np.ndarray


class TokenPool:
    """The tokens and notes of many requests, by slot number.

    tokens          int64 [cells]; a request's are tokens[offset : offset + length], the prompt first.
    notes           float64 [cells], parallel to the tokens: what the selector noted when it drew the token,
                    NaN for those that were chosen elsewhere; nothing is written there for a prompt.
    offsets, lengths, prompt_lengths  int64 [capacity], by slot.
    output_begins   int64 [capacity]: where the output of the slot's samplers begins, which is the length of
                    the prompt, or more if they see a part of the output as prompt.
    epochs          uint64 [capacity]: while a slot's value stays, its tokens and notes only grow. No value
                    is used twice.

    arrays  the current arrays by slot and by cell; whenever an array of the pool is replaced, so are these.

    Each request has a region of its own, which moves when it is full. Arrays are replaced, not resized: a
    reference to an old one keeps its contents. What is read from a slot is valid until the slot is closed.
    """

    def __init__(self, capacity: int) -> None:
        self.arrays = PoolArrays(np.empty(0, np.int64), np.empty(0), np.zeros(capacity, np.int64))
        self.lengths = np.zeros(capacity, np.int64)
        self.prompt_lengths = np.zeros(capacity, np.int64)
        self.output_begins = np.zeros(capacity, np.int64)
        self.epochs = np.zeros(capacity, np.uint64)
        self._sizes = np.zeros(capacity, np.int64)
        """Cells of each region; 0 for a free slot."""
        self._gaps = Gaps()
        """The unused cells."""
        self._left: list[tuple[int, int]] = []
        """First cell and size of each region that a move has left since a slot was last opened or closed."""
        self._room = UNBOUNDED
        """Every region has room for this many more tokens, or more."""
        self._epoch = itertools.count(1)

    @property
    def tokens(self) -> np.ndarray:
        return self.arrays.tokens

    @property
    def notes(self) -> np.ndarray:
        return self.arrays.notes

    @property
    def offsets(self) -> np.ndarray:
        return self.arrays.offsets

    def tokens_of(self, slot: int) -> np.ndarray:
        """All tokens of `slot`, int64 [length]: a view, not to be written."""
        length, arrays = self.lengths[slot], self.arrays  # in this order: see PoolArrays
        start = arrays.offsets[slot]
        return arrays.tokens[start : start + length]

    def notes_of(self, slot: int) -> np.ndarray:
        """The notes on the output of `slot`, float64 [output length]: a view, not to be written."""
        length, arrays = self.lengths[slot], self.arrays  # in this order: see PoolArrays
        start = arrays.offsets[slot]
        return arrays.notes[start + self.prompt_lengths[slot] : start + length]

    # --- slots -----------------------------------------------------------------------------------

    def open(self, slot: int, tokens: np.ndarray, *, more: int = 0) -> None:
        """Give the free `slot` a region that begins with the prompt `tokens`, and has room for `more` tokens
        and others to come."""
        self._reuse_left()
        size = _roomy(len(tokens), more)
        start = self._claim(size)
        self.offsets[slot], self._sizes[slot] = start, size
        self._write(slot, 0, tokens)
        self.prompt_lengths[slot] = self.output_begins[slot] = len(tokens)
        self.renew_epoch(slot)

    def close(self, slot: int) -> None:
        """Free `slot` and its cells."""
        self._reuse_left()
        self._gaps.free(int(self.offsets[slot]), int(self._sizes[slot]))
        self._sizes[slot] = self.lengths[slot] = 0
        self.prompt_lengths[slot] = self.output_begins[slot] = 0

    def resize(self, capacity: int) -> None:
        """Make room for `capacity` slots."""
        self.lengths = longer(self.lengths, capacity)
        self.prompt_lengths = longer(self.prompt_lengths, capacity)
        self.output_begins = longer(self.output_begins, capacity)
        self.epochs = longer(self.epochs, capacity)
        self._sizes = longer(self._sizes, capacity)
        self.arrays = self.arrays._replace(offsets=longer(self.offsets, capacity))

    def restore(self, taken: Sequence[int]) -> None:
        """Bring order into the cells after an interrupted change: the slots `taken` have theirs, and nobody
        has any other."""
        free = np.ones(len(self._sizes), bool)
        free[taken] = False
        self._sizes[free] = self.lengths[free] = 0
        self.prompt_lengths[free] = self.output_begins[free] = 0
        self._left.clear()
        self._gaps = Gaps(_between(self.offsets[taken], self._sizes[taken], len(self.tokens)))
        self._room = 0

    def reserve(self, prompt_length: int, count: int) -> None:
        """Make room for `count` slots with prompts of this length, so that opening them moves nothing."""
        size = count * _roomy(prompt_length, 0)
        if count > 1 and self._gaps.largest() < size:
            self._reuse_left()
            self._repack(size)

    # --- tokens ----------------------------------------------------------------------------------

    def append(self, slot: int, tokens: TokenIds, notes: Notes) -> None:
        """Add tokens to one slot; a note of None stands for NaN."""
        start = int(self.lengths[slot])
        if start + len(tokens) > self._sizes[slot]:
            prompt = int(self.prompt_lengths[slot])
            self._move(slot, _roomy(prompt, start + len(tokens) - prompt))
        self._write(slot, start, tokens, np.array(notes, np.float64))

    def write_ahead(self, slot: int, tokens: TokenIds) -> None:
        """Write tokens behind those of a slot, which has none more for that; the next ones that are appended
        take their place."""
        start = int(self.lengths[slot])
        if start + len(tokens) > self._sizes[slot]:
            prompt = int(self.prompt_lengths[slot])
            self._move(slot, _roomy(prompt, start + len(tokens) - prompt))
        arrays = self.arrays
        start += int(arrays.offsets[slot])
        arrays.tokens[start : start + len(tokens)] = tokens

    def extend(self, slots: np.ndarray, tokens: np.ndarray, notes: np.ndarray) -> None:
        """Add one token with its note to each of `slots` [n], all different."""
        self.make_room()
        arrays = self.arrays
        lengths = self.lengths[slots]
        cells = arrays.offsets[slots]
        cells += lengths
        arrays.tokens[cells] = tokens
        arrays.notes[cells] = notes
        lengths += ONE
        self.lengths[slots] = lengths

    def make_room(self) -> None:
        """Let every region have room for one more token, which is going to be written."""
        if self._room < 1:
            self._move_nearly_full()
        self._room -= 1

    def cut(self, slot: int, length: int) -> None:
        """Remove the tokens after the first `length` of a slot."""
        self.renew_epoch(slot)
        self.lengths[slot] = length

    def renew_epoch(self, slot: int) -> None:
        """What has been derived from the tokens of a slot, or from its parameters, does not hold any more."""
        self.epochs[slot] = next(self._epoch)

    # --- inside ----------------------------------------------------------------------------------

    def _write(self, slot: int, start: int, tokens: TokenIds, notes: np.ndarray | None = None) -> None:
        """Write tokens to a slot from its cell `start` on; a prompt has no notes."""
        arrays, length = self.arrays, start + len(tokens)
        cells = slice(arrays.offsets[slot] + start, arrays.offsets[slot] + length)
        arrays.tokens[cells] = tokens
        if notes is not None:
            arrays.notes[cells] = notes
        self.lengths[slot] = length
        self._room = min(self._room, int(self._sizes[slot]) - length)

    def _move_nearly_full(self) -> None:
        """Move the regions that are nearly full, and compute again how much room there is."""
        nearly_full = (self._sizes > 0) & (self._sizes < self.lengths + _NEARLY_FULL)
        for slot in np.flatnonzero(nearly_full).tolist():
            prompt = int(self.prompt_lengths[slot])
            self._move(slot, _roomy(prompt, int(self.lengths[slot]) - prompt))
        free = (self._sizes - self.lengths)[self._sizes > 0]
        self._room = int(free.min(initial=UNBOUNDED))

    def _move(self, slot: int, size: int) -> None:
        """Give `slot` a region of `size` cells elsewhere."""
        start = self._claim(size)
        arrays = self.arrays
        old = int(arrays.offsets[slot])
        self._copy(slot, arrays, old, arrays, start)
        self._left.append((old, int(self._sizes[slot])))
        arrays.offsets[slot] = start
        self._sizes[slot] = size

    def _copy(self, slot: int, old: PoolArrays, source: int, new: PoolArrays, target: int) -> None:
        """Copy the tokens of a slot, and the notes on its output, from the cell `source` to `target`."""
        length, prompt = int(self.lengths[slot]), int(self.prompt_lengths[slot])
        new.tokens[target : target + length] = old.tokens[source : source + length]
        new.notes[target + prompt : target + length] = old.notes[source + prompt : source + length]

    def _reuse_left(self) -> None:
        for start, size in self._left:
            self._gaps.free(start, size)
        self._left.clear()

    def _claim(self, size: int) -> int:
        """The first of `size` unused cells."""
        start = self._gaps.take(size)
        if start is None:
            self._repack(size)
            start = self._gaps.take(size)
            assert start is not None
        return start

    def _repack(self, room: int) -> None:
        """Pack the regions into new arrays, with `room` free cells and many others: memory that is not
        written to costs little, whereas packing faults in fresh memory for all that it copies."""
        old, taken = self.arrays, np.flatnonzero(self._sizes)
        ends = self._sizes[taken].cumsum()
        used = int(ends[-1]) if len(ends) else 0
        cells = room if not used else _GROWTH * (used + room)
        new = PoolArrays(np.empty(cells, np.int64), _sparse(cells), old.offsets.copy())
        new.offsets[taken] = ends - self._sizes[taken]
        for slot in taken.tolist():
            self._copy(slot, old, int(old.offsets[slot]), new, int(new.offsets[slot]))
        self._gaps = Gaps([(used, cells - used)])
        self._left.clear()
        self.arrays = new


def _sparse(cells: int) -> np.ndarray:
    """An array float64 [cells], of anything, in which few places far from each other are written: NumPy asks
    for huge pages, of which each such place would take 2 MiB."""
    if cells * 8 >= _LARGE and sys.platform == "linux":
        memory = mmap.mmap(-1, cells * 8, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with contextlib.suppress(OSError):  # a system without huge pages
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        return np.frombuffer(memory, np.float64)
    return np.empty(cells)


_LARGE = 1 << 22
"""The bytes from which on NumPy asks for huge pages."""


class Gaps:
    """The unused cells of a pool: (first cell, size) of each gap, ascending, no two of them adjacent."""

    def __init__(self, gaps: Sequence[tuple[int, int]] = ()) -> None:
        self._gaps = list(gaps)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._gaps)

    def take(self, size: int) -> int | None:
        """The first cell of `size` cells from the first gap that has so many; None if there is none."""
        for i, (start, free) in enumerate(self._gaps):
            if free > size:
                self._gaps[i] = start + size, free - size
                return start
            if free == size:
                del self._gaps[i]
                return start
        return None

    def largest(self) -> int:
        """The number of cells of the largest gap."""
        return max((size for _, size in self._gaps), default=0)

    def free(self, start: int, size: int) -> None:
        """Add `size` cells from `start` on."""
        gaps = self._gaps
        i = bisect.bisect(gaps, (start, size))
        if i < len(gaps) and gaps[i][0] == start + size:
            size += gaps.pop(i)[1]
        if i and sum(gaps[i - 1]) == start:
            before, more = gaps[i - 1]
            gaps[i - 1] = before, more + size
        else:
            gaps.insert(i, (start, size))


class _Own(NamedTuple):
    """The output of a request without a slot, and its notes: replaced together."""

    tokens: np.ndarray
    notes: np.ndarray


class History:
    """Prompt and output of one request.

    The prompt never changes, and forks share it. While the request has a slot, the output is in the slot
    table's pool, behind a copy of the prompt; otherwise in arrays of its own, replaced when it grows. Each
    change takes effect by one assignment, so that an interruption finds all of it or nothing."""

    __slots__ = ("_own", "_place", "_prompt")

    def __init__(
        self,
        prompt_token_ids: TokenIds,
        output_token_ids: TokenIds = (),
        output_notes: np.ndarray | None = None,
    ) -> None:
        """Arrays of int64 are kept as they are: nobody may change them. Without `output_notes`, float64, the
        output was chosen elsewhere."""
        self._prompt = np.asarray(prompt_token_ids, np.int64)
        self._place: tuple[TokenPool, int] | None = None
        output = np.asarray(output_token_ids, np.int64)
        self._own = _Own(output, np.full(len(output), np.nan) if output_notes is None else output_notes)

    def __len__(self) -> int:
        if self._place is None:
            return len(self._prompt) + len(self._own.tokens)
        pool, slot = self._place
        return int(pool.lengths[slot])

    @property
    def slot(self) -> int:
        """The slot in which it is; −1 without one."""
        return -1 if self._place is None else self._place[1]

    @property
    def prompt_length(self) -> int:
        return len(self._prompt)

    @property
    def output_length(self) -> int:
        if self._place is None:
            return len(self._own.tokens)
        pool, slot = self._place
        return int(pool.lengths[slot]) - len(self._prompt)

    @property
    def token_ids(self) -> np.ndarray:
        if self._place is None:
            return np.concatenate((self._prompt, self._own.tokens))
        pool, slot = self._place
        return pool.tokens_of(slot)

    @property
    def prompt_token_ids(self) -> np.ndarray:
        return self._prompt

    @property
    def output_token_ids(self) -> np.ndarray:
        if self._place is None:
            return self._own.tokens
        pool, slot = self._place
        return pool.tokens_of(slot)[len(self._prompt) :]

    @property
    def output_notes(self) -> np.ndarray:
        """float64 [output length]: the selector's note on every token, NaN where there is none."""
        if self._place is None:
            return self._own.notes
        pool, slot = self._place
        return pool.notes_of(slot)

    def copy_of_output(self) -> np.ndarray:
        """The output as it is now, int64: an array that nothing changes."""
        return self._own.tokens if self._place is None else self.output_token_ids.copy()

    def accept(self, token_ids: TokenIds, notes: Notes = ()) -> None:
        """Add tokens; without `notes` they were chosen elsewhere."""
        notes = notes if len(notes) else [None] * len(token_ids)
        if self._place is None:
            self._own = _Own(
                np.concatenate((self._own.tokens, np.array(token_ids, np.int64))),
                np.concatenate((self._own.notes, np.array(notes, np.float64))),
            )
        else:
            pool, slot = self._place
            pool.append(slot, token_ids, notes)

    def cut(self, output_length: int) -> None:
        """Remove the output after its first `output_length` tokens."""
        if self._place is None:
            self._own = _Own(self._own.tokens[:output_length], self._own.notes[:output_length])
        else:
            pool, slot = self._place
            pool.cut(slot, len(self._prompt) + output_length)

    def rollback(self, n: int) -> None:
        """Remove the last `n` tokens of the output."""
        self.cut(self.output_length - n)

    @property
    def whole(self) -> History:
        """The history itself, see `later_output`."""
        return self

    def fork(self) -> History:
        return History(self._prompt, self.output_token_ids.copy(), self.output_notes.copy())

    def attach(self, pool: TokenPool, slot: int) -> None:
        """Move into the free `slot` of `pool`."""
        output, notes = self._own
        pool.open(slot, self._prompt, more=len(output))
        if len(output):
            try:
                pool.append(slot, output, notes)
            except BaseException:
                pool.close(slot)
                raise
        self._place = pool, slot
        self._own = _NOTHING

    def detach(self) -> None:
        """Move into arrays of its own, which frees the slot."""
        assert self._place is not None
        pool, slot = self._place
        self._own = _Own(self.output_token_ids.copy(), self.output_notes.copy())
        self._place = None
        pool.close(slot)


_NOTHING = _Own(np.empty(0, np.int64), np.empty(0))


def _roomy(prompt: int, output: int) -> int:
    """Cells for a request with a prompt and an output of these lengths, and for output to come: about as much
    as there is of both, but little after a long prompt, which its siblings have, too."""
    length = prompt + output
    return length + max(min(length, _SPARE_AFTER_PROMPT + output), _SPARE_CELLS)


def _between(starts: np.ndarray, sizes: np.ndarray, cells: int) -> list[tuple[int, int]]:
    """The gaps (first cell, size) among regions in a pool of so many cells, ascending."""
    order = starts.argsort()
    begin = [0, *(starts + sizes)[order].tolist()]
    end = [*starts[order].tolist(), cells]
    return [(first, last - first) for first, last in zip(begin, end, strict=True) if last > first]


def longer(array: np.ndarray, length: int, fill: Any = 0) -> np.ndarray:
    """`array`, or a copy of it that is extended to `length` by entries of `fill`."""
    if len(array) >= length:
        return array
    more: np.ndarray = np.empty(length - len(array), array.dtype)
    more.fill(fill)
    return np.concatenate([array, more])
