"""How far a terminal has been read: what is left of its expression, and what may not come now.

A scan is a pair of expressions: the rest of a terminal, and the guard, of whose matches no prefix of
the text from here on may be one (EMPTY: everything may come). Guards come from look-aheads that look
beyond the end of their terminal, and from ignored text, which is as long as it can be.
"""

from __future__ import annotations

from ...derivatives.derivatives import Derivatives
from ...derivatives.expressions import EMPTY, PLAIN, Expressions

DEAD = 0
"""The scan that leads nowhere."""


class Scans:
    """All scans of one set of tables."""

    def __init__(self, derivatives: Derivatives) -> None:
        self.derivatives = derivatives
        self.pairs: list[tuple[int, int]] = [(EMPTY, EMPTY)]
        self._numbers = {(EMPTY, EMPTY): DEAD}
        self._steps: dict[int, int] = {}
        self._bounded: dict[tuple[int, int], int] = {}

    @property
    def expressions(self) -> Expressions:
        """The expressions that scans are made of."""
        return self.derivatives.expressions

    def scan(self, rest: int, guard: int) -> int:
        """The scan of these two."""
        number = self._numbers.get((rest, guard))
        if number is None:
            self.expressions.meter.add_state()
            number = self._numbers[rest, guard] = len(self.pairs)
            self.pairs.append((rest, guard))
        return number

    def clean(self, guard: int) -> int:
        """A guard, EMPTY if nothing can come that it forbids."""
        return guard if self.derivatives.continues(guard) else EMPTY

    def guard_step(self, guard: int, byte: int) -> int | None:
        """The guard after a byte; None where it forbids what has come."""
        if guard == EMPTY:
            return EMPTY
        following = self.derivatives.derivative(guard, byte)
        return None if self.expressions.endings[following] else self.clean(following)

    def step(self, scan: int, byte: int) -> int:
        """The scan after a byte, DEAD where it cannot be read."""
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

    def bounded(self, scan: int, most: int) -> int:
        """A scan that goes on alike for `most` bytes, and may be the same for many."""
        found = self._bounded.get((scan, most))
        if found is None:
            rest, guard = self.pairs[scan]
            found = self._bounded[scan, most] = self.scan(self.expressions.bounded(rest, most), guard)
        return found

    def continues(self, scan: int) -> bool:
        """Whether the terminal can be read on."""
        return self.derivatives.continues(self.pairs[scan][0])

    def ends(self, scan: int, longest: bool) -> frozenset[int]:
        """The guards of what follows, if the terminal ends here; `longest`: it could not go on."""
        rest, guard = self.pairs[scan]
        x = self.expressions
        if guard == EMPTY and not longest and x.endings[rest] == PLAIN:
            return PLAIN
        more = (guard, rest) if longest else (guard,)
        return frozenset(self.clean(x.union((end, *more))) for end in x.endings[rest])

    def can_end(self, scan: int) -> bool:
        """Whether the terminal can end here."""
        return bool(self.expressions.endings[self.pairs[scan][0]])
