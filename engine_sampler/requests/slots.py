"""The live requests: struct-of-arrays for what is read every step, a `RequestState` for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

import numpy as np

from ..contract import LookAhead, Param, Rows, Vocabulary
from .appending import new_appending
from .draws import DrawnTokens
from .history import UNBOUNDED, Notes, TokenPool, longer
from .state import RequestState


@dataclass(frozen=True)
class CheckTrigger:
    """When the stop checks of a request must run: after any of `token_ids`, from `length` tokens of history
    on, or after every token."""

    token_ids: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    length: int = UNBOUNDED
    always: bool = False


NO_TRIGGER = CheckTrigger()

ATTEMPT = 1 << 40
"""The positions of one attempt to draw an output."""


class Slots:
    """All live requests of a scheduler: what backends read of them, as arrays over slot numbers
    (`contract.SlotTable`), and when their stop checks must run.

    seeds      uint64 [capacity].
    positions  int64 [capacity], the index of the token being drawn, for the random numbers.
    tokens, notes, offsets, lengths, epochs  as in `history.TokenPool`.
    prompt_lengths  int64 [capacity], where the output of the samplers begins: `TokenPool.output_begins`.
    limits     int64 [capacity], the history length from which on a request must be checked.
    always     bool [capacity], whether it must be checked after every token.
    watched    bool [vocab], the tokens after which some request must be checked.
    pool       the tokens of all slots, in the arrays above.
    entries    the `RequestState` of each slot, None where it is free.
    observers  objects whose `filled(slot)` is called when a slot has been given to a request.
    params     every known parameter by name.

    The parameters of a slot stay as they are until it is freed, or given others by `replace`. Arrays are
    replaced when they grow; whenever any is, `offsets` is too.
    """

    ahead: LookAhead | None = None

    def __init__(
        self,
        vocabulary: Vocabulary,
        params: Mapping[str, Param],
        capacity: int = 64,
        num_threads: int | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self.num_threads = num_threads
        self.seeds = np.zeros(capacity, np.uint64)
        self.positions = np.zeros(capacity, np.int64)
        self.limits = np.full(capacity, UNBOUNDED)
        self.always = np.zeros(capacity, bool)
        self.entries: list[Any] = [None] * capacity
        self.observers: WeakSet[Any] = WeakSet()
        self.pool = TokenPool(capacity)
        self.watched = np.zeros(vocabulary.size, bool)
        self.params = params
        self._columns: dict[str, np.ndarray] = {}
        self._given: list[Mapping[str, Any]] = [{}] * capacity
        self._triggers = [NO_TRIGGER] * capacity
        self._shifts = np.zeros(capacity, np.int64)
        """By how much the position is ahead of the length of the history."""
        self._watchers = np.zeros(vocabulary.size, np.int32)
        """How many arrays of tokens that requests watch have each token."""
        self._users: dict[int, int] = {}
        """How many requests watch the tokens of an array, by its identity: siblings have the same."""
        self._appending = new_appending()
        self._free = list(range(capacity - 1, -1, -1))

    @property
    def tokens(self) -> np.ndarray:
        return self.pool.arrays.tokens

    @property
    def notes(self) -> np.ndarray:
        return self.pool.arrays.notes

    @property
    def offsets(self) -> np.ndarray:
        return self.pool.arrays.offsets

    @property
    def lengths(self) -> np.ndarray:
        return self.pool.lengths

    @property
    def prompt_lengths(self) -> np.ndarray:
        return self.pool.output_begins

    @property
    def epochs(self) -> np.ndarray:
        return self.pool.epochs

    def given(self, slot: int) -> Mapping[str, Any]:
        """The parameters of a slot that are not neutral."""
        return self._given[slot]

    def column(self, name: str) -> np.ndarray:
        """The values of parameter `name` for every slot number; neutral where not given."""
        column = self._columns.get(name)
        if column is None:
            column = self._new_column(self.params[name], len(self.entries))
            for slot, given in enumerate(self._given):
                if name in given:
                    column[slot] = given[name]
            self._columns[name] = column
        return column

    def put(
        self,
        entry: RequestState,
        non_neutral: Mapping[str, Any],
        seed: int,
        position: int | None = None,
        trigger: CheckTrigger = NO_TRIGGER,
    ) -> int:
        """Give a free slot to `entry` with the parameters `non_neutral`; returns its number. If that
        fails, the slot stays free."""
        if not self._free:
            self._grow()
        slot = self._free[-1]
        try:
            entry.history.attach(self.pool, slot)
            self._free.pop()
            self.entries[slot], self._given[slot] = entry, non_neutral
            self._fill(slot, seed, position, trigger)
            return slot
        except BaseException:
            self.take_out(entry)
            self.restore()
            raise

    def _fill(self, slot: int, seed: int, position: int | None, trigger: CheckTrigger) -> None:
        """Write the columns of a slot that has been given to a request."""
        entry, non_neutral = self.entries[slot], self._given[slot]
        self.seeds[slot] = seed
        length = len(entry.history)
        self._shifts[slot] = 0 if position is None else position - length
        self.positions[slot] = length + self._shifts[slot]
        self._set_trigger(slot, trigger)
        for name in non_neutral:
            if name in self._columns:
                self._columns[name][slot] = non_neutral[name]
        self.refill(slot)

    def replace(
        self,
        slot: int,
        entry: RequestState,
        non_neutral: Mapping[str, Any],
        trigger: CheckTrigger,
        *,
        keeps_tables: bool = False,
    ) -> None:
        """Give the request in a slot other parameters, for which `entry` has the states, over the same
        history.

        keeps_tables  whether tables that are derived from the history do not depend on what changes.
        """
        for name in self._given[slot].keys() | non_neutral.keys():
            if name in self._columns:
                self._columns[name][slot] = non_neutral.get(name, self.params[name].neutral)
        self.entries[slot], self._given[slot] = entry, non_neutral
        history = entry.history
        self.pool.output_begins[slot] = len(history.prompt_token_ids)
        if not keeps_tables:
            self.pool.renew_epoch(slot)
        self.watch(slot, trigger)
        self.refill(slot)

    def watch(self, slot: int, trigger: CheckTrigger) -> None:
        """Let the stop checks of a slot run at another trigger."""
        self._watch(self._triggers[slot].token_ids, -1)
        self._set_trigger(slot, trigger)

    def count_watchers(self) -> None:
        """Find anew what all triggers watch, after a change of one that was interrupted."""
        self._watchers[:], self.watched[:] = 0, False
        self._users.clear()
        for trigger in self._triggers:
            self._watch(trigger.token_ids, 1)
        self.limits[:] = [trigger.length for trigger in self._triggers]
        self.always[:] = [trigger.always for trigger in self._triggers]

    def single(self, slot: int) -> Rows:
        """The request in a slot as the only row of a step."""
        return Rows(self, np.array([slot], np.int64))

    def remove(self, slot: int) -> None:
        """Free a slot; its columns become neutral again."""
        for name in self._given[slot]:
            if name in self._columns:
                self._columns[name][slot] = self.params[name].neutral
        self.entries[slot].history.detach()
        self.watch(slot, NO_TRIGGER)
        self.entries[slot], self._given[slot] = None, {}
        self._free.append(slot)

    def take_out(self, entry: RequestState) -> None:
        """`remove` the slot of `entry`, if it has one, after a change of it that was interrupted. Then
        `restore` must follow."""
        if entry.history.slot >= 0:
            entry.history.detach()
        if entry in self.entries:
            self.entries[self.entries.index(entry)] = None

    def restore(self) -> None:
        """Bring order into everything after an interrupted change: the `entries` count."""
        self._resize(len(self.seeds))
        self._free = [slot for slot in reversed(range(len(self.entries))) if self.entries[slot] is None]
        for slot in self._free:
            self._given[slot], self._triggers[slot] = {}, NO_TRIGGER
        for name, column in self._columns.items():
            for slot, given in enumerate(self._given):
                column[slot] = given.get(name, self.params[name].neutral)
        self.count_watchers()
        self.pool.restore([slot for slot, entry in enumerate(self.entries) if entry is not None])

    def accept(self, slot: int, token_ids: Sequence[int], notes: Notes = ()) -> None:
        """Add tokens to one slot and its states."""
        self.append(slot, token_ids, notes)
        self.entries[slot].follow(token_ids, notes)

    def append(self, slot: int, token_ids: Sequence[int], notes: Notes = ()) -> None:
        """Add tokens to one slot, but not to its eager states: `RequestState.follow` does that."""
        self.entries[slot].history.accept(token_ids, notes)
        self.positions[slot] += len(token_ids)

    def extend(self, draws: DrawnTokens, refused: Sequence[int] = ()) -> int:
        """`append` the tokens of all `draws` but those `refused`. Returns how many requests must be checked,
        as `draws.due` tells; or −1, with nothing done, if a token is not in the vocabulary."""
        if not refused:
            return self._appending.append(self, draws)
        indices, accepted = draws.without(refused)
        count = self._appending.append(self, accepted)
        draws.due.fill(False)
        draws.due[indices] = accepted.due
        return count

    def rollback(self, slot: int, n: int) -> None:
        """Undo the last `n` output tokens of a slot and its states; raises `PluginFault`."""
        self.positions[slot] -= n
        self.entries[slot].rollback(n)

    def cut(self, slot: int, length: int) -> None:
        """Bring a slot, but not its states, back to the first `length` tokens of its history."""
        self.pool.cut(slot, length)
        self.positions[slot] = length + self._shifts[slot]

    def redraw(self, slot: int, draws: int) -> None:
        """Draw the next tokens of a slot, whatever their positions, with the random numbers of its `draws`-th
        attempt: those of positions that no output reaches."""
        shift = int(self._shifts[slot])
        self._shifts[slot] = shift - (shift + ATTEMPT // 2) // ATTEMPT * ATTEMPT + draws * ATTEMPT
        self.positions[slot] = self.pool.lengths[slot] + self._shifts[slot]

    def refill(self, slot: int) -> None:
        """The states of a slot have been made anew."""
        for observer in self.observers:
            observer.filled(slot)

    def _set_trigger(self, slot: int, trigger: CheckTrigger) -> None:
        self._watch(trigger.token_ids, 1)
        self._triggers[slot] = trigger
        self.limits[slot] = trigger.length
        self.always[slot] = trigger.always

    def _watch(self, token_ids: np.ndarray, change: int) -> None:
        if not len(token_ids):
            return
        before = self._users.pop(id(token_ids), 0)
        if before + change:
            self._users[id(token_ids)] = before + change
        if not before or not before + change:
            watchers = self._watchers[token_ids] + change
            self._watchers[token_ids] = watchers
            self.watched[token_ids] = watchers > 0

    def _new_column(self, param: Param, size: int) -> np.ndarray:
        typed = {float: np.float64, int: np.int64, bool: np.bool_}
        dtype = typed.get(param.type, np.object_) if param.neutral is not None else np.object_
        column: np.ndarray = np.empty(size, dtype)
        column.fill(param.neutral)
        return column

    def _grow(self) -> None:
        size = 2 * len(self.entries)
        self._resize(size)
        self._free = list(range(size - 1, size // 2 - 1, -1))

    def _resize(self, size: int) -> None:
        """Make room for `size` slots, beginning with their seeds."""
        self.seeds = longer(self.seeds, size)
        for name, column in self._columns.items():
            self._columns[name] = longer(column, size, self.params[name].neutral)
        self.positions = longer(self.positions, size)
        self.limits = longer(self.limits, size, UNBOUNDED)
        self.always = longer(self.always, size)
        self._shifts = longer(self._shifts, size)
        self._given += [{}] * (size - len(self._given))
        self._triggers += [NO_TRIGGER] * (size - len(self._triggers))
        self.pool.resize(size)
        self.entries += [None] * (size - len(self.entries))
