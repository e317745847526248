"""Libraries that are not exact: whether they draw from the distribution."""

from __future__ import annotations

import math

import numpy as np

from ...backends.library.binding import Library
from ..results import FAILED, NOT_PROMISED, PASSED, CheckResult
from ..trials import draws as drawn_tokens

_SIGNIFICANCE = 1e-6
_DRAWS = 4000


def draws(library: Library) -> CheckResult:
    """Whether `dist` draws from the distribution, by Pearson's chi-square test."""
    drawn = drawn_tokens(library, _DRAWS)
    if drawn is None:
        return CheckResult("draws", NOT_PROMISED, "it has no dist")
    probabilities, token_ids = drawn
    if token_ids.min() < 0 or token_ids.max() >= len(probabilities):
        return CheckResult("draws", FAILED, "a row gives no token")
    p = _chance(token_ids, probabilities)
    return CheckResult("draws", PASSED if p > _SIGNIFICANCE else FAILED, f"{_DRAWS} draws, p = {p:.2g}")


def chance_of(token_ids: np.ndarray, weights: np.ndarray) -> str | None:
    """Why tokens have not been drawn by their weights; None if they may have been."""
    p = _chance(token_ids, weights / weights.sum())
    return (
        None if p > _SIGNIFICANCE else f"{len(token_ids)} draws do not follow the distribution, p = {p:.2g}"
    )


def _chance(token_ids: np.ndarray, probabilities: np.ndarray) -> float:
    expected = probabilities * len(token_ids)
    counts = np.bincount(token_ids, minlength=len(expected))
    return p_value(float(((counts - expected) ** 2 / expected).sum()), len(expected) - 1)


def p_value(statistic: float, degrees: int) -> float:
    """The chance of a greater chi-square, by Wilson and Hilferty's cube root (good to 1e-3 or so)."""
    spread = 2 / (9 * degrees)
    z = ((statistic / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return 0.5 * math.erfc(z / math.sqrt(2))
