"""The limits of a JSON Schema's compilation: a schema may come from anyone."""

from __future__ import annotations

from ..errors import GrammarLimitError

MAX_DEPTH = 100
"""The deepest nesting of subschemas that speak of the same value (allOf, not, $ref, ...)."""

MAX_TEXT = 4_000_000
"""The longest schema given as text, in characters."""

MAX_VALUES = 5_000
"""The most combinations of subschemas that one value may have to satisfy."""

MAX_STEPS = 60_000
"""The most steps of rewriting; it bounds the time of a compilation."""

MAX_CLAUSES = 512
"""The most alternatives of one value after anyOf, oneOf, not and if are multiplied out."""

MAX_WEIGHT = 10_000
"""The most assertions that one subschema may lead to for one type of value."""

MAX_PATTERNS = 16
"""The most patterns that the keys of one object are held against."""

MAX_CELLS = 64
"""The most sets of keys, or kinds of items, that are told apart in one object or array."""

MAX_ITEM_STATES = 3_000
"""The most states of one array whose counts cannot be left to registers."""

MAX_NUMBER_STATES = 6_000
"""The most states of one number's automaton."""

MAX_DIGITS = 400
"""The most digits, or zeros that an exponent stands for, of a number in a schema."""


class Budget:
    """Counts steps of rewriting; raises GrammarLimitError when there are too many."""

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def spend(self, steps: int = 1) -> None:
        """Count `steps` more."""
        self.left -= steps
        if self.left < 0:
            raise GrammarLimitError(f"the JSON Schema needs more than {MAX_STEPS} steps of rewriting")
