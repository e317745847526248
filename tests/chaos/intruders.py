"""Requests whose plugins misbehave at random: nothing is expected of them, and the others must not notice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine_sampler import SamplingParams
from engine_sampler.contract import Param, Sampler, Selection, Selector, StoppingCriteria

from ..engines import ToyMatcher
from ..rubbish import catalogue

VALUES = [value for _, value in catalogue.values()]
RARELY = 0.15
"""How often a method misbehaves."""


class Mischief:
    """Random misbehaviour, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng([seed, 9])

    def __call__(self, right: Any, *arguments: Any) -> Any:
        """`right`, or rubbish; perhaps an exception, or changed `arguments`."""
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

    def __deepcopy__(self, memo: Any) -> Mischief:
        return Mischief(int(self.random.integers(2**31)))


class _Unruly:
    """The methods that the plugins share; the state is the mischief."""

    def new_state(self, params: Mapping[str, Any], *others: Any) -> Mischief:
        return Mischief(params.get("unruly_sampler", 0) + params.get("unruly_selector", 0))

    def accept(self, state: Mischief, *arguments: Any) -> None:
        state(None, *arguments)

    rollback = accept


class UnrulySampler(_Unruly, Sampler):
    name = "unruly_sampler"
    after = "min_p"
    params = (Param("unruly_sampler", int, 0),)

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        for row, state in zip(logits, rows.states, strict=True):
            state(None, row, rows)


class UnrulySelector(_Unruly, Selector):
    name = "unruly_selector"
    params = (Param("unruly_selector", int, 0),)

    def select(self, logits: np.ndarray, rows: Any) -> Any:
        right = Selection(logits.argmax(axis=1), np.zeros(len(logits)))
        return rows.states[0](right, logits, rows)


class UnrulyCriterion(_Unruly, StoppingCriteria):
    name = "unruly_criterion"

    def __init__(self, seed: int) -> None:
        self.mischief = Mischief(seed)

    def new_state(self, *arguments: Any) -> Mischief:
        return self.mischief

    def watch(self, *arguments: Any) -> Any:
        return self.mischief(None)

    def check(self, state: Mischief, token_ids: Any, text: str) -> Any:
        return state(None, token_ids)


class UnrulyMatcher(ToyMatcher):
    def __init__(self, seed: int) -> None:
        super().__init__({"start": dict.fromkeys(range(30), "start")})
        self.mischief = Mischief(seed)

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
        super().fill_bitmask(bitmask, row)
        self.mischief(None, bitmask)

    def accept(self, token_id: int) -> Any:
        return self.mischief(super().accept(token_id))

    def is_terminated(self) -> Any:
        return self.mischief(False)

    def forced_tokens(self) -> Any:
        return self.mischief([])

    def fork(self) -> Any:
        return self.mischief(UnrulyMatcher(1))


def intruder(seed: int) -> Mapping[str, Any]:
    """The arguments of `add` for a request that misbehaves."""
    kind = seed % 4
    given: dict[str, Any] = {"params": SamplingParams(seed=seed, max_tokens=20)}
    if kind < 2:
        name = ("unruly_sampler", "unruly_selector")[kind]
        given["params"] = given["params"].replace(**{name: seed + 1})
    elif kind == 2:
        given["stopping_criteria"] = [UnrulyCriterion(seed)]
    else:
        given["grammar"] = UnrulyMatcher(seed)
    return given
