"""Tokens and notes of many requests, side by side in one pool."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

TokenIds = Sequence[int] | np.ndarray
Notes = Sequence[float | None] | np.ndarray

UNBOUNDED = 2**62
"""A length that no request reaches."""

ONE = np.ones(1, np.int64)
"""Adding an array costs half of what adding a Python number does."""

_SPARE_CELLS = 64
"""The least number of free cells in a region when it is created or moved."""

_NEARLY_FULL = 16
"""When any region has to move, those with fewer free cells than this move too, so that moves are rare."""


class _Arrays(NamedTuple):
    """Arrays that are replaced together. A reader on another thread that takes a length first, then these
    arrays, then the offset, sees tokens that belong together: no cell is used twice in the same arrays."""

    tokens: np.ndarray
    notes: np.ndarray
    offsets: np.ndarray


class TokenPool:
    """The tokens and notes of many requests, by slot number.

    tokens          int64 [cells]; a request's are tokens[offset : offset + length], the prompt first.
    notes           float64 [cells], parallel to the tokens: what the selector noted when it drew the token,
                    NaN for all others.
    offsets, lengths, prompt_lengths  int64 [capacity], by slot.
    epochs          uint64 [capacity]: while a slot's value stays, its tokens and notes only grow. No value
                    is used twice.

    Each request has a region of its own, which moves to the end of the pool when it is full. Arrays are
    replaced, not resized: a reference to an old one keeps its contents.
    """

    def __init__(self, capacity: int, cells: int = 0) -> None:
        """`cells` is the initial size; the pool grows when needed."""
        self._arrays = _Arrays(np.empty(cells, np.int64), np.empty(cells), np.zeros(capacity, np.int64))
        self.lengths = np.zeros(capacity, np.int64)
        self.prompt_lengths = np.zeros(capacity, np.int64)
        self.epochs = np.zeros(capacity, np.uint64)
        self._sizes = np.zeros(capacity, np.int64)
        """Cells of each region; 0 for a free slot."""
        self._end = 0
        """From this cell on the pool is unused."""
        self._room = UNBOUNDED
        """Every region has room for this many more tokens, or more."""
        self._epoch = itertools.count(1)

    @property
    def tokens(self) -> np.ndarray:
        return self._arrays.tokens

    @property
    def notes(self) -> np.ndarray:
        return self._arrays.notes

    @property
    def offsets(self) -> np.ndarray:
        return self._arrays.offsets

    def tokens_of(self, slot: int) -> np.ndarray:
        """All tokens of `slot`, int64 [length]: a view, not to be written."""
        length, arrays = self.lengths[slot], self._arrays  # in this order: see _Arrays
        start = arrays.offsets[slot]
        return arrays.tokens[start : start + length]

    def notes_of(self, slot: int) -> np.ndarray:
        """The notes parallel to `tokens_of`, float64 [length]: a view, not to be written."""
        length, arrays = self.lengths[slot], self._arrays  # in this order: see _Arrays
        start = arrays.offsets[slot]
        return arrays.notes[start : start + length]

    # --- slots -----------------------------------------------------------------------------------

    def open(
        self, slot: int, prompt: int, tokens: np.ndarray, notes: np.ndarray, *, exact: bool = False
    ) -> None:
        """Give the free `slot` a region with `tokens` and `notes`; the first `prompt` tokens are the prompt.

        exact  without spare cells, for a history that will hardly grow.
        """
        size = max(1, len(tokens)) if exact else _roomy(len(tokens))
        start = self._claim(size)
        self.offsets[slot], self._sizes[slot] = start, size
        self._write(slot, 0, tokens, notes)
        self.prompt_lengths[slot] = prompt
        self._renew_epoch(slot)

    def close(self, slot: int) -> None:
        """Free `slot`; its cells are used again after the pool is next repacked."""
        self._sizes[slot] = self.lengths[slot] = self.prompt_lengths[slot] = 0

    def resize(self, capacity: int) -> None:
        """Make room for `capacity` slots."""
        more = capacity - len(self.lengths)
        self._arrays = self._arrays._replace(offsets=_longer(self.offsets, more))
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
        arrays = self._arrays
        lengths = self.lengths[slots]
        cells = arrays.offsets[slots]
        cells += lengths
        arrays.tokens[cells] = tokens
        arrays.notes[cells] = notes
        lengths += ONE
        self.lengths[slots] = lengths

    def retract(self, slot: int, n: int) -> None:
        """Remove the last `n` tokens of a slot."""
        self.lengths[slot] -= n
        self._renew_epoch(slot)

    # --- inside ----------------------------------------------------------------------------------

    def _renew_epoch(self, slot: int) -> None:
        self.epochs[slot] = next(self._epoch)

    def _write(self, slot: int, start: int, tokens: TokenIds, notes: np.ndarray) -> None:
        arrays, length = self._arrays, start + len(tokens)
        cells = slice(arrays.offsets[slot] + start, arrays.offsets[slot] + length)
        arrays.tokens[cells] = tokens
        arrays.notes[cells] = notes
        self.lengths[slot] = length
        self._room = min(self._room, int(self._sizes[slot]) - length)

    def _make_room(self) -> None:
        """Move the regions that are nearly full, and compute again how much room there is."""
        nearly_full = (self._sizes > 0) & (self._sizes < self.lengths + _NEARLY_FULL)
        for slot in np.flatnonzero(nearly_full).tolist():
            self._move(slot, _roomy(int(self.lengths[slot])))
        free = (self._sizes - self.lengths)[self._sizes > 0]
        self._room = int(free.min(initial=UNBOUNDED))

    def _move(self, slot: int, size: int) -> None:
        """Give `slot` a region of `size` cells at the end of the pool."""
        start = self._claim(size)
        arrays, length = self._arrays, self.lengths[slot]
        old = arrays.offsets[slot]
        arrays.tokens[start : start + length] = arrays.tokens[old : old + length]
        arrays.notes[start : start + length] = arrays.notes[old : old + length]
        arrays.offsets[slot] = start
        self._sizes[slot] = size

    def _claim(self, size: int) -> int:
        """The first of `size` unused cells."""
        if self._end + size > len(self.tokens):
            self._repack(size)
        start = self._end
        self._end += size
        return start

    def _repack(self, more: int) -> None:
        """Pack the regions into new arrays, with room for `more` cells and for as many again as are used."""
        old, taken = self._arrays, np.flatnonzero(self._sizes)
        ends = self._sizes[taken].cumsum()
        self._end = int(ends[-1]) if len(ends) else 0
        cells = more if not self._end else 2 * (self._end + more)
        new = _Arrays(np.empty(cells, np.int64), np.empty(cells), old.offsets.copy())
        new.offsets[taken] = ends - self._sizes[taken]
        for slot, length in zip(taken.tolist(), self.lengths[taken].tolist(), strict=True):
            source, target = int(old.offsets[slot]), int(new.offsets[slot])
            new.tokens[target : target + length] = old.tokens[source : source + length]
            new.notes[target : target + length] = old.notes[source : source + length]
        self._arrays = new


class History:
    """Prompt and output of one request: in a pool of its own, or in the slot table's pool while it has a
    slot."""

    __slots__ = ("_pool", "_slot")

    def __init__(self, prompt_token_ids: TokenIds, output_token_ids: TokenIds = ()) -> None:
        prompt = len(prompt_token_ids)
        tokens = np.empty(prompt + len(output_token_ids), np.int64)
        tokens[:prompt] = prompt_token_ids
        tokens[prompt:] = output_token_ids
        self._store(prompt, tokens, np.full(len(tokens), np.nan))

    def __len__(self) -> int:
        return int(self._pool.lengths[self._slot])

    @property
    def prompt_length(self) -> int:
        return int(self._pool.prompt_lengths[self._slot])

    @property
    def output_length(self) -> int:
        return len(self) - self.prompt_length

    @property
    def token_ids(self) -> np.ndarray:
        return self._pool.tokens_of(self._slot)

    @property
    def prompt_token_ids(self) -> np.ndarray:
        return self.token_ids[: self.prompt_length]

    @property
    def output_token_ids(self) -> np.ndarray:
        return self.token_ids[self.prompt_length :]

    @property
    def notes(self) -> np.ndarray:
        """float64 [length]: the selector's note on every token, NaN where there is none."""
        return self._pool.notes_of(self._slot)

    def accept(self, token_ids: TokenIds, notes: Notes = ()) -> None:
        """Add tokens; without `notes` they were chosen elsewhere."""
        self._pool.append(self._slot, token_ids, notes if len(notes) else [None] * len(token_ids))

    def rollback(self, n: int) -> None:
        self._pool.retract(self._slot, n)

    def fork(self) -> History:
        child = object.__new__(History)
        child._store(self.prompt_length, self.token_ids, self.notes)
        return child

    def attach(self, pool: TokenPool, slot: int) -> None:
        """Move into the free `slot` of `pool`."""
        pool.open(slot, self.prompt_length, self.token_ids, self.notes)
        self._pool, self._slot = pool, slot

    def detach(self) -> None:
        """Move into a pool of its own, which frees the slot."""
        pool, slot = self._pool, self._slot
        self._store(self.prompt_length, self.token_ids, self.notes)
        pool.close(slot)

    def _store(self, prompt: int, tokens: np.ndarray, notes: np.ndarray) -> None:
        own = TokenPool(1, cells=max(1, len(tokens)))
        own.open(0, prompt, tokens, notes, exact=True)
        self._pool, self._slot = own, 0


def _roomy(length: int) -> int:
    """Cells for a request with `length` tokens and as many to come."""
    return length + max(length, _SPARE_CELLS)


def _longer(array: np.ndarray, more: int) -> np.ndarray:
    return np.concatenate([array, np.zeros(more, array.dtype)])
