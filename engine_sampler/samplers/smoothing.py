"""smoothing: bend the logits along a quadratic or cubic curve of their distance from the best one."""

from __future__ import annotations

import numpy as np

from ..arithmetic import FLT_MAX
from ..contract import Example, Param, Rows, Sampler


class Smoothing(Sampler):
    """Flatten the distribution near the best token and steepen it far away (quadratic sampling).

    Formula, with f = smoothing_factor, c = smoothing_curve, d = l − max:
    (max − ((3 − c)/2·f)·d²) + ((c − 1)/2·f)·d³, with d³ = d²·d. It is computed in float64 in this order,
    rounded to float32 once and clamped to ±FLT_MAX. c = 1 is quadratic. For c > 3 the curve rises at first,
    so that tokens near the best one overtake it. Removed tokens stay removed.

    smoothing_factor 0 is neutral. The best token is not invariant: rounding can make a token with a
    lower id equal to it, and c > 3 lets others overtake it. Source: kalomaze's quadratic sampling, with
    the curve of text-generation-webui and koboldcpp, which work in float32.
    """

    name = "smoothing"
    cost = "pass"
    params = (
        Param("smoothing_factor", float, neutral=0.0, low=0, high=1e6, doc="strength"),
        Param(
            "smoothing_curve", float, neutral=1.0, low=1, high=1e6, switch=False, doc="1 quadratic, 3 cubic"
        ),
    )
    examples = (
        Example((3.0, 1.0, -1.0), {"smoothing_factor": 0.25}, (3.0, 2.0, -1.0)),
        Example((3.0, 1.0, -np.inf), {"smoothing_factor": 0.25, "smoothing_curve": 3.0}, (3.0, 1.0, -np.inf)),
    )

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        alive = logits > -np.inf
        peak = logits.max(axis=1, keepdims=True).astype(np.float64)
        d = np.subtract(logits, peak, dtype=np.float64)
        square = d * d
        cube = np.multiply(square, d, out=d)
        square *= smoothing_square(rows)[:, None]
        cube *= smoothing_cube(rows)[:, None]
        bent = np.subtract(peak, square, out=square)
        bent += cube
        np.clip(bent, -FLT_MAX, FLT_MAX, out=bent)
        np.copyto(logits, bent, where=alive, casting="same_kind")


def smoothing_square(rows: Rows) -> np.ndarray:
    """(3 − c)/2·f, float64 [n]."""
    return (3.0 - rows["smoothing_curve"]) / 2.0 * rows["smoothing_factor"]


def smoothing_cube(rows: Rows) -> np.ndarray:
    """(c − 1)/2·f, float64 [n]."""
    return (rows["smoothing_curve"] - 1.0) / 2.0 * rows["smoothing_factor"]
