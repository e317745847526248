"""The measurements of a run, with the lookups that tables and plots need."""

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
JOIN, LEAVE = "add", "remove"
"""Relative to converting the prompt from a list to an array."""
SETTINGS = "SamplingParams of the default chain"
GRAMMAR, GRAMMAR_AHEAD = "default chain, JSON", "default chain, JSON, masks filled before"
"""Steps with a grammar, relative to steps without one."""
PROCESS, COPY = "process", "a copy of the logits"
SAMPLE, PROCESS_LOGITS = "sample", "process_logits"
TEXT = "greedy, text and three stop strings"
MASKED = "run with masks"
ADAPTER, BENEATH = "adapter", "beneath"
"""Calls of the interfaces of MindIE and ATB, relative to the step or `sample` that they are built on."""
GENERATION = "generation"
"""Whole texts of an engine with our sampling, relative to its own."""


def masked(case: str, share: float) -> str:
    """The name of a case with masks that allow this share of all tokens."""
    return f"{case}, {share:.2%} allowed"


def draft_tree(right: int) -> str:
    """The name of the case of a draft tree of which so many levels are right."""
    return f"default chain, JSON, draft tree of 22 nodes, {right} right"


def prompt_of(length: int, kind: str) -> str:
    """The name of the case of a prompt of this length as an "array" or a "list"."""
    return f"{kind} of {length:,} tokens"


def threads(busy: bool) -> str:
    """The name of a step on two threads."""
    return f"step, two threads{', one core busy' if busy else ''}"


def periodic(period: int) -> str:
    """The name of the case of DRY over tokens that repeat with this period."""
    return f"greedy with DRY, period {period}"


@dataclass(frozen=True)
class Entry:
    """One number: the medians in seconds of the work and of the yardsticks in its loop."""

    series: str
    case: str
    vocab_size: int
    batch: int
    rows: str
    yardsticks: dict[str, float]
    median: float
    min: float
    iqr: float
    rounds: int

    @property
    def per_row(self) -> float:
        """Microseconds per row."""
        return 1e6 * self.median / self.batch

    def times(self, yardstick: str) -> float:
        """Its time as a multiple of the yardstick's."""
        return self.median / self.yardsticks[yardstick]

    def over(self, yardstick: str) -> float:
        """Its time beyond the yardstick's, in microseconds."""
        return 1e6 * (self.median - self.yardsticks[yardstick])


@dataclass(frozen=True)
class Results:
    """The numbers of one run, and a description of its machine."""

    machine: dict[str, Any]
    entries: list[Entry]

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read the JSON that `pytest --benchmark-json` wrote."""
        content = json.loads(path.read_text("utf-8"))
        return cls(content["machine"], [Entry(**entry) for entry in content["results"]])

    def find(self, series: str, shape: Shape) -> Entry | None:
        """The entry of a series and a shape; None if it was not measured."""
        for entry in self.entries:
            if entry.series == series and shape == (entry.case, entry.vocab_size, entry.batch, entry.rows):
                return entry
        return None

    def per_row(self, series: str, shape: Shape) -> float | None:
        """Microseconds per row; None if it was not measured."""
        entry = self.find(series, shape)
        return entry and entry.per_row

    def times(self, series: str, shape: Shape, yardstick: str) -> float | None:
        """The time of a series as a multiple of the yardstick's; None if it was not measured."""
        entry = self.find(series, shape)
        return entry and entry.times(yardstick)

    def spread(self, share: float) -> float:
        """The interquartile range relative to the median: its quantile `share` over all numbers."""
        return float(np.quantile([entry.iqr / entry.median for entry in self.entries], share))
