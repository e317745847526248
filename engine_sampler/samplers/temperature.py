"""temperature: sharpen or flatten the distribution, with a range according to its entropy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arithmetic import FLT_MAX, GREEDY_BELOW, distances, entropy_bits, log2_64, power, settle
from ..contract import Example, Param, Rows, Sampler

MAX_TEMPERATURE = 1e6
"""The upper bound of temperatures."""


class Temperature(Sampler):
    """Multiply every logit by float32(1/T).

    With dynatemp_range > 0 the temperature follows the entropy H of the row:
    T = lo + (hi − lo)·(H/Hmax)^dynatemp_exponent, lo = max(0, temperature − range),
    hi = temperature + range, Hmax = log2(remaining tokens); all in float64, rounded once, and T
    clamped to 1e-4 to 1e6.

    A `temperature` below 1e-4 leaves only the first token in (logit desc, id asc) order, whatever
    the range. Scaling can make two neighbouring floats equal, so the best token is not invariant
    to the last bit. Source: Ackley et al. 1985; dynamic temperature from llama.cpp (entropy over
    the candidates). llama.cpp leaves a row with one token unchanged; so does this sampler.
    """

    name = "temperature"
    cost = "pass"
    params = (
        Param("temperature", float, neutral=1.0, low=0, high=MAX_TEMPERATURE, doc="below 1e-4: greedy"),
        Param("dynatemp_range", float, neutral=0.0, low=0, high=MAX_TEMPERATURE,
              doc="half-width around temperature"),
        Param("dynatemp_exponent", float, neutral=1.0, low=-100, high=100, switch=False,
              doc="how entropy maps to temperature"),
    )  # fmt: skip
    examples = (
        Example((2.0, 1.0, -1.0), {"temperature": 0.5}, (4.0, 2.0, -2.0)),
        Example((2.0, 3.0, 1.0), {"temperature": 0.0}, (-np.inf, 3.0, -np.inf)),
        Example((1.0, 1.0), {"temperature": 1.0, "dynatemp_range": 0.5}, (2 / 3, 2 / 3),
                note="equal probabilities have the greatest entropy: T = 1.5"),
    )  # fmt: skip

    def is_active(self, params: Mapping[str, Any]) -> bool:
        return bool(params["temperature"] != 1.0 or params["dynatemp_range"] > 0)

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        scale = rows.derived("1/T", temperature_scale)
        dynamic = rows.derived("T follows the entropy", is_temperature_dynamic)
        if dynamic.any():
            low, high = lowest_temperature(rows), highest_temperature(rows)
            scale = np.where(dynamic, inverse(temperature_by_entropy(logits, rows, low, high)), scale)
        scale_by(logits, scale)
        for i in np.flatnonzero(rows.derived("T is 0", is_temperature_greedy)):
            best = logits[i].argmax()
            value = logits[i, best]
            logits[i] = -np.inf
            logits[i, best] = value


def temperature_by_entropy(logits: np.ndarray, rows: Rows, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The dynamic temperature of each row between `low` and `high`, float64 [n]; 1 for a single token."""
    alive = (logits > -np.inf).sum(axis=1)
    max_entropy = np.where(alive > 1, log2_64(alive), 1.0)
    share = power(entropy_bits(distances(logits)) / max_entropy, rows["dynatemp_exponent"])
    dynamic = np.clip(low + (high - low) * share, GREEDY_BELOW, MAX_TEMPERATURE)
    return np.where(alive > 1, dynamic, 1.0)


def scale_by(logits: np.ndarray, scale: np.ndarray) -> None:
    """Multiply row i of `logits` [n, columns] by float32 `scale`[i], in place; no logit becomes infinite."""
    alive = logits > -np.inf if _may_overflow(logits, scale.max()) else None
    np.multiply(logits, scale[:, None], out=logits)
    if alive is not None:
        settle(logits, alive)


def _may_overflow(logits: np.ndarray, scale: np.float32) -> bool:
    """Whether a finite logit times `scale` could overflow."""
    if scale <= 1:
        return False
    bound = FLT_MAX / 2 / scale
    return bool(logits.max() > bound or ((logits < -bound) & (logits > -np.inf)).any())


def lowest_temperature(rows: Rows) -> np.ndarray:
    """The least temperature of a dynamic one, float64 [n]."""
    return np.maximum(0.0, rows["temperature"] - rows["dynatemp_range"])


def highest_temperature(rows: Rows) -> np.ndarray:
    """The greatest temperature of a dynamic one, float64 [n]."""
    return rows["temperature"] + rows["dynatemp_range"]


def is_temperature_greedy(rows: Rows) -> np.ndarray:
    """bool [n]: whether only the best token stays."""
    return np.asarray(rows["temperature"] < GREEDY_BELOW)


def is_temperature_dynamic(rows: Rows) -> np.ndarray:
    """bool [n]: whether the temperature follows the entropy."""
    return (rows["dynatemp_range"] > 0) & ~is_temperature_greedy(rows)


def temperature_scale(rows: Rows) -> np.ndarray:
    """float32(1/T), and 1 for rows that are greedy or have a dynamic temperature."""
    exempt = is_temperature_greedy(rows) | is_temperature_dynamic(rows)
    return inverse(np.where(exempt, 1.0, rows["temperature"]))


def inverse(temperature: np.ndarray) -> np.ndarray:
    """float32(1/T) for float64 temperatures."""
    return (1.0 / temperature).astype(np.float32)
