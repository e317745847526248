"""adaptive_p: draw tokens with a probability near a target."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..arithmetic import distances, pick_by_weight, weights
from ..contract import Example, Param, Rows, Selection, Selector

ADAPTIVE_WIDTH = 0.3
"""The unit of distance from the target, in probability."""
ADAPTIVE_PEAK = 5.0
"""The new logit of a token exactly at the target."""
ADAPTIVE_SHARPNESS = 10.0
"""How fast the logit falls with the distance from the target."""


@dataclass
class Average:
    """The decaying average W/N of the probabilities of chosen tokens; past values are kept for rollback."""

    decay: float
    values: list[tuple[float, float]]

    @property
    def now(self) -> float:
        weighted, total = self.values[-1]
        return weighted / total


class AdaptiveP(Selector):
    """Reshape the distribution to favour probabilities near a target that adapts to past choices.

    Formula: `p = w/Σw`, `T = min(max(2·target − W/N, 0), 1)`, `d = |p − T|/0.3` and
    `l' = float32(5 − 10·d·d/(1 + d))` for every surviving token, in float64 from left to right. Then a
    draw from the softmax of l' as in `dist`. When the token is accepted, with p its probability before
    the reshaping: W ← p + decay·W, N ← 1 + decay·N, starting from W = target/(1 − decay),
    N = 1/(1 − decay). A token chosen elsewhere does not change the average.

    Any target below 0 is off; −1 is neutral. l' is never lower than for p = 0, so many improbable
    tokens together have a large weight: use a truncation (min_p) before it. Source: llama.cpp's
    adaptive-p, which computes this in float32; it also runs that sampler with a target below 0, where
    the draw is a plain one.
    """

    name = "adaptive_p"
    lazy = True
    params = (
        Param("adaptive_target", float, neutral=-1.0, low=-1, high=1, doc="target probability; < 0 is off"),
        Param("adaptive_decay", float, neutral=0.9, low=0, high=0.99, switch=False,
              doc="how long past choices count"),
    )  # fmt: skip
    examples = (
        Example((0.0, -np.inf, -np.inf), {"adaptive_target": 0.2}, token=0, note="the only token left"),
        Example((0.0, 40.0, 0.0), {"adaptive_target": 1.0}, token=1,
                note="far from the target: the others are 37 bits below"),
    )  # fmt: skip

    def is_active(self, params: Mapping[str, float]) -> bool:
        return params["adaptive_target"] >= 0

    def new_state(self, params: Mapping[str, float], prompt_token_ids: np.ndarray) -> Average:
        target, decay = params["adaptive_target"], params["adaptive_decay"]
        return Average(decay, [(target / (1.0 - decay), 1.0 / (1.0 - decay))])

    def accept(self, state: Average, token_ids: Sequence[int], notes: Sequence[float | None] = ()) -> None:
        for _, p in itertools.zip_longest(token_ids, notes):
            weighted, total = state.values[-1]
            if p is not None:
                weighted, total = p + state.decay * weighted, 1.0 + state.decay * total
            state.values.append((weighted, total))

    def rollback(self, state: Average, n: int) -> None:
        del state.values[len(state.values) - n :]

    def fork(self, state: Average) -> Average:
        return Average(state.decay, state.values.copy())

    def select(self, logits: np.ndarray, rows: Rows) -> Selection:
        w = weights(distances(logits))
        p = w / w.sum(axis=1, keepdims=True)
        reshaped = _reshape(p, corrected_adaptive_target(rows)[:, None])
        reshaped[logits == -np.inf] = -np.inf
        columns = pick_by_weight(weights(distances(reshaped)), rows.draw())
        return Selection(columns, p[np.arange(len(p)), columns])


def corrected_adaptive_target(rows: Rows) -> np.ndarray:
    """T: the target, corrected for the deviation of past choices; float64 [n]."""
    average = np.array([state.now for state in rows.states])
    return np.clip(2.0 * rows["adaptive_target"] - average, 0.0, 1.0)


def _reshape(p: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The logits l' of tokens with probabilities `p` [n, columns], float32."""
    d = np.abs(p - target) / ADAPTIVE_WIDTH
    return (ADAPTIVE_PEAK - ADAPTIVE_SHARPNESS * d * d / (1.0 + d)).astype(np.float32)
