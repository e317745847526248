"""temperature_schedule: a temperature that follows the length of the output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arithmetic import GREEDY_BELOW
from ..base.giving_way import unhurried
from ..contract import Example, Param, Rows, Sampler
from ._values import count_and_number
from .temperature import MAX_TEMPERATURE, inverse, scale_by, temperature_by_entropy

MAX_POINTS = 64
"""The most points that a schedule may have."""

_ALLOWED = (
    f"at most {MAX_POINTS} points "
    "[[tokens, temperature], …] with ascending numbers of output tokens, and temperatures of "
    f"{GREEDY_BELOW:g} to {MAX_TEMPERATURE:g}"
)

_Points = tuple[tuple[int, float], ...]


def _points(value: Any) -> _Points:
    if not isinstance(value, (tuple, list)) or len(value) > MAX_POINTS:
        raise ValueError(_ALLOWED)
    points = tuple(
        count_and_number(pair, GREEDY_BELOW, MAX_TEMPERATURE, _ALLOWED) for pair in unhurried(value)
    )
    if [at for at, _ in points] != sorted({at for at, _ in points}):
        raise ValueError(_ALLOWED)
    return points


class TemperatureSchedule(Sampler):
    """`temperature`, with a value that changes linearly between given lengths of the output.

    Formula, with n tokens of output, between the points (a, A) and (b, B): T = A + (B − A)·(n − a)/(b − a) in
    float64; before the first point its T, from the last one on that one's. Every logit is multiplied by
    float32(1/T).

    The schedule takes the place of `temperature`, whose value does not count unless it is below 1e-4, which
    is greedy. dynatemp_range is around T. [] is neutral. `phases` change the temperature at marks in the
    text. Source: the ranges of ik_llama.cpp, and schedules that users of vLLM ask for.
    """

    name = "temperature_schedule"
    instead_of = "temperature"
    cost = "pass"
    params = (
        Param("temperature_schedule", tuple, neutral=(), convert=_points,
              doc="[[output tokens, temperature], …], linear in between"),
    )  # fmt: skip
    examples = (
        Example((2.0, 1.0), {"temperature_schedule": [[0, 1.0], [4, 0.5]]}, (8 / 3, 4 / 3),
                output_token_ids=(0, 1), note="half way: T = 0.75"),
        Example((2.0, 1.0), {"temperature_schedule": [[2, 0.5], [4, 2.0]]}, (4.0, 2.0),
                output_token_ids=(0,)),
        Example((2.0, 1.0), {"temperature_schedule": [[0, 1.0], [1, 2.0]]}, (1.0, 0.5),
                output_token_ids=(0, 1, 1)),
    )  # fmt: skip

    def is_active(self, params: Mapping[str, Any]) -> bool:
        return bool(params["temperature_schedule"] and params["temperature"] >= GREEDY_BELOW)

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        schedules = rows["temperature_schedule"].tolist()
        values = np.array([_at(points, len(rows.output_token_ids(i))) for i, points in enumerate(schedules)])
        half_width = rows["dynatemp_range"]
        if half_width.any():
            low, high = np.maximum(0.0, values - half_width), values + half_width
            dynamic = temperature_by_entropy(logits, rows, low, high)
            values = np.where(half_width > 0, dynamic, values)
        scale_by(logits, inverse(values))


def _at(points: _Points, n: int) -> float:
    """The temperature after n tokens."""
    before = [point for point in points if point[0] <= n]
    if not before:
        return points[0][1]
    (a, low), after = before[-1], points[len(before) :]
    if not after:
        return low
    b, high = after[0]
    return low + (high - low) * (n - a) / (b - a)
