"""Configurations: all the ways to read a text, followed at once.

The text so far can often be read in several ways. Each way is a **thread** (not one of the operating
system): the row of the parser and the progress within the current terminal. Threads do not depend on each
other and advance side by side, as in the simulation of a nondeterministic automaton (Thompson 1968). A
**configuration** is the set of the threads of a text. Equal sets have the same number, and the
configuration after a byte is computed once, so configurations are the states of a deterministic automaton
that is built on demand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from ...derivatives.limits import MAX_THREADS, Meter
from ...errors import GrammarLimitError

REJECTED = 0
"""The configuration without threads, a dead state: no text of the language begins with the text so far."""

Thread = TypeVar("Thread", bound="tuple[int, ...]")
"""The threads of one parser: `threads.EarleyThread` or `lexing.LalrThread`."""


class Configurations(ABC, Generic[Thread]):
    """All configurations of one set of tables.

    start     the configuration of the empty text
    threads   the threads of each configuration, sorted
    """

    start: int

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.threads: list[tuple[Thread, ...]] = [()]
        self._numbers: dict[frozenset[Thread], int] = {frozenset(): REJECTED}
        self._steps: dict[int, int] = {}
        self._thread_steps: dict[tuple[Thread, int], frozenset[Thread]] = {}

    @abstractmethod
    def accepting(self, configuration: int) -> bool:
        """Whether the text so far is in the language."""

    @abstractmethod
    def special_ids(self, configuration: int) -> set[int]:
        """The special tokens that may follow."""

    @abstractmethod
    def special_step(self, configuration: int, token_id: int) -> int:
        """The configuration after a special token."""

    @abstractmethod
    def first_bytes(self, configuration: int) -> int:
        """The bytes that may come next, as a mask; perhaps too many."""

    def open_terminals(self, configuration: int) -> set[int]:
        """The terminals that are being read or may begin; only Earley's parser tells."""
        return set()

    @abstractmethod
    def _read(self, thread: Thread, byte: int) -> Iterable[Thread]:
        """The threads that a thread turns into after a byte."""

    def step(self, configuration: int, byte: int) -> int:
        """The configuration after a byte; REJECTED if the byte cannot follow."""
        key = configuration << 8 | byte
        found = self._steps.get(key)
        if found is None:
            steps = (self.thread_step(thread, byte) for thread in self.threads[configuration])
            found = self._steps[key] = self.configuration(thread for step in steps for thread in step)
        return found

    def run(self, configuration: int, data: bytes) -> int:
        """The configuration after some bytes."""
        for byte in data:
            configuration = self.step(configuration, byte)
            if configuration == REJECTED:
                break
        return configuration

    def either(self, one: int, other: int) -> int:
        """The configuration of the threads of both."""
        return self.configuration((*self.threads[one], *self.threads[other]))

    def configuration(self, threads: Iterable[Thread]) -> int:
        """The number of a set of threads. Raises GrammarLimitError if there are too many of them."""
        found = set(threads)
        if len(found) > MAX_THREADS:
            raise GrammarLimitError(f"the text can be read in more than {MAX_THREADS} ways at once")
        needed = self._needed(found)
        number = self._numbers.get(needed)
        if number is None:
            self._meter.add_state()
            number = len(self.threads)
            self.threads.append(tuple(sorted(needed)))  # first, in case of an interruption
            self._numbers[needed] = number
        return number

    def _needed(self, threads: set[Thread]) -> frozenset[Thread]:
        """The threads without those that are subsumed by others."""
        return frozenset(threads)

    def thread_step(self, thread: Thread, byte: int) -> frozenset[Thread]:
        """The threads that a thread turns into after a byte."""
        key = thread, byte
        found = self._thread_steps.get(key)
        if found is None:
            self._meter.spend(1)
            found = self._thread_steps[key] = frozenset(self._read(thread, byte))
        return found
