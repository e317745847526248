"""A count of tokens that may still come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Countdown:
    """Tokens that may still come."""

    left: int

    def spend(self, n: int) -> bool:
        """Count `n` tokens; whether none is left."""
        self.left -= n
        return self.left <= 0
