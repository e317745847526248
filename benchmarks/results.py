"""What a run measured, as tables and plots look it up."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .cases import Shape

RUN, STEP, HALF = "run", "step", "step, bfloat16"
NUMPY_RUN, NUMPY_STEP = "NumPy, run", "NumPy, step"
FILLED, UNFILLED = "llama.cpp", "llama.cpp without filling"
TRANSFORMERS, MULTINOMIAL, FLOOR = "transformers", "torch.multinomial", "NumPy's max"

FIVE = "five configurations"
ADD_AND_REMOVE = "add and remove: "
SETTINGS = "SamplingParams of the default chain"
GRAMMAR, GRAMMAR_AHEAD = "default chain, JSON", "default chain, JSON, masks filled before"
"""Steps under a grammar, beside those without."""
TEXT = "greedy, text and three stop strings"
MASKED = "run behind masks"


def masked(case: str, share: float) -> str:
    """The name of a case behind masks that allow so many of all tokens."""
    return f"{case}, {share:.2%} allowed"


def threads(busy: bool) -> str:
    """The name of a step on two threads."""
    return f"step, two threads{', one core busy' if busy else ''}"


def periodic(period: int) -> str:
    """The case of DRY over tokens that repeat."""
    return f"greedy with DRY, period {period}"


@dataclass(frozen=True)
class Entry:
    """One number: medians in seconds of the work, and of the yardsticks in its loop."""

    who: str
    case: str
    vocab_size: int
    batch: int
    rows: str
    beside: dict[str, float]
    median: float
    min: float
    iqr: float
    rounds: int

    @property
    def per_row(self) -> float:
        """Microseconds."""
        return 1e6 * self.median / self.batch

    def times(self, yardstick: str) -> float:
        """How many times as long as the yardstick it takes."""
        return self.median / self.beside[yardstick]

    def over(self, yardstick: str) -> float:
        """How many microseconds longer than the yardstick it takes."""
        return 1e6 * (self.median - self.beside[yardstick])


@dataclass(frozen=True)
class Results:
    """The numbers of one run, and what is known of its machine."""

    machine: dict[str, Any]
    entries: list[Entry]

    @classmethod
    def read(cls, path: Path) -> Results:
        """From the JSON that `pytest --benchmark-json` wrote."""
        content = json.loads(path.read_text("utf-8"))
        return cls(content["machine"], [Entry(**entry) for entry in content["results"]])

    def find(self, who: str, shape: Shape) -> Entry | None:
        """None where it was not measured."""
        for entry in self.entries:
            if entry.who == who and shape == (entry.case, entry.vocab_size, entry.batch, entry.rows):
                return entry
        return None

    def per_row(self, who: str, shape: Shape) -> float | None:
        """Microseconds for one row."""
        entry = self.find(who, shape)
        return entry and entry.per_row

    def times(self, who: str, shape: Shape, yardstick: str) -> float | None:
        """How many times as long as its yardstick something takes."""
        entry = self.find(who, shape)
        return entry and entry.times(yardstick)

    def spread(self, share: float) -> float:
        """The interquartile range, as a share of the median, that so many of the numbers stay below."""
        return float(np.quantile([entry.iqr / entry.median for entry in self.entries], share))
