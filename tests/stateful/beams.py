"""Beam searches under random operations: the rows that their texts need, and the same search alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine_sampler import Scheduler, StepResult

from .replay import outcome
from .workload import Order, model_row


@dataclass
class Search:
    """One beam search.

    caches  the tokens of each text, reordered as `parent_ids` requires.
    faults  faulty rows in place of the model's: by step, then by index among the ids.
    removed the request whose removal ended the search.
    """

    ids: list[Any]
    order: Order
    caches: dict[Any, list[int]] = field(default_factory=dict)
    steps: int = 0
    faults: dict[int, dict[int, np.ndarray]] = field(default_factory=dict)
    removed: Any = None

    def __post_init__(self) -> None:
        self.caches = {i: list(self.order.prompt) for i in self.ids}

    def row(self, request_id: Any) -> np.ndarray:
        """The logits that the text needs next."""
        fault = self.faults.get(self.steps, {}).get(self.ids.index(request_id))
        return model_row(self.caches[request_id]) if fault is None else fault

    def follow(self, scheduler: Scheduler, result: StepResult) -> bool:
        """Reorder the caches by the step's result; returns whether the search is over."""
        self.steps += 1
        places = {i: result.request_ids.index(i) for i in self.ids}
        parents = {i: self.caches[result.parent_ids[place]] for i, place in places.items()}
        for i, place in places.items():
            token = int(result.token_ids[place])
            self.caches[i] = [*parents[i], token] if token >= 0 else [*parents[i]]
        over = {i not in scheduler.request_ids for i in self.ids}
        assert len(over) == 1, "texts of one search do not end together"
        if over == {False}:
            for i, place in places.items():
                record = scheduler.record(i)
                assert self.caches[i] == record.prompt_token_ids + record.token_ids, "a wrong cache"
                assert result.text[place] == ""
        return over == {True}

    def expect_same_alone(self, scheduler: Scheduler, alone: Scheduler) -> None:
        """The search has the same result when it runs alone, in an empty scheduler."""
        alone.add_group(self.order.params, self.order.prompt, request_ids=self.ids, **self.order.extras())
        again = Search(self.ids, self.order, faults=self.faults)
        for _ in range(self.steps):
            again.follow(alone, alone.step(np.stack([again.row(i) for i in self.ids]), self.ids))
        if self.removed is not None:
            alone.remove(self.removed)
        for i in self.ids:
            if i == self.removed:
                continue
            here, there = scheduler.record(i), alone.record(i)
            assert outcome(here) == outcome(there), f"a text alone is {outcome(there)}, here {outcome(here)}"
            assert here.score == there.score
