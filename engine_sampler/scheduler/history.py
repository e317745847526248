"""Tokens and notes of many requests, side by side in one pool."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

TokenIds = Sequence[int] | np.ndarray
Notes = Sequence[float | None] | np.ndarray

AMPLE = 2**62
"""More tokens than any request has."""

ONE = np.ones(1, np.int64)
"""Adding an array costs half of what adding a Python number does."""

_SPARE = 64
"""Cells that a region has free at the least when it is made or moved."""

_NEARLY = 16
"""A region with fewer free cells moves when any has to, so that the next time is not soon."""


class _Pool(NamedTuple):
    """Arrays that are replaced as one. A reader on another thread who takes a length first, then the
    pool, then the offset, sees tokens that belong together: cells are not used twice in one pool."""

    tokens: np.ndarray
    notes: np.ndarray
    offsets: np.ndarray


class Ledger:
    """What every request has said so far, by slot number.

    tokens          int64 [pool]; a request's are tokens[offset : offset + length], the prompt first.
    notes           float64 [pool], beside the tokens: what the selector noted when it drew the token,
                    NaN for all others.
    offsets, lengths, prompt_lengths  int64 [capacity], by slot.
    epochs          uint64 [capacity]: while it stays, tokens and notes of the slot only grow. A value
                    never comes twice.

    Each request has a region of its own, which moves to the end of the pool when it is full. The
    arrays are replaced, not resized: who keeps one keeps what it held.
    """

    def __init__(self, capacity: int, cells: int = 0) -> None:
        """`cells` is the size of the pool to begin with; it grows when needed."""
        self._pool = _Pool(np.empty(cells, np.int64), np.empty(cells), np.zeros(capacity, np.int64))
        self.lengths = np.zeros(capacity, np.int64)
        self.prompt_lengths = np.zeros(capacity, np.int64)
        self.epochs = np.zeros(capacity, np.uint64)
        self._sizes = np.zeros(capacity, np.int64)
        """Cells of each region; 0 for a slot that is free."""
        self._end = 0
        """Behind this cell the pool is unused."""
        self._room = AMPLE
        """So many more tokens have room in every region, or more."""
        self._epoch = itertools.count(1)

    @property
    def tokens(self) -> np.ndarray:
        return self._pool.tokens

    @property
    def notes(self) -> np.ndarray:
        return self._pool.notes

    @property
    def offsets(self) -> np.ndarray:
        return self._pool.offsets

    def tokens_of(self, slot: int) -> np.ndarray:
        """All tokens of `slot`, int64 [length]: a view, not to be written."""
        length, pool = self.lengths[slot], self._pool  # in this order: see _Pool
        start = pool.offsets[slot]
        return pool.tokens[start : start + length]

    def notes_of(self, slot: int) -> np.ndarray:
        """The notes beside `tokens_of`, float64 [length]: a view, not to be written."""
        length, pool = self.lengths[slot], self._pool  # in this order: see _Pool
        start = pool.offsets[slot]
        return pool.notes[start : start + length]

    # --- slots -----------------------------------------------------------------------------------

    def open(
        self, slot: int, prompt: int, tokens: np.ndarray, notes: np.ndarray, *, snug: bool = False
    ) -> None:
        """Give the free `slot` a region that holds `tokens` and `notes`; the first `prompt` are the prompt.

        snug  without cells to spare, for what will hardly grow.
        """
        size = max(1, len(tokens)) if snug else _roomy(len(tokens))
        start = self._claim(size)
        self.offsets[slot], self._sizes[slot] = start, size
        self._write(slot, 0, tokens, notes)
        self.prompt_lengths[slot] = prompt
        self._renew(slot)

    def close(self, slot: int) -> None:
        """Free `slot`; its cells are used again when the pool is next put in order."""
        self._sizes[slot] = self.lengths[slot] = self.prompt_lengths[slot] = 0

    def resize(self, capacity: int) -> None:
        """Make room for `capacity` slots."""
        more = capacity - len(self.lengths)
        self._pool = self._pool._replace(offsets=_longer(self.offsets, more))
        self.lengths = _longer(self.lengths, more)
        self.prompt_lengths = _longer(self.prompt_lengths, more)
        self.epochs = _longer(self.epochs, more)
        self._sizes = _longer(self._sizes, more)

    # --- tokens ----------------------------------------------------------------------------------

    def append(self, slot: int, tokens: TokenIds, notes: Notes) -> None:
        """Add tokens to one slot; a note of None stands for NaN."""
        start = int(self.lengths[slot])
        if start + len(tokens) > self._sizes[slot]:
            self._move(slot, _roomy(start + len(tokens)))
        self._write(slot, start, tokens, np.array(notes, np.float64))

    def extend(self, slots: np.ndarray, tokens: np.ndarray, notes: np.ndarray) -> None:
        """Add one token with its note to each of `slots` [n], all different."""
        if self._room < 1:
            self._make_room()
        self._room -= 1
        pool = self._pool
        lengths = self.lengths[slots]
        cells = pool.offsets[slots]
        cells += lengths
        pool.tokens[cells] = tokens
        pool.notes[cells] = notes
        lengths += ONE
        self.lengths[slots] = lengths

    def retract(self, slot: int, n: int) -> None:
        """Take the last `n` tokens of a slot back."""
        self.lengths[slot] -= n
        self._renew(slot)

    # --- inside ----------------------------------------------------------------------------------

    def _renew(self, slot: int) -> None:
        self.epochs[slot] = next(self._epoch)

    def _write(self, slot: int, start: int, tokens: TokenIds, notes: np.ndarray) -> None:
        pool, length = self._pool, start + len(tokens)
        cells = slice(pool.offsets[slot] + start, pool.offsets[slot] + length)
        pool.tokens[cells] = tokens
        pool.notes[cells] = notes
        self.lengths[slot] = length
        self._room = min(self._room, int(self._sizes[slot]) - length)

    def _make_room(self) -> None:
        """Move the regions that are nearly full, and count anew how much room there is."""
        nearly = (self._sizes > 0) & (self._sizes < self.lengths + _NEARLY)
        for slot in np.flatnonzero(nearly).tolist():
            self._move(slot, _roomy(int(self.lengths[slot])))
        free = (self._sizes - self.lengths)[self._sizes > 0]
        self._room = int(free.min(initial=AMPLE))

    def _move(self, slot: int, size: int) -> None:
        """Give `slot` a region of `size` cells at the end of the pool."""
        start = self._claim(size)
        pool, length = self._pool, self.lengths[slot]
        old = pool.offsets[slot]
        pool.tokens[start : start + length] = pool.tokens[old : old + length]
        pool.notes[start : start + length] = pool.notes[old : old + length]
        pool.offsets[slot] = start
        self._sizes[slot] = size

    def _claim(self, size: int) -> int:
        """The first of `size` unused cells."""
        if self._end + size > len(self.tokens):
            self._repack(size)
        start = self._end
        self._end += size
        return start

    def _repack(self, more: int) -> None:
        """Put the regions in order in a new pool, with `more` unused cells and as many as are used."""
        old, taken = self._pool, np.flatnonzero(self._sizes)
        ends = self._sizes[taken].cumsum()
        self._end = int(ends[-1]) if len(ends) else 0
        cells = more if not self._end else 2 * (self._end + more)
        new = _Pool(np.empty(cells, np.int64), np.empty(cells), old.offsets.copy())
        new.offsets[taken] = ends - self._sizes[taken]
        for slot, length in zip(taken.tolist(), self.lengths[taken].tolist(), strict=True):
            source, target = int(old.offsets[slot]), int(new.offsets[slot])
            new.tokens[target : target + length] = old.tokens[source : source + length]
            new.notes[target : target + length] = old.notes[source : source + length]
        self._pool = new


class History:
    """Prompt and output of one request: in a ledger of its own, or in that of the slots it sits in."""

    __slots__ = ("_ledger", "_slot")

    def __init__(self, prompt_token_ids: TokenIds, output_token_ids: TokenIds = ()) -> None:
        prompt = len(prompt_token_ids)
        tokens = np.empty(prompt + len(output_token_ids), np.int64)
        tokens[:prompt] = prompt_token_ids
        tokens[prompt:] = output_token_ids
        self._keep(prompt, tokens, np.full(len(tokens), np.nan))

    def __len__(self) -> int:
        return int(self._ledger.lengths[self._slot])

    @property
    def prompt_length(self) -> int:
        return int(self._ledger.prompt_lengths[self._slot])

    @property
    def output_length(self) -> int:
        return len(self) - self.prompt_length

    @property
    def token_ids(self) -> np.ndarray:
        return self._ledger.tokens_of(self._slot)

    @property
    def prompt_token_ids(self) -> np.ndarray:
        return self.token_ids[: self.prompt_length]

    @property
    def output_token_ids(self) -> np.ndarray:
        return self.token_ids[self.prompt_length :]

    @property
    def notes(self) -> np.ndarray:
        """float64 [length]: the selector's note on every token, NaN where there is none."""
        return self._ledger.notes_of(self._slot)

    def accept(self, token_ids: TokenIds, notes: Notes = ()) -> None:
        """Add tokens; without `notes` they were chosen elsewhere."""
        self._ledger.append(self._slot, token_ids, notes if len(notes) else [None] * len(token_ids))

    def rollback(self, n: int) -> None:
        self._ledger.retract(self._slot, n)

    def fork(self) -> History:
        child = object.__new__(History)
        child._keep(self.prompt_length, self.token_ids, self.notes)
        return child

    def sit(self, ledger: Ledger, slot: int) -> None:
        """Move into the free `slot` of `ledger`."""
        ledger.open(slot, self.prompt_length, self.token_ids, self.notes)
        self._ledger, self._slot = ledger, slot

    def leave(self) -> None:
        """Move out again, into a ledger of its own; the slot is free then."""
        ledger, slot = self._ledger, self._slot
        self._keep(self.prompt_length, self.token_ids, self.notes)
        ledger.close(slot)

    def _keep(self, prompt: int, tokens: np.ndarray, notes: np.ndarray) -> None:
        own = Ledger(1, cells=max(1, len(tokens)))
        own.open(0, prompt, tokens, notes, snug=True)
        self._ledger, self._slot = own, 0


def _roomy(length: int) -> int:
    """Cells for a request with `length` tokens and as many to come."""
    return length + max(length, _SPARE)


def _longer(array: np.ndarray, more: int) -> np.ndarray:
    return np.concatenate([array, np.zeros(more, array.dtype)])
