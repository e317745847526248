"""The bound on the work of finding captures."""

from __future__ import annotations

from ...base.giving_way import give_way
from ..errors import GrammarLimitError

_STEPS_AT_A_TIME = 128
"""After so many steps, the steps of a scheduler on other threads go first."""


class Steps:
    """Counts steps, up to a bound; `left` are those that are left."""

    def __init__(self, steps: int) -> None:
        self._bound = self.left = steps
        self._unpaused = 0

    def spend(self, steps: int = 1) -> None:
        """Count `steps`. Raises GrammarLimitError when there are more than the bound."""
        self.left -= steps
        if self.left < 0:
            raise GrammarLimitError(f"finding the captures needs more than steps={self._bound}")
        self._unpaused += steps
        if self._unpaused > _STEPS_AT_A_TIME:
            self._unpaused = 0
            give_way()
