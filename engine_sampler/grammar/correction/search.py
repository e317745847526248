"""What corrections are found with: a grammar's configurations, the bytes worth trying, and what is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from heapq import heappop, heappush

from ..cache import Cache
from ..derivatives.limits import MAX_SHARED_STATES
from ..derivatives.partitions import meet, representatives
from ..engines.reference import ReferenceVocabulary
from ..engines.reference.tables import EngineTables
from ..engines.reference.threads import BETWEEN_TERMINALS, EarleyConfigurations, EarleyThread
from ..errors import GrammarError, GrammarLimitError
from ..program.rules import Program
from .demands import NEVER
from .lengths import Lengths
from .outline import Outline, outline_of

CONTINUATION_BYTES = (1 << 0xC0) - (1 << 0x80)
"""The bytes of a character of UTF-8 but for its first one, as a mask."""

STEPS = 200_000
"""Configurations that one search looks at."""

_REACHED = -1
"""The number of the byte that has been tried last, where none has been."""

_RUN = 4096
"""Bytes of a text that are read as one call of the engine."""


class Ground:
    """The configurations of a grammar, and what each of them needs until the end."""

    def __init__(self, program: Program) -> None:
        self.tables = EngineTables(program, ReferenceVocabulary(()))
        if not isinstance(self.tables.configurations, EarleyConfigurations):
            raise GrammarError("texts are corrected under grammars of the lexer dynamic_complete only")
        self.threads = self.tables.configurations
        self._choices: dict[int, tuple[int, ...]] = {}
        self._outlines: dict[int, Outline | None] = {}

    @cached_property
    def in_bytes(self) -> Lengths:
        """What is needed, in bytes."""
        return Lengths(self.threads)

    @cached_property
    def in_characters(self) -> Lengths:
        """What is needed, in characters of UTF-8: their first bytes count."""
        return Lengths(self.threads, CONTINUATION_BYTES)

    def outline(self, free: int) -> Outline | None:
        """The outline of the grammar, `free` being the bytes that cost nothing; None if it has none."""
        if free not in self._outlines:
            self._outlines[free] = outline_of(self.threads, free)
        return self._outlines[free]

    @contextmanager
    def search(self) -> Iterator[None]:
        """One call at a time, with a call's work."""
        with self.tables.lock:
            self.tables.meter.start()
            yield

    def read(self, text: bytes) -> int:
        """The configuration behind a text, REJECTED if it has left the language."""
        configuration = self.threads.start
        for begin in range(0, len(text), _RUN):
            self.tables.meter.start()
            configuration = self.threads.run(configuration, text[begin : begin + _RUN])
        self.tables.meter.start()
        return configuration

    def choices(self, configuration: int) -> tuple[int, ...]:
        """Bytes that perhaps may come, ascending; of those that lead to the same end only the smallest."""
        found = self._choices.get(configuration)
        if found is None:
            x = self.threads.scans.expressions
            parts, first = set(), 0
            for reading in self._readings(configuration):
                rest, guard = self.threads.scans.pairs[reading.scan]
                parts |= {x.partition[rest], x.partition[guard]}
                first |= x.first[rest]
            kinds = representatives(meet(parts))
            found = self._choices[configuration] = tuple(byte for byte in kinds if first >> byte & 1)
        return found

    def _readings(self, configuration: int) -> Iterator[EarleyThread]:
        for thread in self.threads.threads[configuration]:
            if thread.terminal == BETWEEN_TERMINALS:
                yield from self.threads.beginnings(thread)
            else:
                yield thread


class _Kept:
    """The ground of a grammar, made anew where it has grown large."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._ground = Ground(program)

    def ground(self) -> Ground:
        ground = self._ground
        if ground.tables.meter.states > MAX_SHARED_STATES:
            ground = self._ground = Ground(self._program)
        return ground


_GROUNDS: Cache[_Kept] = Cache(16, 16, lambda kept: 1)


def ground_of(program: Program) -> Ground:
    """The ground of a grammar, made or kept. Raises GrammarError if no text at all matches it."""
    return _GROUNDS.get(program.key, lambda: _Kept(program)).ground()


def shortest(ground: Ground, configuration: int, max_bytes: int, steps: int) -> bytes | None:
    """The shortest text from a configuration to the end, of several the least; None if there is none.

    Raises GrammarLimitError if it is longer than `max_bytes`, or not found in `steps`.
    """
    threads, needed = ground.threads, ground.in_bytes
    waiting = [(needed(configuration), b"", _REACHED, configuration)]
    done: set[int] = set()
    while waiting:
        cost, text, choice, at = heappop(waiting)
        if cost >= NEVER:
            break
        if cost > max_bytes:
            raise GrammarLimitError(f"the text lacks more than max_bytes={max_bytes}: {cost} or more")
        if choice == _REACHED and at in done:
            continue
        if choice == _REACHED:
            done.add(at)
            if threads.accepting(at):
                return text
            if len(done) > steps:
                raise GrammarLimitError(f"no completion was found in {steps} steps")
        else:
            following = threads.step(at, text[-1])
            if following not in done:
                heappush(waiting, (len(text) + needed(following), text, _REACHED, following))
            text = text[:-1]
        choices = ground.choices(at)
        if choice + 1 < len(choices):  # the next byte is tried when its turn comes: it costs no less
            heappush(waiting, (cost, text + bytes((choices[choice + 1],)), choice + 1, at))
    return None
