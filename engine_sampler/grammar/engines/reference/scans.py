"""Scans: the progress within a terminal, and the constraint on the text that follows.

A scan is a pair of expressions: the rest of the terminal, and a guard, which must not match any prefix of
the text from here on (EMPTY: no constraint). Guards come from look-aheads that look past the end of their
terminal, and from ignored text, which takes the longest match.
"""

from __future__ import annotations

from ...derivatives.derivatives import Derivatives
from ...derivatives.expressions import EMPTY, PLAIN, Expressions
from ...derivatives.partitions import meet, representatives

DEAD = 0
"""The scan of a terminal that cannot match any more."""


class Scans:
    """All scans of one set of tables.

    pairs   the rest and the guard of each scan
    """

    def __init__(self, derivatives: Derivatives) -> None:
        self.derivatives = derivatives
        self.pairs: list[tuple[int, int]] = [(EMPTY, EMPTY)]
        self._numbers = {(EMPTY, EMPTY): DEAD}
        self._steps: dict[int, int] = {}
        self._bounded: dict[tuple[int, int], int] = {}
        self._possible: dict[tuple[int, int], bool] = {}

    @property
    def expressions(self) -> Expressions:
        """The expressions that scans consist of."""
        return self.derivatives.expressions

    def scan(self, remaining: int, guard: int) -> int:
        """The number of a scan."""
        number = self._numbers.get((remaining, guard))
        if number is None:
            self.expressions.meter.add_state()
            number = len(self.pairs)
            self.pairs.append((remaining, guard))  # first, in case of an interruption
            self._numbers[remaining, guard] = number
        return number

    def clean(self, guard: int) -> int:
        """The guard, or EMPTY if it cannot forbid anything."""
        return guard if self.derivatives.continues(guard) else EMPTY

    def guard_step(self, guard: int, byte: int) -> int | None:
        """The guard after a byte; None if it forbids the text up to that byte."""
        if guard == EMPTY:
            return EMPTY
        following = self.derivatives.derivative(guard, byte)
        return None if self.expressions.endings[following] else self.clean(following)

    def step(self, scan: int, byte: int) -> int:
        """The scan after a byte, DEAD if the byte cannot follow."""
        key = scan << 8 | byte
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = self._step(scan, byte)
        return found

    def _step(self, scan: int, byte: int) -> int:
        rest, guard = self.pairs[scan]
        rest = self.derivatives.derivative(rest, byte)
        if not self.derivatives.live(rest):
            return DEAD
        following = self.guard_step(guard, byte)
        return DEAD if following is None else self.scan(rest, following)

    def bounded(self, scan: int, max_bytes: int) -> int:
        """A scan that behaves equally for `max_bytes` bytes and that many scans may share."""
        found = self._bounded.get((scan, max_bytes))
        if found is None:
            rest, guard = self.pairs[scan]
            bounded = self.expressions.bounded(rest, max_bytes)
            found = self._bounded[scan, max_bytes] = self.scan(bounded, guard)
        return found

    def continues(self, scan: int) -> bool:
        """Whether the terminal can continue to an end, as far as its guard tells."""
        return self.possible(*self.pairs[scan])

    def possible(self, remaining: int, guard: int) -> bool:
        """Whether a text that is not empty matches `rest`, and no prefix of it the guard."""
        if guard == EMPTY:
            return self.derivatives.continues(remaining)
        key = remaining, guard
        if key not in self._possible:
            forbidden = self.derivatives.longer(guard)
            possible = self._is_freed(remaining, guard) or self.derivatives.possible(remaining, forbidden)
            self._possible[key] = possible
        return self._possible[key]

    def _is_freed(self, rest: int, guard: int) -> bool:
        """Whether there is a byte after which `rest` can continue, and the guard can forbid nothing."""
        derivatives = self.derivatives
        partitions = (self.expressions.partition[part] for part in (rest, guard))
        return any(
            derivatives.live(derivatives.derivative(rest, byte)) and self.guard_step(guard, byte) == EMPTY
            for byte in representatives(meet(partitions))
        )

    def ends(self, scan: int, longest: bool) -> frozenset[int]:
        """The guards on what follows if the terminal ends here; `longest`: it must have no longer match."""
        rest, guard = self.pairs[scan]
        x = self.expressions
        if guard == EMPTY and not longest and x.endings[rest] == PLAIN:
            return PLAIN
        more = (guard, rest) if longest else (guard,)
        return frozenset(self.clean(x.union((end, *more))) for end in x.endings[rest])

    def can_end(self, scan: int) -> bool:
        """Whether the terminal can end here."""
        return bool(self.expressions.endings[self.pairs[scan][0]])
