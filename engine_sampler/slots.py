"""The state of the live requests: struct-of-arrays for what is read every step, a slot for the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .contract import Param, Sampler, Selector, Vocabulary

TokenIds = Sequence[int] | np.ndarray


class StateFault(Exception):
    """A sampler or selector failed to follow its request; the text says which one and why."""


class History:
    """Prompt and output ids of one request in one growing array."""

    __slots__ = ("_buffer", "_length", "_prompt")

    def __init__(self, prompt_token_ids: TokenIds, output_token_ids: TokenIds = ()) -> None:
        self._prompt = len(prompt_token_ids)
        self._length = self._prompt + len(output_token_ids)
        self._buffer = np.empty(max(64, 2 * self._length), np.int64)
        self._buffer[: self._prompt] = prompt_token_ids
        self._buffer[self._prompt : self._length] = output_token_ids

    def __len__(self) -> int:
        return self._length

    @property
    def token_ids(self) -> np.ndarray:
        return self._buffer[: self._length]

    @property
    def prompt_token_ids(self) -> np.ndarray:
        return self._buffer[: self._prompt]

    @property
    def output_token_ids(self) -> np.ndarray:
        return self._buffer[self._prompt : self._length]

    def accept(self, token_ids: TokenIds) -> None:
        end = self._length + len(token_ids)
        if end > len(self._buffer):
            self._buffer = np.concatenate([self._buffer, np.empty(end, np.int64)])
        self._buffer[self._length : end] = token_ids
        self._length = end

    def rollback(self, n: int) -> None:
        self._length -= n

    def fork(self) -> History:
        return History(self.prompt_token_ids, self.output_token_ids)


class Slot:
    """One live request: its history, and the states of its samplers and selector by name."""

    __slots__ = ("chain", "history", "resolved", "states")

    def __init__(self, chain: Any, history: History) -> None:
        self.chain = chain
        self.history = history
        self.states: dict[str, Any] = {}
        self.resolved: dict[str, Any] = {}

    def open(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> None:
        """Resolve and make the states of all samplers, and bring them up to the history."""
        prompt, output = self.history.prompt_token_ids, self.history.output_token_ids.tolist()
        for sampler in self.chain.samplers:
            self.resolved[sampler.name] = sampler.resolve(params, vocabulary)
        for part in self.parts():
            state = part.new_state(params, prompt)
            self.states[part.name] = state
            if output and state is not None:
                part.accept(state, output)

    def parts(self) -> Iterable[Sampler | Selector]:
        yield from self.chain.samplers
        yield self.chain.selector

    def accept(self, token_ids: Sequence[int], notes: Sequence[float | None] = ()) -> None:
        """Add tokens to the history and to every state; `notes` are the selector's."""
        self.history.accept(token_ids)
        selector = self.chain.selector
        part: Sampler | Selector = selector
        try:
            if (state := self.states[selector.name]) is not None:
                selector.accept(state, token_ids, notes or [None] * len(token_ids))
            for part in self.chain.samplers:
                if (state := self.states[part.name]) is not None:
                    part.accept(state, token_ids)
        except Exception as error:
            raise StateFault(f"{part.name} failed: {type(error).__name__}: {error}") from error

    def rollback(self, n: int) -> None:
        """Take the last `n` output tokens back, everywhere."""
        for part in self.parts():
            if (state := self.states[part.name]) is not None:
                part.rollback(state, n)
        self.history.rollback(n)

    def fork(self) -> Slot:
        """An independent copy."""
        child = Slot(self.chain, self.history.fork())
        child.resolved = self.resolved
        for part in self.parts():
            state = self.states[part.name]
            child.states[part.name] = None if state is None else part.fork(state)
        return child


class Slots:
    """All slots of a scheduler: parameter columns, seeds and positions as arrays over slot numbers."""

    def __init__(self, vocabulary: Vocabulary, params: Mapping[str, Param], capacity: int = 64) -> None:
        self.vocabulary = vocabulary
        self.seeds = np.zeros(capacity, np.uint64)
        self.positions = np.zeros(capacity, np.int64)
        self.entries: list[Any] = [None] * capacity
        self._params = params
        self._columns: dict[str, np.ndarray] = {}
        self._given: list[Mapping[str, Any]] = [{}] * capacity
        self._free = list(range(capacity - 1, -1, -1))

    def column(self, name: str) -> np.ndarray:
        """The values of parameter `name` for every slot number; neutral where not given."""
        column = self._columns.get(name)
        if column is None:
            column = self._new_column(self._params[name], len(self.entries))
            for slot, given in enumerate(self._given):
                if name in given:
                    column[slot] = given[name]
            self._columns[name] = column
        return column

    def put(self, entry: Slot, given: Mapping[str, Any], seed: int, position: int | None = None) -> int:
        """Take a slot for `entry` with the non-neutral parameters `given`; its number."""
        if not self._free:
            self._grow()
        slot = self._free.pop()
        self.entries[slot] = entry
        self._given[slot] = given
        self.seeds[slot] = seed
        self.positions[slot] = len(entry.history) if position is None else position
        for name in given:
            if name in self._columns:
                self._columns[name][slot] = given[name]
        return slot

    def remove(self, slot: int) -> None:
        """Free a slot; its columns become neutral again."""
        for name in self._given[slot]:
            if name in self._columns:
                self._columns[name][slot] = self._params[name].neutral
        self.entries[slot], self._given[slot] = None, {}
        self._free.append(slot)

    def accept(self, slot: int, token_ids: Sequence[int], notes: Sequence[float | None] = ()) -> None:
        self.entries[slot].accept(token_ids, notes)
        self.positions[slot] += len(token_ids)

    def rollback(self, slot: int, n: int) -> None:
        self.entries[slot].rollback(n)
        self.positions[slot] -= n

    def _new_column(self, param: Param, size: int) -> np.ndarray:
        typed = {float: np.float64, int: np.int64, bool: np.bool_}
        dtype = typed.get(param.type, np.object_) if param.neutral is not None else np.object_
        column: np.ndarray = np.empty(size, dtype)
        column.fill(param.neutral)
        return column

    def _grow(self) -> None:
        size = len(self.entries)
        self.seeds = np.concatenate([self.seeds, np.zeros(size, np.uint64)])
        self.positions = np.concatenate([self.positions, np.zeros(size, np.int64)])
        self.entries += [None] * size
        self._given += [{}] * size
        for name, column in self._columns.items():
            self._columns[name] = np.concatenate([column, self._new_column(self._params[name], size)])
        self._free = list(range(2 * size - 1, size - 1, -1))
