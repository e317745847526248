"""`Draft`: what is guessed about the next tokens of a request. `DraftedSlots`: requests as they will be if
their drafts are right, for rows that are drawn before this is known."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakSet

import numpy as np

from ..contract import LookAhead
from .history import TokenPool
from .slots import Slots
from .state import RequestState


class Draft:
    """Guesses about the next tokens of one request: a chain, or a tree of alternatives. Row 0 of the request
    follows its own tokens, row 1 + i follows guess number i.

    token_ids  what is guessed.
    parents    for each guess the number of the one that it follows, −1 if it follows none.
    is_chain   whether each guess follows the one before it.
    """

    def __init__(self, token_ids: list[int], parents: list[int] | None = None) -> None:
        """`parents`: None for a chain."""
        chain = range(-1, len(token_ids) - 1)
        self.token_ids = token_ids
        self.parents: Sequence[int] = chain if parents is None else parents
        self.is_chain = parents is None or parents == list(chain)

    @functools.cached_property
    def depths(self) -> np.ndarray:
        """int64 [1 + guesses], how many guesses lead to each row."""
        if self.is_chain:
            return np.arange(1 + len(self), dtype=np.int64)
        depths = [0]
        for parent in self.parents:
            depths.append(1 + depths[parent + 1])
        return np.array(depths, np.int64)

    def __len__(self) -> int:
        return len(self.token_ids)

    def row_after(self, row: int, token_id: int) -> int:
        """The row that follows `token_id`, drawn in `row`; 0 if that was not guessed. Of equal guesses the
        first counts."""
        token_ids = self.token_ids
        if self.is_chain:
            return row + 1 if row < len(token_ids) and token_ids[row] == token_id else 0
        after = row  # a guess stands behind its parent
        try:
            while True:
                after = self.parents.index(row - 1, after) + 1
                if token_ids[after - 1] == token_id:
                    return after
        except ValueError:
            return 0


class DraftedSlots:
    """A `SlotTable` over the slots of live requests, which stay as they are.

    Its slot i is slot `numbers`[i], whose history goes on with the first `leads`[i] tokens of a draft. These
    are written behind the tokens that count (`TokenPool.write_ahead`) before each use.
    """

    def __init__(self, slots: Slots, numbers: np.ndarray, leads: np.ndarray) -> None:
        self.ahead: LookAhead | None = LookAhead(slots, numbers, leads)
        self.vocabulary, self.params, self.num_threads = slots.vocabulary, slots.params, slots.num_threads
        self.observers: WeakSet[Any] = WeakSet()
        self.seeds = slots.seeds[numbers]
        self.epochs = np.zeros(len(numbers), np.uint64)  # nobody may remember what is derived from drafts
        pairs = zip(numbers.tolist(), leads.tolist(), strict=True)
        self.entries: list[Any] = []
        for number, lead in pairs:
            before = self.entries[-1] if self.entries else None
            self.entries.append(DraftedEntry(slots, number, lead, before))
        self._slots, self._numbers, self._leads = slots, numbers, leads

    def begin(self) -> None:
        """Forget what followed the drafts before."""
        for entry in self.entries:
            entry.begin()

    @property
    def positions(self) -> np.ndarray:
        return self._slots.positions[self._numbers] + self._leads

    @property
    def tokens(self) -> np.ndarray:
        return self._slots.tokens

    @property
    def notes(self) -> np.ndarray:
        return self._slots.notes

    @property
    def offsets(self) -> np.ndarray:
        return self._slots.offsets[self._numbers]

    @property
    def lengths(self) -> np.ndarray:
        return self._slots.lengths[self._numbers] + self._leads

    @property
    def prompt_lengths(self) -> np.ndarray:
        return self._slots.prompt_lengths[self._numbers]

    def given(self, slot: int) -> Mapping[str, Any]:
        return self._slots.given(int(self._numbers[slot]))

    def column(self, name: str) -> np.ndarray:
        return self._slots.column(name)[self._numbers]


class DraftedEntry:
    """A request whose history goes on with `lead` tokens of a draft.

    before  the entry in front of it: its states are of use if it is the same request, one token earlier.
    """

    __slots__ = ("_before", "_lead", "_pool", "_slot", "_state", "_states", "chain", "resolved", "row_states")

    def __init__(self, slots: Slots, slot: int, lead: int, before: DraftedEntry | None) -> None:
        self._pool: TokenPool = slots.pool
        self._slot, self._lead = slot, lead
        is_next = before is not None and (before._slot, before._lead + 1) == (slot, lead)
        self._before = before if is_next else None
        self._state: RequestState = slots.entries[slot]
        self.chain, self.resolved = self._state.chain, self._state.resolved
        self.row_states: dict[str, int] = {}
        self._states: dict[str, Any] = {}

    def begin(self) -> None:
        self._states.clear()

    @property
    def history(self) -> DraftedEntry:
        return self

    @property
    def token_ids(self) -> np.ndarray:
        start, length = self._pool.offsets[self._slot], self._pool.lengths[self._slot]
        return self._pool.tokens[start : start + length + self._lead]

    @property
    def prompt_token_ids(self) -> np.ndarray:
        return self._state.history.prompt_token_ids

    @property
    def output_token_ids(self) -> np.ndarray:
        return self.token_ids[self._pool.output_begins[self._slot] :]

    def state(self, name: str) -> Any:
        """The state of one sampler after the draft: a copy, or that of the request if there is no draft."""
        if not self._lead:
            return self._state.state(name)
        if name not in self._states:
            known = None if self._before is None else self._before._states.get(name)
            draft: Sequence[int] = self.token_ids[-self._lead if known is None else -1 :].tolist()
            self._states[name] = self._state.state_after(name, draft, known)
        return self._states[name]
