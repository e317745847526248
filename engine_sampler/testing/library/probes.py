"""Samplers whose C functions look at all that such a function may see, for programs to be tried with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...backends.library.functions import SlotFunctions
from ...backends.library.header import contract, size_of
from ...contract import Param, Rows, Sampler, SlotTable
from ..row_functions import bits_of_row

FINE, FAILS, GIVES_INFINITY, GIVES_NAN, LEAVES_NOTHING = range(5)
"""What a probe does to a row: FAILS in C alone."""

_WORD = (1 << 64) - 1
_PRIME, _GOLDEN = 0x100000001B3, 0x9E3779B97F4A7C15
_DRAWS = (0, 5)
"""Which of a row's random numbers it uses."""


class ProbeState:
    """The output tokens that it has followed. In memory for C: how many, and a sum over them."""

    def __init__(self, tokens: Sequence[int] = ()) -> None:
        self.tokens = list(tokens)
        self.memory = np.zeros(2, np.int64)
        self.write()

    def write(self) -> None:
        """Bring the memory up to date."""
        self.memory[:] = len(self.tokens), sum((i + 1) * (token + 1) for i, token in enumerate(self.tokens))


@dataclass
class Calls:
    """What one step's calls of a probe must be told, and what they were told.

    rows      the row of the logits of each slot in the batch.
    breaches  what was not as it must be.
    failed    the slots for which the function has reported a failure.
    """

    rows: Mapping[int, int] = field(default_factory=dict)
    breaches: list[str] = field(default_factory=list)
    failed: set[int] = field(default_factory=set)


class Probe(Sampler):
    """Shift and remove tokens by a hash of all that a function may know of its row."""

    def __init__(self, name: str, slots: SlotTable) -> None:
        self.name = name  # type: ignore[misc]
        self.params = _params(name)  # type: ignore[misc]
        self.calls = Calls()
        self.user = contract().new("char[1]")
        self._slots = slots
        self._callback = contract().callback("es_row_function", self._row_function, error=1)
        self.row_function = int(contract().cast("uintptr_t", self._callback))  # type: ignore[misc]

    def new_state(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray) -> ProbeState:
        return ProbeState()

    def accept(self, state: ProbeState, token_ids: Sequence[int]) -> None:
        state.tokens.extend(token_ids)
        state.write()

    def rollback(self, state: ProbeState, n: int) -> None:
        del state.tokens[len(state.tokens) - n :]
        state.write()

    def fork(self, state: ProbeState) -> ProbeState:
        return ProbeState(state.tokens)

    def row_state(self, state: ProbeState) -> int:
        return int(state.memory.ctypes.data)

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        values = np.array([rows[param.name] for param in self.params], np.float64).T
        draws = np.array([rows.draw(index) for index in _DRAWS], np.uint64).T.tolist()
        for i, row in enumerate(logits):
            prompt, output = rows.prompt_token_ids(i), rows.output_token_ids(i)
            facts = _Facts(
                self.stream,
                rows.vocabulary.size,
                int(rows.seed[i]),
                int(rows.position[i]),
                np.concatenate([prompt, output]).astype(np.int64),
                len(prompt),
                values[i],
                draws[i],
                rows.states[i].memory,
            )
            ids = np.arange(len(row)) if rows.ids is None else rows.ids[i]
            _change(row, ids, facts, FINE if values[i][3] == FAILS else int(values[i][3]))

    # --- as the library calls it -------------------------------------------------------------------

    def _row_function(self, row: Any, logits: Any, ids: Any, n: int, state: Any) -> int:
        try:
            return self._answer(row, logits, ids, n, state)
        except Exception as error:  # what is told may be anything
            self.calls.breaches.append(f"a function of the host cannot read what it is told: {error!r}")
            return 1

    def _answer(self, row: Any, logits: Any, ids: Any, n: int, state: Any) -> int:
        ffi = contract()
        values = np.array([row.values[k] for k in range(len(self.params))]) if row.values else np.zeros(4)
        tokens = np.array([row.token_ids[k] for k in range(row.length)], np.int64)
        memory = ffi.cast("int64_t *", state)
        facts = _Facts(
            row.stream,
            row.vocab_size,
            row.seed,
            row.position,
            tokens,
            row.prompt_length,
            values,
            [row.draw(row, index) for index in _DRAWS],
            np.array([memory[0], memory[1]] if memory else [-1, -1], np.int64),
        )
        given = np.frombuffer(ffi.buffer(logits, 4 * n), np.float32)
        columns = np.frombuffer(ffi.buffer(ids, 4 * n), np.int32) if ids else np.arange(n)
        self._compare(row, columns, facts, bool(ids))
        _change(given, columns, facts, int(values[3]))
        if int(values[3]) == FAILS:
            self.calls.failed.add(int(row.slot))
            return 7
        return 0

    def _compare(self, row: Any, columns: np.ndarray, facts: _Facts, named: bool) -> None:
        """Note what differs from what the slot of the row holds."""
        slots, slot, wrong = self._slots, int(row.slot), self.calls.breaches
        if slot not in self.calls.rows:
            wrong.append(f"a function of the host is called for slot {slot}, which is not in the batch")
            return
        entry = slots.entries[slot]
        right = _Facts(
            self.stream,
            slots.vocabulary.size,
            int(slots.seeds[slot]),
            int(slots.positions[slot]),
            entry.history.token_ids,
            int(slots.prompt_lengths[slot]),
            np.array([slots.column(param.name)[slot] for param in self.params], np.float64),
            bits_of_row(int(slots.seeds[slot]), int(slots.positions[slot]), self.stream, _DRAWS),
            entry.state(self.name).memory,
        )
        wrong += [f"a function of the host is given another {name}" for name in facts.differences(right)]
        if row.size < size_of("es_row"):
            wrong.append(f"a function of the host is given an es_row of {row.size} bytes")
        if row.row != self.calls.rows[slot]:
            wrong.append(f"a function of the host is given row {row.row}, not {self.calls.rows[slot]}")
        if row.user != self.user:
            wrong.append("a function of the host is not given the `user` of its op")
        ascending = bool((columns[1:] > columns[:-1]).all())
        inside = len(columns) > 0 and columns[0] >= 0 and columns[-1] < slots.vocabulary.size
        if not (ascending and inside) or (not named and len(columns) != slots.vocabulary.size):
            wrong.append(
                "a function of the host is given ids that are not ascending tokens, one for each logit"
            )


