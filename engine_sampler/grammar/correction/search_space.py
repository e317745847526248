"""The graph that completions are searched in: a grammar's configurations, the bytes to try, and bounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import Any

from ...base.cached import cached_property
from ..cache import Cache
from ..derivatives.limits import MAX_SHARED_STATES
from ..derivatives.partitions import meet, representatives
from ..engines.reference import ReferenceVocabulary, lexing
from ..engines.reference.configurations import Configurations
from ..engines.reference.lexing import LalrConfigurations
from ..engines.reference.tables import EngineTables
from ..engines.reference.threads import BETWEEN_TERMINALS, EarleyConfigurations
from ..engines.unique_keys import KeyPosition, position_after
from ..errors import GrammarLimitError
from ..program.rules import Program
from .bounds import EarleyBounds, StackBounds
from .least_costs import NEVER

STEPS = 80_000
"""The default bound on the bytes that the search for a completion tries: half a second, and enough for any
text of a schema such as OpenAPI's that was cut between two terminals."""

_NO_CHOICE = -1
"""The index of the byte tried last at a configuration where none has been tried yet."""

_CHUNK = 4096
"""The bytes of a text that are read as one call of the engine."""


class SearchSpace:
    """The configurations of a grammar, and lower bounds on the cost from each of them to the end."""

    def __init__(self, program: Program) -> None:
        self.tables = EngineTables(program, ReferenceVocabulary(()))
        self.parser: Configurations[Any] = self.tables.configurations
        self._x = self.tables.expressions
        self._choices: dict[int, tuple[int, ...]] = {}

    @cached_property
    def bound(self) -> EarleyBounds | StackBounds:
        """The least number of bytes that a configuration still needs, or less."""
        if isinstance(self.parser, LalrConfigurations):
            return StackBounds(self.parser)
        assert isinstance(self.parser, EarleyConfigurations)
        return EarleyBounds(self.parser)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the tables, and start the meter of the work of one call."""
        with self.tables.lock:
            self.tables.meter.start()
            yield

    def read(self, text: bytes) -> int:
        """The configuration after a text, REJECTED if it has left the language."""
        configuration = self.parser.start
        for begin in range(0, len(text), _CHUNK):
            self.tables.meter.start()
            configuration = self.parser.run(configuration, text[begin : begin + _CHUNK])
        self.tables.meter.start()
        return configuration

    def choices(self, configuration: int) -> tuple[int, ...]:
        """The bytes that may be able to follow, ascending; only the smallest of equivalent ones."""
        choices = self._choices.get(configuration)
        if choices is None:
            parts, first = set(), 0
            for members in self._expressions(configuration):
                parts |= {self._x.partition[member] for member in members}
                first |= self._x.first[members[0]]
            kinds = representatives(meet(parts))
            choices = self._choices[configuration] = tuple(byte for byte in kinds if first >> byte & 1)
        return choices

    def _expressions(self, configuration: int) -> Iterator[tuple[int, ...]]:
        """What the next byte is read with: for each terminal that is in progress, or may begin, its rest, and
        what is excluded besides."""
        parser = self.parser
        if isinstance(parser, EarleyConfigurations):
            for thread in parser.threads[configuration]:
                begins = thread.terminal == BETWEEN_TERMINALS
                for one in parser.beginnings(thread) if begins else (thread,):
                    yield parser.scans.pairs[one.scan]
        elif isinstance(parser, LalrConfigurations):
            for row, symbol, rest, whole, excluded in parser.threads[configuration]:
                if symbol != lexing.BETWEEN_TERMINALS:
                    yield rest, whole, excluded
                    continue
                for match, before in parser.lexers.begin(parser.rows.state(row)):
                    yield match.rest, match.whole, before, excluded


class _Entry:
    """The search space of a grammar, rebuilt once it has grown too large."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._space = SearchSpace(program)

    def space(self) -> SearchSpace:
        space = self._space
        if space.tables.meter.states > MAX_SHARED_STATES:
            space = self._space = SearchSpace(self._program)
        return space


_SEARCH_SPACES: Cache[_Entry] = Cache(16, 16, lambda entry: 1)


def search_space_of(program: Program) -> SearchSpace:
    """The search space of a grammar, from the cache or new. Raises GrammarError if no text matches it."""
    return _SEARCH_SPACES.get(program.key, lambda: _Entry(program)).space()


def shortest_completion(
    space: SearchSpace, configuration: int, max_bytes: int, steps: int, keys: KeyPosition | None = None
) -> bytes | None:
    """The shortest text from a configuration to the end, None if there is none; of several, it is the first
    in byte order.

    keys  the position in a JSON text whose objects must not repeat keys; None for any other text

    Raises GrammarLimitError if it is longer than `max_bytes`, or not found within `steps`.
    """
    parser, bound = space.parser, space.bound
    queue = [(bound(configuration), b"", _NO_CHOICE, configuration, keys)]
    done: set[tuple[int, KeyPosition | None]] = set()
    tried = 0
    while queue:
        cost, text, choice, at, keys = heappop(queue)
        if cost >= NEVER:
            break
        if cost > max_bytes:
            raise GrammarLimitError(f"the completion needs more than max_bytes={max_bytes}: {cost} or more")
        tried += choice != _NO_CHOICE
        if tried > steps:
            raise GrammarLimitError(f"no completion was found among the first {steps} bytes tried (steps)")
        if choice == _NO_CHOICE and (at, keys) in done:
            continue
        if choice == _NO_CHOICE:
            done.add((at, keys))
            if parser.accepting(at):
                return text
        else:
            following = parser.step(at, text[-1])
            after = None if keys is None else position_after(keys, text[-1:])
            if (following, after) not in done and (after is None) == (keys is None):
                heappush(queue, (len(text) + bound(following), text, _NO_CHOICE, following, after))
            text = text[:-1]
        choices = space.choices(at)
        if choice + 1 < len(choices):  # the next byte waits at the same bound, which holds for it as well
            heappush(queue, (cost, text + bytes((choices[choice + 1],)), choice + 1, at, keys))
    return None
