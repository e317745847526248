"""What a run measured, as tables and plots look it up."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .cases import MAIN

US, FILLED, ALONE, TRANSFORMERS, BACKEND = (
    "engine-sampler",
    "llama.cpp, filled",
    "llama.cpp",
    "transformers",
    "backend",
)


@dataclass(frozen=True)
class Results:
    """The numbers of one run, and what is known of its machine."""

    machine: dict[str, Any]
    entries: list[dict[str, Any]]

    @classmethod
    def read(cls, path: Path) -> Results:
        """From the JSON that `pytest --benchmark-json` wrote."""
        content = json.loads(path.read_text("utf-8"))
        return cls(content["machine"], content["results"])

    def per_row(
        self, who: str, case: str, vocab_size: int = MAIN, batch: int = 1, flat: bool = False
    ) -> float | None:
        """Median microseconds for one row; None where it was not measured."""
        wanted = {"who": who, "case": case, "vocab_size": vocab_size, "batch": batch, "flat": flat}
        for entry in self.entries:
            if wanted.items() <= entry.items():
                return entry["median"] * 1e6 / batch
        return None

    def floor(self, vocab_size: int = MAIN, batch: int = 1, flat: bool = False) -> float | None:
        """The time to read a row once."""
        return self.per_row("floor", "floor", vocab_size, batch, flat)

    def spread(self, share: float) -> float:
        """The interquartile range, as a share of the median, that so many of the numbers stay below."""
        return float(np.quantile([entry["iqr"] / entry["median"] for entry in self.entries], share))


def ratio(slow: float | None, fast: float | None) -> float | None:
    """slow / fast, where both were measured."""
    return slow / fast if slow and fast else None
