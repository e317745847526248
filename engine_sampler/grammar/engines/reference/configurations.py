"""All readings of a text at once, whatever a reading is.

A configuration is the set of readings (threads) of a text; equal sets are one number, and the
configuration behind a byte is found once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from ...derivatives.limits import MAX_THREADS, Meter
from ...errors import GrammarLimitError

LOST = 0
"""The configuration without threads: the text has left the language."""

Thread = TypeVar("Thread", bound="tuple[int, ...]")


class Configurations(ABC, Generic[Thread]):
    """All configurations of one set of tables; `start` is that of the empty text."""

    start: int

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.configurations: list[tuple[Thread, ...]] = [()]
        self._numbers: dict[frozenset[Thread], int] = {frozenset(): LOST}
        self._steps: dict[int, int] = {}
        self._thread_steps: dict[tuple[Thread, int], frozenset[Thread]] = {}

    @abstractmethod
    def accepting(self, configuration: int) -> bool:
        """Whether the text so far is in the language."""

    @abstractmethod
    def special_ids(self, configuration: int) -> set[int]:
        """The special tokens that may come."""

    @abstractmethod
    def special_step(self, configuration: int, token_id: int) -> int:
        """The configuration after a special token."""

    @abstractmethod
    def first_bytes(self, configuration: int) -> int:
        """The bytes that may come next as a mask; perhaps too many."""

    @abstractmethod
    def _read(self, thread: Thread, byte: int) -> Iterable[Thread]:
        """What a thread becomes behind a byte."""

    def step(self, configuration: int, byte: int) -> int:
        """The configuration after a byte; LOST where the text has left the language."""
        key = configuration << 8 | byte
        found = self._steps.get(key)
        if found is None:
            threads = (self._thread_step(thread, byte) for thread in self.configurations[configuration])
            found = self._steps[key] = self.configuration(one for some in threads for one in some)
        return found

    def run(self, configuration: int, data: bytes) -> int:
        """The configuration after some bytes."""
        for byte in data:
            configuration = self.step(configuration, byte)
            if configuration == LOST:
                break
        return configuration

    def configuration(self, threads: Iterable[Thread]) -> int:
        """The number of the set of these threads. Raises GrammarLimitError if they are too many."""
        found = set(threads)
        if len(found) > MAX_THREADS:
            raise GrammarLimitError(f"the text can be read in more than {MAX_THREADS} ways at once")
        kept = self._needed(found)
        number = self._numbers.get(kept)
        if number is None:
            self._meter.add_state()
            number = self._numbers[kept] = len(self.configurations)
            self.configurations.append(tuple(sorted(kept)))
        return number

    def _needed(self, threads: set[Thread]) -> frozenset[Thread]:
        """The threads without those that others make needless."""
        return frozenset(threads)

    def _thread_step(self, thread: Thread, byte: int) -> frozenset[Thread]:
        key = thread, byte
        found = self._thread_steps.get(key)
        if found is None:
            self._meter.spend(1)
            found = self._thread_steps[key] = frozenset(self._read(thread, byte))
        return found
