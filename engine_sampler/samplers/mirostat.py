"""mirostat: keep the surprise of the text near a target by limiting how many tokens may be drawn."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..arithmetic import (
    FLT_MAX,
    LN_2,
    distances,
    exp2_64,
    first_columns,
    keep_leading,
    log2_64,
    log2_mass,
    pick_by_weight,
    reorder,
    weights,
)
from ..contract import Example, Param, Rows, Selection, Selector

MIROSTAT_HEAD = 100
"""The number of tokens from which the slope of the distribution is estimated."""

MIROSTAT_STEPS = log2_64(np.arange(2, MIROSTAT_HEAD + 1) / np.arange(1, MIROSTAT_HEAD))
"""tᵢ = log2((i + 2)/(i + 1)): the difference between the logarithms of neighbouring ranks."""

MIROSTAT_STEP_SQUARES = np.cumsum(MIROSTAT_STEPS * MIROSTAT_STEPS)
"""Σ tᵢ² of the first i + 1 steps."""


@dataclass
class Mu:
    """The greatest surprise, in bits, that the next token may have; past values are kept for rollback."""

    tau: float
    eta: float
    values: list[float] = field(default_factory=list)

    @property
    def now(self) -> float:
        return self.values[-1]


class SurpriseControl(Selector):
    """The base class of both versions: draw one of the kept tokens, and adjust mu by its surprise.

    surprise = d + log2_64(Σw of the kept) − 30 bits, d = −y of the drawn token. When the token is
    accepted, mu ← mu − eta·(surprise − tau), in float64, starting from mu = 2·tau; a token chosen
    elsewhere does not change mu.
    """

    ignores_warps = True
    lazy = True

    def new_state(self, params: Mapping[str, float], prompt_token_ids: np.ndarray) -> Mu:
        tau = params["mirostat_tau"]
        return Mu(tau, params["mirostat_eta"], [2.0 * tau])

    def accept(self, state: Mu, token_ids: Sequence[int], notes: Sequence[float | None] = ()) -> None:
        for _, surprise in itertools.zip_longest(token_ids, notes):
            error = 0.0 if surprise is None else surprise - state.tau
            state.values.append(state.now - state.eta * error)

    def rollback(self, state: Mu, n: int) -> None:
        del state.values[len(state.values) - n :]

    def fork(self, state: Mu) -> Mu:
        return Mu(state.tau, state.eta, state.values.copy())

    def keep(self, logits: np.ndarray, y: np.ndarray, w: np.ndarray, rows: Rows) -> np.ndarray:
        """bool [n, columns]: the tokens that may be drawn, at least one per row."""
        raise NotImplementedError

    def candidates(self, logits: np.ndarray, rows: Rows) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        y = distances(logits)
        kept = self.keep(logits, y, weights(y), rows) & (logits > -np.inf)
        return kept, {"mu": current_mu(rows)}

    def select(self, logits: np.ndarray, rows: Rows) -> Selection:
        y = distances(logits)
        w = weights(y)
        w *= self.keep(logits, y, w, rows)
        columns = pick_by_weight(w, rows.draw())
        bits = -y[np.arange(len(y)), columns].astype(np.float64)
        return Selection(columns, bits + log2_mass(w.sum(axis=1)))


def current_mu(rows: Rows) -> np.ndarray:
    """mu of each row, float64 [n]."""
    return np.array([state.now for state in rows.states])


class Mirostat(SurpriseControl):
    """Keep the k likeliest tokens, with k chosen so that a Zipf distribution of this slope has surprise mu.

    Formula: bᵢ = dᵢ₊₁ − dᵢ bits between neighbours among the first 100 tokens, s = Σ tᵢ·bᵢ / Σ tᵢ².
    Then ε = s − 1 and g = ε / (1 − N^−ε), with N the vocabulary's size.
    At last k = (g·2^mu)^(1/s) = exp2_64((log2_64(g) + mu) / s), rounded down, at least 1.
    One of those k is drawn, and mu is adjusted as in `SurpriseControl`.

    All in float64, the sums in ascending order, d at most FLT_MAX and s at least 2^−60.
    N^−ε = exp2_64(−ε·log2_64(N)). Near ε = 0, for |x| < 2^−10 with x = ε·ln N,
    g = (1 + x/2 + x·x/12) / ln N, ln N = log2_64(N)·ln 2. A row with one token keeps it. N is
    never the number of columns.

    `mirostat` = 0 is neutral, 1 selects this version, 2 selects `mirostat_v2`. Masks, biases,
    penalties, DRY and temperature stay in the chain, in every `order`; all other samplers are ignored.
    llama.cpp ignores penalties and DRY as well, and so does a request read by
    `engine_sampler_llama_cpp.from_request`. Source: Basu et al. 2020, arXiv 2007.14966, with
    m = 100. llama.cpp works in float32 and keeps one token if k overflows an int, whereas all are kept
    here; it adjusts mu even if the token is not accepted.
    """

    name = "mirostat"
    params = (
        Param("mirostat", int, neutral=0, choices=(0, 1, 2), doc="version; 0 is off"),
        Param("mirostat_tau", float, neutral=5.0, low=0, high=1e6, switch=False,
              doc="target surprise in bits"),
        Param("mirostat_eta", float, neutral=0.1, low=0, high=1e6, switch=False,
              doc="how fast mu adapts"),
    )  # fmt: skip
    examples = (
        Example((0.0, -np.inf, -np.inf), {"mirostat": 1}, token=0, note="the only token left"),
        Example((1.0, 3.0, 2.0), {"mirostat": 1, "mirostat_tau": 0.0}, token=1, note="a target of zero"),
    )

    def is_active(self, params: Mapping[str, int]) -> bool:
        return params["mirostat"] == 1

    def keep(self, logits: np.ndarray, y: np.ndarray, w: np.ndarray, rows: Rows) -> np.ndarray:
        alive = (logits > -np.inf).sum(axis=1)
        s = np.maximum(_slope(logits, y, alive), 2.0**-60)
        k = exp2_64((log2_64(gap(s - 1.0, rows.vocabulary.size)) + current_mu(rows)) / s)
        return keep_leading(logits, np.clip(k, 1, alive).astype(np.int64))


def _slope(logits: np.ndarray, y: np.ndarray, alive: np.ndarray) -> np.ndarray:
    """s, the exponent of the Zipf distribution that best fits the first tokens; float64 [n]."""
    head = first_columns(logits, min(MIROSTAT_HEAD, logits.shape[1]))
    d = np.zeros((len(y), MIROSTAT_HEAD))
    d[:, : head.shape[1]] = -np.maximum(reorder(y, head), -FLT_MAX)
    pairs = np.minimum(MIROSTAT_HEAD, alive) - 1
    products = np.where(np.arange(MIROSTAT_HEAD - 1) < pairs[:, None], MIROSTAT_STEPS * np.diff(d), 0.0)
    return products.cumsum(axis=1)[:, -1] / MIROSTAT_STEP_SQUARES[np.maximum(pairs, 1) - 1]


def gap(epsilon: np.ndarray, vocab_size: int) -> np.ndarray:
    """g = ε / (1 − N^−ε), extended continuously to ε = 0; a vocabulary of one token counts as two."""
    bits = float(log2_64(max(vocab_size, 2)))
    x = epsilon * (bits * LN_2)
    near_zero = np.abs(x) < 2.0**-10
    far = np.where(near_zero, 1.0, epsilon)
    series = (1.0 + x / 2.0 + x * x / 12.0) / (bits * LN_2)
    return np.where(near_zero, series, far / (1.0 - exp2_64(-far * bits)))
