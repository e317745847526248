"""What a check of a library or of a plugin found."""

from __future__ import annotations

from dataclasses import dataclass

PASSED, FAILED, NOT_PROMISED = "passed", "failed", "not promised"


@dataclass(frozen=True)
class CheckResult:
    """One checked property: `outcome` is "passed", "failed" or "not promised"; `detail` is what was tried, or
    what is wrong."""

    name: str
    outcome: str
    detail: str = ""
