"""lz_penalty: lower the logits of tokens that a compressor of the text would find cheap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..arithmetic import log2_64
from ..arithmetic.repeats import ends_repeated
from ..contract import Example, Param, Rows, Sampler
from ._columns import finite_columns, store

_NOTHING = np.zeros(0, np.int64)


class LzPenalty(Sampler):
    """Lower each token's logit by what a Lempel-Ziv compressor saves on it, in bits, times lz_penalty.

    The history is the last lz_penalty_window tokens of the output. A place in it counts if lz_penalty_ngram
    tokens or more precede it. There, m is 1 + the number of tokens before the place that are also the last
    ones of the history, at most lz_penalty_ngram; d is how many tokens there are from it to the end. A
    token's cost is the least (log2(d + 1) + log2 m) / m of its places. It lies within 0 and log2 V for a
    vocabulary of V tokens, and a token without a place costs log2 V.

    Formula: l − float32(lz_penalty·(log2 V − cost)), in float64, clamped to ±FLT_MAX; removed tokens stay
    removed. 0 is neutral, 0.2 the authors' choice. Source: Ginart et al. 2025, arXiv 2504.20131; as in their
    code for SGLang (ngram_penalty, ngram_n, ngram_lookback_window).
    """

    name = "lz_penalty"
    after = "dry"
    role = "penalty"
    cost = "history"
    params = (
        Param("lz_penalty", float, neutral=0.0, low=0, high=1000, doc="subtracted per bit that is saved"),
        Param("lz_penalty_ngram", int, neutral=32, low=1, high=1024, switch=False,
              doc="longest repeat that counts"),
        Param("lz_penalty_window", int, neutral=512, low=1, high=65_536, switch=False,
              doc="newest tokens of the output that are searched"),
    )  # fmt: skip
    examples = (
        Example((3.0, 3.0, 3.0, 3.0), {"lz_penalty": 1.0, "lz_penalty_ngram": 1}, (2.0, 2.292481, 3.0, 3.0),
                output_token_ids=(0, 1, 0), note="1 costs (log2 3 + log2 2) / 2 bits of 2"),
        Example((3.0, 3.0, 3.0, 3.0), {"lz_penalty": 1.0}, (3.0, 3.0, 3.0, 3.0),
                output_token_ids=(0, 1, 0), note="too short for 32 tokens before a place"),
    )  # fmt: skip

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        for i, (row, (ids, penalties)) in enumerate(zip(logits, lz_penalties(rows), strict=True)):
            columns, which = finite_columns(row, rows, i, ids)
            store(row, columns, row[columns] - penalties[which])


def lz_penalties(rows: Rows) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each row, the ids of the tokens that are penalised, ascending, and the float32 penalty of each."""
    most = log2_64(rows.vocabulary.size)
    names = ("lz_penalty", "lz_penalty_ngram", "lz_penalty_window")
    for i, (strength, n, window) in enumerate(zip(*(rows[name].tolist() for name in names), strict=True)):
        ids, costs = _costs(rows.output_token_ids(i)[-window:], n)
        yield ids, (strength * (most - np.clip(costs, 0.0, most))).astype(np.float32)


def _costs(window: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The tokens that have places in `window`, ascending, and the bits that each costs, float64."""
    if len(window) <= n:
        return _NOTHING, _NOTHING.astype(np.float64)
    places, lengths = ends_repeated(window, n, 0)
    counting = places <= len(window) - n
    distance, m = places[counting], 1 + lengths[counting]
    bits = (log2_64(distance + 1) + log2_64(m)) / m
    ids, which = np.unique(window[len(window) - distance], return_inverse=True)
    costs: Any = np.full(len(ids), np.inf)
    np.minimum.at(costs, which, bits)
    return ids, costs
