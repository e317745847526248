"""Requests whose plugins misbehave at random: nothing is expected of them, and the others must not notice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine_sampler import SamplingParams
from engine_sampler.contract import Param, Sampler, Selection, Selector, StoppingCriteria

from ..engines import ToyMatcher
from ..hostile_plugins import catalogue

VALUES = [value for _, value in catalogue.values()]
RARELY = 0.15
"""How often a method misbehaves."""


class Misbehaviour:
    """Random misbehaviour, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng([seed, 9])

    def __call__(self, right: Any, *arguments: Any) -> Any:
        """`right`, or a hostile value; perhaps an exception, or changed `arguments`."""
        if self.random.random() > RARELY:
            return right
        kind = self.random.integers(3)
        if kind == 0:
            raise catalogue.EXCEPTIONS[self.random.integers(len(catalogue.EXCEPTIONS))]()
        if kind == 1:
            for argument in arguments:
                catalogue.spoil(argument)
            return right
        return VALUES[self.random.integers(len(VALUES))]

    def __deepcopy__(self, memo: Any) -> Misbehaviour:
        return Misbehaviour(int(self.random.integers(2**31)))


class _Faulty:
    """The methods that the plugins share; the state is the misbehaviour."""

    def new_state(self, params: Mapping[str, Any], *others: Any) -> Misbehaviour:
        return Misbehaviour(params.get("faulty_sampler", 0) + params.get("faulty_selector", 0))

    def accept(self, state: Misbehaviour, *arguments: Any) -> None:
        state(None, *arguments)

    rollback = accept


class FaultySampler(_Faulty, Sampler):
    name = "faulty_sampler"
    after = "min_p"
    params = (Param("faulty_sampler", int, 0),)

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        for row, state in zip(logits, rows.states, strict=True):
            state(None, row, rows)


class FaultySelector(_Faulty, Selector):
    name = "faulty_selector"
    params = (Param("faulty_selector", int, 0),)

    def select(self, logits: np.ndarray, rows: Any) -> Any:
        right = Selection(logits.argmax(axis=1), np.zeros(len(logits)))
        return rows.states[0](right, logits, rows)


class FaultyCriterion(_Faulty, StoppingCriteria):
    name = "faulty_criterion"

    def __init__(self, seed: int) -> None:
        self.misbehaviour = Misbehaviour(seed)

    def new_state(self, *arguments: Any) -> Misbehaviour:
        return self.misbehaviour

    def watch(self, *arguments: Any) -> Any:
        return self.misbehaviour(None)

    def check(self, state: Misbehaviour, token_ids: Any, text: str) -> Any:
        return state(None, token_ids)


class FaultyMatcher(ToyMatcher):
    def __init__(self, seed: int) -> None:
        super().__init__({"start": dict.fromkeys(range(30), "start")})
        self.misbehaviour = Misbehaviour(seed)

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
        super().fill_bitmask(bitmask, row)
        self.misbehaviour(None, bitmask)

    def accept(self, token_id: int) -> Any:
        return self.misbehaviour(super().accept(token_id))

    def is_terminated(self) -> Any:
        return self.misbehaviour(False)

    def forced_tokens(self) -> Any:
        return self.misbehaviour([])

    def fork(self) -> Any:
        return self.misbehaviour(FaultyMatcher(1))


def faulty_request(seed: int) -> Mapping[str, Any]:
    """The arguments of `add` for a request that misbehaves."""
    kind = seed % 4
    arguments: dict[str, Any] = {"params": SamplingParams(seed=seed, max_tokens=20)}
    if kind < 2:
        name = ("faulty_sampler", "faulty_selector")[kind]
        arguments["params"] = arguments["params"].replace(**{name: seed + 1})
    elif kind == 2:
        arguments["stopping_criteria"] = [FaultyCriterion(seed)]
    else:
        arguments["grammar"] = FaultyMatcher(seed)
    return arguments
