"""Limits on the cost of one call: grammars and texts are untrusted input."""

from __future__ import annotations

from ...base.giving_way import give_way
from ..errors import GrammarLimitError
from ..work import spend

WORK_PER_CALL = 2_000_000
"""Elementary steps (expressions built, items added, threads advanced) in one call."""

EMPTINESS_STEPS = 200_000
"""Derivatives examined to find out whether an expression matches anything."""

MAX_ENDINGS = 64
"""Distinct guards under which one expression may end."""

MAX_EMPTY_GUARDS = 64
"""Look-aheads that may follow each other at one position without any text between them."""

MAX_THREADS = 10_000
"""Simultaneous ways to read one text (threads, see the reference engine's `configurations`)."""

MAX_CLOSURE = 20_000
"""Positions in a rule that can be reached from one position without reading anything."""

MAX_STATES = 1_000_000
"""Expressions, rows and configurations in one set of tables."""

MAX_SHARED_STATES = 300_000
"""States beyond which tables are no longer shared: existing matchers keep them, new ones get new tables."""

MAX_MASK_BYTES = 64 << 20
"""Memory for cached masks, in bytes; the least recently used ones are evicted."""


_MICROSECONDS = 4
"""Of a step, on average."""

_STEPS_AT_A_TIME = 128
"""The steps, of about a microsecond each, after which steps of a scheduler on other threads go first."""


class Meter:
    """Counts the work of one call."""

    def __init__(self) -> None:
        self.start()
        self.states = 0
        self._unpaused = 0

    def start(self, most: int = WORK_PER_CALL) -> None:
        """Start counting for a new call, which may do `most`."""
        self._most = self.left = min(most, WORK_PER_CALL)

    def spend(self, steps: int) -> None:
        """Count `steps`. Raises GrammarLimitError when the call exceeds its limit."""
        self.left -= steps
        if self.left < 0:
            raise GrammarLimitError(f"the grammar needs more than {self._most} steps in one call")
        self._unpaused += steps
        if self._unpaused > _STEPS_AT_A_TIME:
            self._unpaused = 0
            give_way()

    def add_state(self) -> None:
        """Count a state added to the tables. Raises GrammarLimitError when they are full."""
        self.spend(1)
        self.states += 1
        if self.states > MAX_STATES:
            raise GrammarLimitError(f"the grammar needs more than {MAX_STATES} states")


class ReadingMeter(Meter):
    """Counts steps while a grammar is read, as part of the work of reading it.

    steps   how many there may be
    """

    def __init__(self, steps: int) -> None:
        super().__init__()
        self._most = self.left = steps

    def spend(self, steps: int) -> None:
        """Count `steps`. Raises GrammarLimitError when there are too many, or reading takes too much work."""
        super().spend(steps)
        spend(_MICROSECONDS * steps)