@dataclass(frozen=True)
class _Facts:
    """What a function may know of its row."""

    stream: int
    vocabulary: int
    seed: int
    position: int
    tokens: np.ndarray
    prompt: int
    values: np.ndarray
    draws: Sequence[int]
    state: np.ndarray

    def differences(self, other: _Facts) -> list[str]:
        """The names of what is not the same."""
        names = []
        for name, words in _FACTS.items():
            mine, its = getattr(self, name), getattr(other, name)
            same = np.array_equal(mine, its) if isinstance(mine, np.ndarray) else mine == its
            if not same:
                names.append(words)
        return names

    def hashed(self) -> int:
        """All of it in 64 bits."""
        numbers = [self.stream, self.vocabulary, self.seed, self.position, self.prompt, len(self.tokens)]
        numbers += [*self.tokens[-20:].tolist(), *self.tokens[:3].tolist(), *self.draws, *self.state.tolist()]
        numbers += (self.values[:3] + 0.0).view(np.int64).tolist()
        mixed = _GOLDEN
        for number in numbers:
            mixed = ((mixed ^ (number & _WORD)) * _PRIME + (mixed >> 31)) & _WORD
        return mixed ^ mixed >> 33


_FACTS = {
    "stream": "random stream",
    "vocabulary": "vocabulary size",
    "seed": "seed",
    "position": "position",
    "tokens": "history",
    "prompt": "length of the prompt",
    "values": "row of parameters",
    "draws": "random number",
    "state": "state",
}


def _change(row: np.ndarray, ids: np.ndarray, facts: _Facts, outcome: int) -> None:
    mixed = facts.hashed()
    hashes = (ids.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN) ^ np.uint64(mixed)
    alive = np.flatnonzero(row > -np.inf)
    steps = (hashes >> np.uint64(23) & np.uint64(7)).astype(np.float32) * np.float32(0.25)
    best = int(np.argmax(row))
    if outcome == FAILS:
        steps = -steps
    row[alive] += steps[alive]
    if mixed & 1:
        gone = alive[(hashes[alive] >> np.uint64(40) & np.uint64(3)) == 0]
        row[gone[gone != best]] = -np.inf
    if outcome in _SPOILED:
        row[alive if outcome == LEAVES_NOTHING else best] = _SPOILED[outcome]


_SPOILED = {GIVES_INFINITY: np.inf, GIVES_NAN: np.nan, LEAVES_NOTHING: -np.inf}


@contextlib.contextmanager
def watched(probes: Sequence[Probe], rows: Mapping[int, int]) -> Iterator[Calls]:
    """Watch the calls of `probes` during a step; `rows` are the rows of the logits by slot."""
    calls = Calls(rows)
    for probe in probes:
        probe.calls = calls
    yield calls


class ProbeFunctions(SlotFunctions):
    """The functions of requests whose programs have probes."""

    def fill(self, op: Any, sampler: Sampler) -> None:
        """Complete the `es_op` of `sampler`, with something for `user`."""
        super().fill(op, sampler)
        if isinstance(sampler, Probe):
            op.user = sampler.user


NAMES = ("probe", "bystander")
"""Each has a stream and parameters of its own."""


def _params(name: str) -> tuple[Param, ...]:
    return (
        Param(f"{name}_level", float, 0.0),
        Param(f"{name}_number", int, 0),
        Param(f"{name}_flag", bool, False),
        Param(f"{name}_outcome", int, FINE, low=FINE, high=LEAVES_NOTHING, switch=False),
    )


PROBE_PARAMS: Mapping[str, Param] = {param.name: param for name in NAMES for param in _params(name)}
"""The parameters of all probes, by name."""
