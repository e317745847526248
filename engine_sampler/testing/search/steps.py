"""Random steps for backends: groups of any size, logits of every type, masks, logprobs, long histories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arithmetic import LogitRows, Logprobs
from ...backends.hosted import supports_all
from ...backends.numpy import NumpyBackend
from ...contract import LOGPROBS_KINDS, Backend, Batch, Chain, Group, LogprobsRequest, ParameterError, Rows
from ...params import SamplingParams, build_chain
from ...requests.history import History
from ...requests.slots import Slots
from ...requests.state import RequestState
from ..backend_trials import BackendTrials
from ..batches import RowResults, new_batch, packed, results_of
from ..chains import (
    known_params_of_chains,
    not_neutral,
    random_settings,
    values_of_chain,
    vocabulary_of,
    with_foreign,
)
from .drawing import draw_history, draw_row, draw_seed, draw_size, draw_sizes
from .machine import RandomMachine

MOST_GROUPS = 5
LENGTH = 6
"""The events of one sequence."""

MOST_ROWS, CELLS = 60, 60_000

_LAYOUTS = ("of float32", "of float16", "of bfloat16", "backwards", "read-only", "equal")
_FAULTS = (np.nan, np.inf, 2.0**101)


@dataclass
class _Room:
    """The requests of one chain: its settings, the parameters by name, those that are given, and slots."""

    own: Mapping[str, Any]
    chain: Chain
    values: Mapping[str, Any]
    given: Mapping[str, Any]
    numbers: list[int]


class StepMachine(RandomMachine):
    """Requests of a few chains in the same slots, and steps of theirs.

    number  of the sequence, which says how large the vocabulary is, and whether there are many rows.
    """

    events = ("step", "change")

    def __init__(self, laws: BackendTrials, number: int) -> None:
        super().__init__()
        self._laws, self._number = laws, number
        self.rooms: list[_Room] = []

    def begin(self) -> None:
        random = self.random
        sizes = *draw_sizes(random), draw_size(random, most=3000)
        self._size = size = sizes[self._number % len(sizes)]
        self._slots = Slots(vocabulary_of(size), known_params_of_chains(), capacity=2)
        most = MOST_ROWS if self._number % 3 else 10 * MOST_ROWS
        rows = int(random.integers(3, max(3, min(most, CELLS // size)) + 1))
        groups = int(random.integers(1, MOST_GROUPS + 1))
        for share in random.multinomial(rows, random.dirichlet(np.ones(groups))).tolist():
            room = self._room()
            if room is not None and share:
                try:
                    room.numbers = [self._opened(room) for _ in range(share)]
                except ParameterError:  # ids that a small vocabulary lacks
                    continue
                self.rooms.append(room)

    # --- steps -----------------------------------------------------------------------------------

    def step(self) -> None:
        if not self.rooms:
            return
        random = self.random
        counts = [len(room.numbers) for room in self.rooms]
        total = sum(counts) + int(random.integers(0, 4))
        places = random.permutation(total)
        rows = np.stack([draw_row(random, self._size)[1] for _ in range(total)])
        for row in np.flatnonzero(random.random(total) < 0.05):
            rows[row, int(random.integers(self._size))] = _FAULTS[int(random.integers(len(_FAULTS)))]
        bits = random.random((total, self._size)) < random.choice([0.02, 0.5, 0.98])
        bits[np.arange(total), random.integers(0, self._size, total)] = True
        mask = packed(bits) if random.random() < 0.6 else None
        masked = random.random(len(counts)) < 0.7
        wanted = random.random(len(counts)) < 0.5
        indices = np.split(places[: sum(counts)], np.cumsum(counts)[:-1])
        logits, layout = self._laid_out(rows)

        def groups(backend: Backend, all_wanted: bool) -> list[Group]:
            return [
                Group(
                    backend.compile(room.chain),
                    index,
                    Rows(self._slots, np.array(room.numbers, np.int64)),
                    masked=bool(masked[g]) and mask is not None,
                    want_processed=all_wanted or bool(wanted[g]),
                    edits=backend.compile(room.chain.edits_only()),
                    want_survivors=bool(wanted[g]) and g % 2 == 0,
                )
                for g, (room, index) in enumerate(zip(self.rooms, indices, strict=True))
            ]

        reference, backend = NumpyBackend(), self._laws.backend
        plain = groups(reference, True)
        expected = new_batch(LogitRows(logits, self._size), plain, mask)
        reference.run(expected)
        inexact = not backend.exact
        where, own, cache = (
            f"in a random step, for logits {layout}",
            groups(backend, inexact),
            dict[Any, Any](),
        )
        kinds, top_n = self._wanted_logprobs(total)
        for _ in range(2):
            batch = new_batch(self._laws.given(logits), own, mask)
            batch.cache, batch.logprobs = cache, _request(kinds, top_n, self._size)
            before = [array.copy() for array in (batch.logits.array, mask) if array is not None]
            backend.run(batch)
            after = [array for array in (batch.logits.array, mask) if array is not None]
            for name, now, then in zip(("the logits", "the mask"), after, before, strict=False):
                assert now.tobytes() == then.tobytes(), f"{backend.name} writes to {name} {where}, {self}"
            self._compare(batch, expected, wanted, where)
            if batch.logprobs is not None:
                self._compare_logprobs(batch, batch.logprobs, plain, results_of(expected), where)
            where += ", run again with its cache"

    def _laid_out(self, rows: np.ndarray) -> tuple[Any, str]:
        """The rows in one of the types and layouts that a caller may use."""
        random, (n, size) = self.random, rows.shape
        padding = int(random.integers(1, 9)) if random.random() < 0.3 else 0
        wide = np.pad(rows, ((0, 0), (0, padding)), constant_values=50)
        kind = str(random.choice(_LAYOUTS))
        if kind == "of bfloat16" and self._laws.takes_bits:
            return LogitRows.from_bfloat16_bits((wide.view(np.uint32) >> 16).astype(np.uint16), size), kind
        if kind == "of float16":
            with np.errstate(over="ignore"):
                halves = np.where(np.abs(wide) < 6e4, wide, np.where(wide < 0, -np.inf, 6e4))
            halves[np.isnan(wide)] = np.nan
            return halves.astype(np.float16), kind
        if kind == "backwards":
            return np.ascontiguousarray(wide[::-1])[::-1], kind
        if kind == "equal" and n > 1:
            return np.broadcast_to(wide[int(random.integers(n))], wide.shape), "all of them one row"
        if kind == "read-only":
            wide.flags.writeable = False
        return wide, kind if kind == "read-only" else "of float32"

    def _wanted_logprobs(self, total: int) -> tuple[np.ndarray, np.ndarray]:
        """The kinds of logprobs that each row needs, at times none, and how many others each lists."""
        top_n = self.random.choice([-1, 0, 1, 5], total) if self._size <= 3000 else np.full(total, 3)
        most = 1 if self.random.random() < 0.3 else 1 << len(LOGPROBS_KINDS)
        return self.random.integers(0, most, total).astype(np.uint8), top_n.astype(np.int64)

    def _compare(self, batch: Batch, expected: Batch, wanted: np.ndarray, where: str) -> None:
        actual, right = results_of(batch), results_of(expected)
        reported = np.zeros(len(right.errors), bool) if batch.logprobs is None else batch.logprobs.done
        silent = [
            int(row)
            for group, want in zip(batch.groups, wanted, strict=True)
            for row in group.index
            if self._laws.backend.exact
            and not (want and group.want_survivors)
            and (not want or (reported[row] and row not in actual.processed))
        ]
        hide = {row: right.processed[row] for row in silent if row in right.processed}
        actual = RowResults(actual.token_ids, actual.notes, actual.errors, {**actual.processed, **hide})
        self._laws.expect(self, actual, right, where)
        for row, token in enumerate(right.token_ids.tolist()):
            if token < 0 and right.errors[row] is None:
                touched = actual.token_ids[row] != -1 or actual.errors[row] is not None
                assert not touched, f"row {row}, which no group names, is filled {where}, {self}"

    def _compare_logprobs(
        self, batch: Batch, request: LogprobsRequest, plain: list[Group], right: RowResults, where: str
    ) -> None:
        for group in plain:
            for i, row in enumerate(group.index.tolist()):
                if not request.done[row] or right.errors[row] is not None:
                    continue
                k, token = int(request.top_n[row]), int(batch.token_ids[row])
                raw, survivors = batch.logits.row(row), right.processed[row]
                words = batch.bitmask[row] if group.masked and batch.bitmask is not None else None
                expected = self._laws.logprobs_of_reference(group, i, raw, token, k, survivors, words)
                for kind, (name, answer) in enumerate(zip(LOGPROBS_KINDS, expected, strict=True)):
                    table = request.out[kind]
                    if table is not None and request.kinds[row] >> kind & 1:
                        self._laws.expect_logprobs(self, table, row, answer, f"{name} logprobs {where}")

    # --- requests --------------------------------------------------------------------------------

    def _room(self) -> _Room | None:
        """A random chain that the backend runs, without requests; None if this one is not supported."""
        settings = random_settings(self.random)
        if self.rooms and self.random.random() < 0.6:
            settings = self._like_another(settings)
        params = SamplingParams(**settings)
        number = int(self.random.integers(12))
        chain, own = with_foreign(build_chain(params), number, self.random)
        backend = self._laws.backend
        if not backend.hosts_the_rest and not supports_all(backend, chain):
            return None
        values = values_of_chain(params, own)
        return _Room(settings, chain, values, not_neutral(values, self._slots.params), [])

    def _like_another(self, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings of another chain, with some of `settings`; `settings` if they do not fit together."""
        other = self.rooms[int(self.random.integers(len(self.rooms)))].own
        names = self.random.permutation(list(settings))[: int(self.random.integers(0, 3))].tolist()
        less = self.random.permutation(list(other))[: int(self.random.integers(0, 2))].tolist()
        both = {**other, **{name: settings[name] for name in names}}
        both = {name: value for name, value in both.items() if name not in less}
        try:
            SamplingParams(**both)
        except ParameterError:
            return settings
        return both

    def _opened(self, room: _Room) -> int:
        most = 400 if self.random.random() < 0.2 else 60
        prompt, output = (draw_history(self.random, self._size, most) for _ in range(2))
        state = RequestState(room.chain, History(prompt, output))
        state.open(room.values, self._slots.vocabulary)
        return self._slots.put(state, room.given, draw_seed(self.random))

    def change(self) -> None:
        """Requests continue, roll back, fork and change their slots."""
        for room in self.rooms:
            self._change(room)

    def _change(self, room: _Room) -> None:
        random, slots = self.random, self._slots
        for place, slot in enumerate(room.numbers):
            event = random.random()
            if event < 0.5:
                tokens = draw_history(random, self._size, 12) or (0,)
                slots.accept(slot, list(tokens), random.uniform(0, 9, len(tokens)).tolist())
            elif event < 0.7:
                length = slots.entries[slot].history.output_length
                slots.rollback(slot, int(random.integers(length + 1)))
            elif event < 0.8:
                room.numbers[place] = slots.put(slots.entries[slot].fork(), room.given, draw_seed(random))
                slots.remove(slot)
            elif event < 0.9:
                slots.remove(slot)
                room.numbers[place] = self._opened(room)

    def __str__(self) -> str:
        chains = "; ".join(f"{len(room.numbers)} × {room.chain}" for room in self.rooms)
        settings = {name: value for room in self.rooms for name, value in room.given.items()}
        return f"vocabulary {self._size}, chains {chains}, params {settings}"


def _request(kinds: np.ndarray, top_n: np.ndarray, size: int) -> LogprobsRequest | None:
    """The request for these logprobs, with empty tables; None if no row needs any."""
    if not kinds.any():
        return None
    starts = np.cumsum([0, *(1 + np.where(top_n < 0, size, top_n))])
    raw, penalized, processed = (
        Logprobs.with_room(starts) if (kinds >> kind & 1).any() else None
        for kind in range(len(LOGPROBS_KINDS))
    )
    return LogprobsRequest(kinds, top_n, (raw, penalized, processed), np.zeros(len(kinds), bool))
