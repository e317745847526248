"""Random sequences of events, drawn by Hypothesis, which leaves out what a failure does not need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

try:
    from hypothesis import HealthCheck, Phase, seed, settings
    from hypothesis import strategies as st
    from hypothesis.errors import Flaky
    from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "Hypothesis is missing, with which the kits search: pip install hypothesis"
    ) from None

from ..cases import Random


@lru_cache(maxsize=8)
def _one_of(events: Sequence[str]) -> st.SearchStrategy[str]:
    return st.sampled_from(events)


SEEDS = st.integers(0, 2**16 - 1)
EVENTS = st.runner().flatmap(lambda machine: _one_of(machine.events))

_PHASES = {Phase.generate, Phase.shrink}


class RandomMachine(RuleBasedStateMachine):
    """Events of one kind after another, each with a seed of its own, so that its random numbers stay the same
    when events before it are left out.

    events    the names of the methods that are called; the more often a name is listed, the more often.
    happened  the last events.
    problems  what events have raised.
    """

    events: ClassVar[Sequence[str]]
    random: Random

    def __init__(self) -> None:
        super().__init__()
        self.happened: list[str] = []
        self.problems: list[BaseException] = []

    @initialize(seed=SEEDS)
    def first(self, seed: int) -> None:
        """Begin, by the method `begin`."""
        self.happen("begin", seed)

    @rule(event=EVENTS, seed=SEEDS)
    def happen(self, event: str, seed: int) -> None:
        """One of the events; of those after the beginning, none with seed 0, which is the simplest."""
        if not seed and self.happened:
            return
        self.random = np.random.default_rng(seed)
        self.happened.append(event)
        try:
            self.call(getattr(self, event))
        except BaseException as error:
            self.problems.append(error)
            raise

    def call(self, event: Callable[[], None]) -> None:
        """Call an event."""
        event()

    def recent(self) -> str:
        """The last events, for the words of a failure."""
        return ", ".join(self.happened[-6:])


def search(machine: Callable[[], RandomMachine], number: int, length: int) -> None:
    """Try a sequence of `length` events, which follow from `number`.

    Raises what the shortest sequence raises that fails, or the first one if that does not fail again.
    """
    problems: list[BaseException] = []

    def made() -> RandomMachine:
        new = machine()
        new.problems = problems
        return new

    tried: Any = seed(number)(made)
    options = settings(
        max_examples=2,  # the first one is the simplest, in which nothing happens
        stateful_step_count=length,
        phases=[phase for phase in settings().phases if phase in _PHASES],
        database=None,
        deadline=None,
        derandomize=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(tried, settings=options)
    except Flaky as error:
        raise problems[0] if problems else error from None
