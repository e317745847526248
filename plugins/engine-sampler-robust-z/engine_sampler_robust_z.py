"""robust_z: keep the tokens that stand out from the rest. A plugin for engine-sampler in one file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from engine_sampler.arithmetic import keep_above_best
from engine_sampler.contract import Example, Param, Rows, Truncation, hookimpl

NORMAL = 1.4826
"""The standard deviation of a normal distribution in units of its median absolute deviation."""


class RobustZ(Truncation):
    """Keep the tokens whose logit is robust_z standard deviations above the median, or more.

    Formula: l ≥ median + robust_z·1.4826·MAD over the tokens that are left, in float64, where MAD is the
    median of |l − median|. The best token always stays, the one with the lowest id of several.

    Outliers do not move median and MAD, so that a single likely token does not raise the bar for others, as
    in `top_n_sigma`. 0 is neutral. Source: Iglewicz and Hoaglin 1993 (the z-score).
    """

    name = "robust_z"
    after = "min_p"
    params = (Param("robust_z", float, neutral=0.0, low=0, high=100, doc="deviations above the median"),)
    argmax_invariant = True
    examples = (
        Example((9.0, 2.0, 1.0, 0.0, -1.0), {"robust_z": 2.0}, (9.0, -np.inf, -np.inf, -np.inf, -np.inf),
                note="median 1, MAD 1: the bar is at 3.97"),
        Example((1.0, 1.0, 1.0, 0.0), {"robust_z": 3.0}, (1.0, 1.0, 1.0, -np.inf), note="median 1, MAD 0"),
    )  # fmt: skip

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        bars = [bar(row[row > -np.inf], z) for row, z in zip(logits, rows["robust_z"], strict=True)]
        return keep_above_best(logits, logits < np.array(bars)[:, None])


def bar(logits: np.ndarray, z: float) -> float:
    """The least logit that stays, of those of one row."""
    exact = logits.astype(np.float64)
    median = np.median(exact)
    return float(median + z * NORMAL * np.median(np.abs(exact - median)))


@hookimpl
def register_samplers(register: Callable[[Any], None]) -> None:
    """Called once when engine-sampler loads plugins; the entry point in pyproject.toml names this module."""
    register(RobustZ())
