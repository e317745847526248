"""What is sampled beside the engines' own samplers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

ROWS = (1, 16, 64, 256)
PROMPT = 512
"""Tokens of history at the beginning; each step adds one."""

CASES: Mapping[str, Mapping[str, Any]] = {
    "greedy": {"temperature": 0},
    "temperature": {"temperature": 0.8},
    "top_p": {"temperature": 0.8, "top_p": 0.95},
    "top_k + top_p": {"temperature": 0.8, "top_k": 40, "top_p": 0.95},
    "min_p": {"temperature": 0.8, "min_p": 0.05},
    "penalties": {
        "temperature": 0.8,
        "repetition_penalty": 1.1,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.1,
    },
    "logprobs": {"temperature": 0.8, "logprobs": 5},
    "a grammar's masks": {"temperature": 0.8},
}
"""Parameters under the names that all engines share."""
MASKED = "a grammar's masks"
"""A mask of half of the vocabulary for each row, filled beforehand: applying it is what an engine adds."""


class Cost(NamedTuple):
    """Medians of the processor time of one step of all rows, in seconds.

    own     the engine's; None where it has no such sampler, or where this benchmark has none.
    ours    our sampler in its place.
    spread  the interquartile range of ours, relative to the median.
    """

    own: float | None
    ours: float
    spread: float
