"""What one call may cost: grammars and texts come from strangers."""

from __future__ import annotations

from ..errors import GrammarLimitError

WORK_PER_CALL = 2_000_000
"""Elementary steps (expressions made, items added, threads moved) of one call."""

EMPTINESS_STEPS = 200_000
"""Derivatives looked at to find out whether an expression matches anything."""

MAX_ENDINGS = 64
"""Different guards under which one expression may end."""

MAX_EMPTY_GUARDS = 64
"""Look-aheads without a text of their own that may stand at one place, one after the other."""

MAX_THREADS = 10_000
"""Readings of one text that are followed at a time."""

MAX_CLOSURE = 20_000
"""Places that one place of a rule leads to without reading anything."""

MAX_STATES = 1_000_000
"""Expressions, rows and configurations that one set of tables holds."""

MAX_SHARED_STATES = 300_000
"""Tables that have grown larger are left to their matchers; new matchers begin with new ones."""

MAX_MASK_BYTES = 64 << 20
"""Memory of remembered masks; the ones not used for longest are dropped."""


class Meter:
    """Counts the work of one call."""

    def __init__(self) -> None:
        self.left = WORK_PER_CALL
        self.states = 0

    def start(self) -> None:
        """Begin a call."""
        self.left = WORK_PER_CALL

    def spend(self, steps: int) -> None:
        """Count `steps`. Raises GrammarLimitError when the call has spent all of its work."""
        self.left -= steps
        if self.left < 0:
            raise GrammarLimitError(f"the grammar needs more than {WORK_PER_CALL} steps in one call")

    def keep(self) -> None:
        """Count a state that the tables keep. Raises GrammarLimitError when they are full."""
        self.spend(1)
        self.states += 1
        if self.states > MAX_STATES:
            raise GrammarLimitError(f"the grammar needs more than {MAX_STATES} states")
