"""Parameters at the value at which a result changes: the last float64 before, and the first one after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arithmetic import LogitRows
from ...backends.library.binding import Library
from ...backends.library.programs import Part
from ...contract import Chain, Sampler, Selector
from .bench import RequestTokens, Room, Tally, expected_of, observed_problem, parts_of
from .observing import LibraryStep
from .random_steps import Repertoire, random_row, random_tokens
from .settings import Random, random_settings, random_value

_SEEDS = 4
"""Draws that are tried with each value."""

_ROWS, _GUESSES, _HALVINGS = 3, 5, 70

_NOTE = "the last note"
"""A number that belongs to no parameter, but moves the state of a selector."""


_WITHOUT_NOTES = ("greedy", "dist")


@dataclass(frozen=True)
class _Question:
    """A row and a request with one number left open."""

    room: Room
    chain: Chain
    drawn: dict[str, Any]
    tokens: RequestTokens
    row: np.ndarray
    seeds: Sequence[int]
    name: str

    def step(self, values: Sequence[float]) -> LibraryStep:
        """Requests with each of `values`, one for each seed."""
        slots = [self._open(value, seed) for value in values for seed in self.seeds]
        logits = LogitRows(np.tile(self.row, (len(slots), 1)), self.room.size)
        return self.room.step([self.room.group_of(self.chain, slots, np.arange(len(slots)))], logits)

    def outcome(self, value: float) -> tuple[Any, ...]:
        """What the reference gives: tokens, and which are left, but not their logits."""
        step = self.step([value])
        batch = expected_of(step)
        for slot in step.slot_numbers.tolist():
            self.room.slots.remove(slot)
        left = [ids.tobytes() for ids, _ in batch.survivors.values()]
        return batch.token_ids.tolist(), [error is None for error in batch.errors], left

    def _open(self, value: float, seed: int) -> int:
        if self.name == _NOTE:
            notes = [*self.tokens.notes[:-1], value]
            tokens = RequestTokens(self.tokens.prompt, self.tokens.output, notes)
            return self.room.open(self.chain, self.drawn, tokens, seed)
        return self.room.open(self.chain, {**self.drawn, self.name: value}, self.tokens, seed)


def boundary_steps(library: Library, known: Repertoire, number: int, tally: Tally) -> Iterator[str | None]:
    """A number of a sampler or selector at a boundary; each has its turn."""
    random, targets = np.random.default_rng([8, number]), _targets(known)
    if not targets:
        return
    part, name = targets[number % len(targets)]
    room = Room(library, int(random.choice([2, 9, 60, 300, 700])))
    chain = _chain_with(random, part, known)
    if not room.promises(parts_of(chain)):
        return
    values = None
    for _ in range(_ROWS):
        question = _question(random, room, chain, name)
        values = _boundary(random, question)
        if values is not None:
            problem = observed_problem(room, question.step(values), tally)[0]
            yield None if problem is None else f"{name} at {values[0]!r} and {values[1]!r}: {problem}"
            return


def _targets(known: Repertoire) -> list[tuple[Part, str]]:
    parts: list[Part] = [*known.others, *known.selectors]
    targets = [(part, param.name) for part in parts for param in part.params if param.type is float]
    return targets + [(part, _NOTE) for part in known.selectors if part.name not in _WITHOUT_NOTES]


def _chain_with(random: Random, part: Part, known: Repertoire) -> Chain:
    """A chain of `part`, and in some cases of another sampler before it."""
    before: tuple[Sampler, ...] = ()
    if known.others and random.random() < 0.3:
        before = (known.others[int(random.integers(len(known.others)))],)
    if isinstance(part, Selector):
        return Chain(before, part)
    drawing = [selector for selector in known.selectors if selector.name == "dist"]
    return Chain((*before, part), (drawing or known.selectors)[0])


def _question(random: Random, room: Room, chain: Chain, name: str) -> _Question:
    n = int(random.integers(1, 12))
    tokens = RequestTokens(
        random_tokens(random, room.size, n),
        random_tokens(random, room.size, n),
        random.uniform(0, 9, n).tolist(),
    )
    drawn = random_settings(random, parts_of(chain), room.known, room.size)
    row = random_row(random, room.size).astype(np.float32)
    return _Question(room, chain, drawn, tokens, row, random.integers(0, 2**63, _SEEDS).tolist(), name)


def _boundary(random: Random, question: _Question) -> tuple[float, float] | None:
    """Neighbouring numbers with different outcomes, if some guesses have any."""
    first = _guess(random, question)
    outcome = question.outcome(first)
    for _ in range(_GUESSES):
        second = _guess(random, question)
        if question.outcome(second) != outcome:
            break
    else:
        return None
    for _ in range(_HALVINGS):
        middle = first + (second - first) / 2
        if middle in (first, second):
            break
        if question.outcome(middle) == outcome:
            first = middle
        else:
            second = middle
    return first, second


def _guess(random: Random, question: _Question) -> float:
    if question.name == _NOTE:
        return float(random.uniform(-60, 120))
    return float(random_value(random, question.room.known[question.name], question.room.size))
