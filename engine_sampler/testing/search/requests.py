"""Requests that come and go in random order, each beside a model: a fresh plugin that has only this one."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...contract import Rows, Sampler, UnfinishedError, Vocabulary, Work
from ...requests.history import History
from ...requests.slots import Slots
from ...requests.state import RequestState
from ..bounded import LEAST
from ..cases import Case
from ..single import chain_of, known_params, settings
from .drawing import draw_depth, draw_history, draw_row, draw_seed
from .machine import RandomMachine
from .surroundings import anywhere, quiet

LENGTH = 18
"""The events of one sequence."""

_MOST_LIVE = 9


@dataclass
class _Request:
    """One request: the slot that it has, and all that its result may depend on."""

    slot: int
    given: Mapping[str, Any]
    prompt: tuple[int, ...]
    seed: int
    output: list[int] = field(default_factory=list)
    notes: list[Any] = field(default_factory=list)


class RequestMachine(RandomMachine):
    """Live requests for a kit's sampler or selector, and what happens to them.

    kit     the contract kit; `kit.part` serves all requests.
    fresh   gives a part that has never been used, for the model.
    number  of the sequence; every seventh one has a large vocabulary.
    """

    events = ("step",) * 8 + ("join", "accept", "rollback") * 3 + ("fork", "leave") * 2

    def __init__(self, kit: Any, fresh: Callable[[], Any], number: int) -> None:
        super().__init__()
        self._kit, self._fresh, self._number = kit, fresh, number
        self._requests: list[_Request] = []

    def call(self, work: Callable[[], None]) -> None:
        anywhere(self.random, work)

    def begin(self) -> None:
        self._size = self._kit.drawn_sizes(self.random)[(0, 1, 0, 0, 1, 0, 2)[self._number % 7]]
        self._params = self._kit.mixed_params(self.random)
        self._tokenizer = self._kit.tokenizer(self._size)
        self._slots = self._new_slots(capacity=2)
        self.join()

    def join(self) -> None:
        for _ in range(int(self.random.integers(1, 4))):
            if len(self._requests) < _MOST_LIVE:
                self._join()

    def step(self) -> None:
        """A step of some requests, in any order; most continue with what they get."""
        if self._requests:
            which = self.random.permutation(len(self._requests))
            some = which[: int(self.random.integers(1, len(which) + 1))]
            self._step_of([self._requests[int(i)] for i in some])

    def accept(self) -> None:
        """Tokens that were chosen elsewhere, several at once."""
        for request in self._any():
            tokens = list(draw_history(self.random, self._size, 40))
            if tokens:
                self._continue(request, tokens, [None] * len(tokens))

    def rollback(self) -> None:
        for request in self._any():
            n = draw_depth(self.random, len(request.output))
            self._slots.rollback(request.slot, n)
            del request.output[len(request.output) - n :], request.notes[len(request.notes) - n :]
            self._step_of([request])

    def fork(self) -> None:
        for parent in self._any() if len(self._requests) < _MOST_LIVE else ():
            child = copy.copy(parent)
            child.output, child.notes = parent.output.copy(), parent.notes.copy()
            child.seed = draw_seed(self.random)
            values = settings(self._kit.part, parent.given)
            child.slot = self._slots.put(self._slots.entries[parent.slot].fork(), values, child.seed)
            self._requests.append(child)
            self._step_of([child, parent])

    def leave(self) -> None:
        for request in self._any():
            self._slots.remove(request.slot)
            self._requests.remove(request)

    # --- helpers ---------------------------------------------------------------------------------

    def _any(self) -> Sequence[_Request]:
        """One of the requests, if there is one."""
        return [self._requests[int(self.random.integers(len(self._requests)))]] if self._requests else []

    def _join(self) -> None:
        given = self._params[int(self.random.integers(len(self._params)))]
        request = _Request(-1, given, draw_history(self.random, self._size, 80), draw_seed(self.random))
        most = int(self.random.choice([10, 100, 100, 600, 600, 2500]))
        request.output = list(draw_history(self.random, self._size, most))
        request.notes = [None] * len(request.output)
        request.slot = self._opened(self._slots, self._kit.part, request, request.output)
        self._requests.append(request)

    def _step_of(self, some: Sequence[_Request]) -> None:
        """A step of these requests, each compared with its model."""
        kinds, rows = zip(*(draw_row(self.random, self._size) for _ in some), strict=True)
        case = Case(
            np.stack(rows),
            kinds,
            tuple(request.given for request in some),
            tuple(request.prompt for request in some),
            tuple(tuple(request.output) for request in some),
            tuple(request.seed for request in some),
        )
        if self.random.random() < 0.5:
            self._prepare(some)
        bound = self._rows(self._slots, self._kit.part, [request.slot for request in some])
        if self.random.random() < 0.3:
            logits, ids = case.compact(case.alive, int(self.random.integers(3)))
            outcome = self._kit.outcome(logits, bound.take(slice(None), ids).bind(self._kit.part))
        else:
            outcome = self._kit.outcome(case.logits, bound)
        models = [self._of_model(request, row) for request, row in zip(some, case.logits, strict=True)]
        case.expect_equal(outcome, np.concatenate(models), f"beside others, after {self.recent()}")
        token_ids, notes = self._kit.accepted(outcome, bound)
        for i, request in enumerate(some):
            if self.random.random() < 0.8:
                self._continue(request, [int(token_ids[i])], [notes[i]])

    def _prepare(self, some: Sequence[_Request]) -> None:
        """Let a sampler prepare with little work, which may not suffice."""
        if isinstance(self._kit.part, Sampler):
            for request in some:
                rows = self._rows(self._slots, self._kit.part, [request.slot])
                with contextlib.suppress(UnfinishedError), quiet():
                    self._kit.part.prepare(rows, Work(LEAST, LEAST))

    def _continue(self, request: _Request, token_ids: list[int], notes: list[Any]) -> None:
        self._slots.accept(request.slot, token_ids, notes)
        request.output += token_ids
        request.notes += notes

    def _of_model(self, request: _Request, row: np.ndarray) -> np.ndarray:
        """The outcome of a fresh part for a request that has always been alone."""
        part, slots = self._fresh(), self._new_slots(capacity=1)
        slot = self._opened(slots, part, request, ())
        if request.output:
            slots.accept(slot, request.output, request.notes)
        return self._kit.with_part(part).outcome(row[None].copy(), self._rows(slots, part, [slot]))

    def _new_slots(self, capacity: int) -> Slots:
        eos = tuple(token for token in self._kit.eos_token_ids if token < self._size)
        vocabulary = Vocabulary(self._size, eos, self._tokenizer)
        return Slots(vocabulary, known_params(self._kit.part), capacity)

    def _opened(self, slots: Slots, part: Any, request: _Request, output: Sequence[int]) -> int:
        values = settings(part, request.given)
        state = RequestState(chain_of(part), History(request.prompt, output))
        state.open(values, slots.vocabulary)
        return slots.put(state, values, request.seed)

    def _rows(self, slots: Slots, part: Any, numbers: list[int]) -> Rows:
        return Rows(slots, np.array(numbers, np.int64)).bind(part)
