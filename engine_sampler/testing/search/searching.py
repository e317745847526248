"""How long a kit searches: the trials of its first pass, then more for some seconds of processor time."""

from __future__ import annotations

import contextlib
import copy
import itertools
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..cases import Random, times

T = TypeVar("T")

_SUBJECTS = frozenset(("sampler", "selector", "criterion"))
"""The attributes of kits that hold what they test."""

_SECONDS = "ENGINE_SAMPLER_TEST_SECONDS"


def seconds_to_search(seconds: float) -> float:
    """ENGINE_SAMPLER_TEST_SECONDS if that is set, else `seconds`.

    Raises ValueError unless the variable is a finite number of at least 0.
    """
    text = os.environ.get(_SECONDS)
    if text is None:
        return seconds
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ValueError(f"{_SECONDS}={text!r} is not allowed: a finite number of at least 0")
    return value


def trial_of(number: int) -> Random:
    """The random numbers of a trial."""
    return np.random.default_rng([7, number])


class Searching:
    """What all kits share: random trials without an end, from which a law takes some.

    seconds    of processor time for which the kit goes on after its first pass, in equal parts for all laws.
               ENGINE_SAMPLER_TEST_SECONDS replaces it.
    seed       with which the random trials begin.
    sequences  how many sequences of events the first pass has, in which requests come and go.
    """

    _pristine: ClassVar[Any] = None
    sequences: ClassVar[int] = 8
    seconds: ClassVar[float] = 0.0
    seed: ClassVar[int] = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep a copy of what the kit tests, as it is before any trial."""
        super().__init_subclass__(**kwargs)
        for name in _SUBJECTS.intersection(vars(cls)):
            with contextlib.suppress(Exception):  # not everything can be copied
                cls._pristine = copy.deepcopy(vars(cls)[name])

    def fresh(self, used: T) -> T:
        """A copy of `used` as it was when the kit was defined; itself if it cannot be copied."""
        if type(self._pristine) is not type(used):
            return used
        fresh: T = copy.deepcopy(self._pristine)
        return fresh

    def search(self, machine: Callable[..., Any], length: int, first: int | None = None) -> None:
        """Try random sequences of `length` events on what `machine(number)` gives, a `RandomMachine`: `first`
        of them, by default `sequences`, and then more."""
        from .machine import search  # which needs Hypothesis

        for number in self.numbers(self.sequences if first is None else first):
            search(partial(machine, number), number, length)

    def draws(self, first: int) -> Iterator[Random]:
        """A generator of random numbers for each trial: `times(first)`, however long they take, then more
        until the law's part of `seconds` is spent."""
        return map(trial_of, self.numbers(first))

    def numbers(self, first: int) -> Iterator[int]:
        """The numbers of the trials, from `seed` on."""
        laws = sum(name.startswith("test_") for name in dir(self))
        end = time.process_time() + seconds_to_search(self.seconds) / max(1, laws)
        for number in itertools.count():
            if number >= times(first) and time.process_time() >= end:
                return
            yield self.seed + number
