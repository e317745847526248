"""`Rows`: everything that a sampler, selector or backend may use about the rows it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..arithmetic import DrawsAhead
from .slots import SlotTable
from .vocabulary import Vocabulary

_MOST_STREAMS = 64
"""Streams of random numbers that are drawn ahead; a plugin may ask for any number of them."""


class RowsOwner(Protocol):
    """A sampler or selector: the owner of the states that the rows show and of the random stream they use."""

    @property
    def name(self) -> str: ...

    @property
    def stream(self) -> int: ...


class _Owner(NamedTuple):
    name: str
    stream: int


class Rows:
    """n rows of one step: parameters, states, histories and random numbers, by row.

    rows["min_p"]   the parameter's values, [n]: float64, int64 or bool; an object array for
                    parameters of other types or with a neutral value of None.
    ids             int64 [n, columns], the token id of each column, ascending in every row; None
                    if column j is token j. Rows with fewer survivors than others end in padding:
                    columns with logit −inf and the id `vocabulary.size`.
    bitmask         int32 [n, words], which tokens the grammars of this step allow; None without grammars.
    position        int64 [n], the index of the token being drawn, within prompt + output.
    seed            uint64 [n].
    """

    __slots__ = (
        "_ahead",
        "_bitmask",
        "_index",
        "_lead",
        "_name",
        "_parent",
        "_peaks",
        "_slots",
        "_stream",
        "_values",
        "_which",
        "ids",
    )

    def __init__(self, slots: SlotTable, index: np.ndarray, lead: np.ndarray | None = None) -> None:
        """`lead`: by how many tokens each row is ahead of its request's next one, int64 [n]; None for 0. Such
        rows have positions and random numbers of their own, but parameters, states and histories of now: in
        a table that looks `ahead`, their own as well."""
        self._slots = slots
        self._index = index
        self._lead = lead
        self._values: dict[str, np.ndarray] = {}
        self._ahead: dict[tuple[int, int], DrawsAhead] = {}
        self._parent: Rows | None = None
        self._which: np.ndarray | slice | None = None
        self._name = ""
        self._stream = 0
        self._peaks: np.ndarray | None = None
        self._bitmask: np.ndarray | None = None
        self.ids: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, name: str) -> np.ndarray:
        values = self._values.get(name)
        if values is None:
            if self._parent is not None:
                values = self._parent[name][self._which]
            else:
                values = self._slots.column(name)[self._index]
            self._values[name] = values
        return values

    def derived(self, name: str, compute: Callable[[Rows], np.ndarray]) -> np.ndarray:
        """[n, …] values that depend on parameters only, or on what `resolve` has made of them: computed once
        for a whole group, cached by `name`."""
        values = self._values.get(name)
        if values is None:
            parent = self._parent
            if parent is None:
                values = compute(self)
            else:
                of_group = parent._values.get(name)
                if of_group is None:
                    of_group = parent.bind(_Owner(self._name, self._stream)).derived(name, compute)
                values = of_group[self._which]
            self._values[name] = values
        return values

    @property
    def position(self) -> np.ndarray:
        positions = self._slots.positions[self._index]
        return positions if self._lead is None else positions + self._lead

    @property
    def seed(self) -> np.ndarray:
        return self._slots.seeds[self._index]

    @property
    def vocabulary(self) -> Vocabulary:
        return self._slots.vocabulary

    @property
    def states(self) -> list[Any]:
        """This sampler's state for each row, up to date with the row's tokens."""
        return [self._slots.entries[s].state(self._name) for s in self._index.tolist()]

    @property
    def resolved(self) -> list[Any]:
        """The result of this sampler's `resolve` for each row."""
        return [self._slots.entries[s].resolved.get(self._name) for s in self._index.tolist()]

    def token_ids(self, i: int) -> np.ndarray:
        """Prompt and output of row i, int64 [length]; a view that must not be written to."""
        return self._slots.entries[self._index[i]].history.token_ids

    def prompt_token_ids(self, i: int) -> np.ndarray:
        """The prompt of row i, int64; a view that must not be written to."""
        return self._slots.entries[self._index[i]].history.prompt_token_ids

    def output_token_ids(self, i: int) -> np.ndarray:
        """The output of row i so far, int64; a view that must not be written to."""
        return self._slots.entries[self._index[i]].history.output_token_ids

    def draw(self, index: int = 0) -> np.ndarray:
        """64 random bits per row, uint64 [n]: a function of seed, position, sampler and `index`."""
        key = (self._stream, index)
        if key not in self._ahead:
            if len(self._ahead) == _MOST_STREAMS:
                self._ahead.clear()
            self._ahead[key] = DrawsAhead(*key)
        return self._ahead[key].at(self.seed, self.position)

    @property
    def bitmask(self) -> np.ndarray | None:
        if self._bitmask is None and self._parent is not None:
            words = self._parent.bitmask
            self._bitmask = None if words is None else words[self._which]
        return self._bitmask

    def peaks(self, logits: np.ndarray) -> np.ndarray:
        """The maximum of each row of `logits` [n, columns], float32 [n]; call it before changing them."""
        return logits.max(axis=1) if self._peaks is None else self._peaks

    def columns(self, i: int, token_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The columns of `token_ids` in row i: (columns, which), without the ids that have no column.

        `which` indexes `token_ids`: `columns` holds token_ids[which].
        """
        if self.ids is None:
            return token_ids, np.arange(len(token_ids))
        ids = self.ids[i]
        found = np.minimum(np.searchsorted(ids, token_ids), len(ids) - 1)
        which = np.flatnonzero(ids[found] == token_ids)
        return found[which], which

    def token_ids_at(self, columns: np.ndarray) -> np.ndarray:
        """The token id of one column per row, int64 [n]."""
        if self.ids is None:
            return np.asarray(columns, np.int64)
        return self.ids[np.arange(len(self)), columns]

    def leave_only(self, i: int, row: np.ndarray, token_id: int, logit: float) -> None:
        """Make row i, the logits `row`, one of a single token, even if that was removed before."""
        row.fill(-np.inf)
        if self.ids is None:
            row[token_id] = logit
            return
        self.ids = self.ids.copy()
        self.ids[i] = self.vocabulary.size
        self.ids[i, 0] = token_id
        row[0] = logit

    # --- for backends ----------------------------------------------------------------------------

    @property
    def slots(self) -> SlotTable:
        """The table of the requests that these rows belong to."""
        return self._slots if self._slots.ahead is None else self._slots.ahead.base

    @property
    def table(self) -> SlotTable:
        """The table in which these rows find their histories and states: that of the requests, or one in
        which drafts follow their tokens."""
        return self._slots

    @property
    def slot_numbers(self) -> np.ndarray:
        """int64 [n], the slot of each row's request."""
        return self._index if self._slots.ahead is None else self._slots.ahead.numbers[self._index]

    @property
    def drafted(self) -> np.ndarray | None:
        """int64 [n], how many tokens of a draft each row's history ends with; None if there are no drafts in
        any. They stand in `slots.tokens` behind the tokens that count."""
        return None if self._slots.ahead is None else self._slots.ahead.leads[self._index]

    def bind(self, owner: RowsOwner) -> Rows:
        """The same rows as seen by `owner`: with its states and its random stream."""
        bound = object.__new__(Rows)
        bound._slots, bound._index, bound._values = self._slots, self._index, self._values
        bound._ahead, bound._lead = self._ahead, self._lead
        bound._parent, bound._which, bound.ids = self._parent, self._which, self.ids
        bound._name, bound._stream, bound._peaks = owner.name, owner.stream, self._peaks
        bound._bitmask = self._bitmask
        return bound

    def take(
        self,
        which: np.ndarray | slice,
        ids: np.ndarray | None = None,
        peaks: np.ndarray | None = None,
    ) -> Rows:
        """The rows selected by `which`, in its order, with `ids` as the ids of their columns; `peaks` are
        their maxima, if known."""
        taken = Rows(self._slots, self._index[which], None if self._lead is None else self._lead[which])
        taken._parent, taken._which, taken.ids, taken._peaks = self, which, ids, peaks
        return taken

    def under(self, bitmask: np.ndarray) -> Rows:
        """The same rows in a step whose grammars allow the tokens of `bitmask`, int32 [n, words]."""
        masked = self.take(slice(None), self.ids, self._peaks)
        masked._ahead, masked._bitmask = self._ahead, bitmask
        return masked

    def __repr__(self) -> str:
        width = "all" if self.ids is None else self.ids.shape[1]
        return f"Rows(n={len(self)}, columns={width})"
