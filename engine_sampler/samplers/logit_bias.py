"""logit_bias: make individual tokens more or less likely."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arithmetic import FLT_MAX
from ..base.giving_way import unhurried
from ..contract import Example, Param, Rows, Sampler, Vocabulary
from ..contract.values import id_of_digits, token_id
from ._columns import finite_columns, store

_ALLOWED = "token ids, each once, with biases that are finite numbers or -inf"


def _biases(value: Any) -> tuple[tuple[int, float], ...]:
    """(id, bias) pairs, ascending by id, from a mapping whose keys are ids or their decimal digits."""
    pairs = value.items() if isinstance(value, Mapping) else value
    biases: dict[int, float] = {}
    try:
        for count, (key, bias) in enumerate(unhurried(pairs), 1):
            biases[_key(key)] = bias_of(bias, _ALLOWED)
            if len(biases) < count:
                raise ValueError(_ALLOWED)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(_ALLOWED) from None
    return tuple((token, biases[token]) for token in unhurried(sorted(biases)))


def _key(value: Any) -> int:
    return id_of_digits("logit_bias", value) if isinstance(value, str) else token_id(value)


def bias_of(value: Any, allowed: str) -> float:
    """`value` as a bias: a finite number or −inf; else raises TypeError with the text `allowed`."""
    if isinstance(value, (bool, str)) or not (math.isfinite(value) or value == -math.inf):
        raise TypeError(allowed)
    return float(value)


def as_logits(biases: np.ndarray) -> np.ndarray:
    """float64 biases as float32, where only −inf becomes −inf."""
    finite = np.clip(biases, -FLT_MAX, FLT_MAX)
    return np.where(biases == -np.inf, biases, finite).astype(np.float32)


def add_biases(row: np.ndarray, rows: Rows, i: int, ids: np.ndarray, biases: np.ndarray) -> None:
    """Add float32 `biases` to the logits of `ids`, ascending, in row i."""
    columns, which = finite_columns(row, rows, i, ids)
    bias = biases[which]
    store(row, columns, row[columns] + bias)
    row[columns[bias == -np.inf]] = -np.inf


class LogitBias(Sampler):
    """Add a bias to the logits of chosen tokens; a bias of −inf removes the token.

    Formula: l + float32(bias), clamped to ±FLT_MAX. Keys are token ids, or their digits as in JSON.
    A removed token stays removed whatever its bias. If biases of −inf leave no token, the request
    ends with an error. {} is neutral.

    Source: OpenAI's API, which limits biases to −100 to 100 (vLLM clamps to these limits); here any
    finite bias counts in full. llama.cpp adds or drops a second bias for the same id, depending on the
    order of its candidates; here an id that is given twice (5 and "5") is refused.
    """

    name = "logit_bias"
    role = "edit"
    params = (Param("logit_bias", object, neutral=(), convert=_biases, limit=16_384, doc="{token id: bias}"),)
    examples = (
        Example((1.0, 2.0, 3.0), {"logit_bias": {0: 2.5, "2": -1.0}}, (3.5, 2.0, 2.0)),
        Example((1.0, 2.0, 3.0), {"logit_bias": {2: -math.inf}}, (1.0, 2.0, -np.inf)),
        Example((1.0, -np.inf), {"logit_bias": {1: 100.0}}, (1.0, -np.inf), note="removed stays removed"),
    )

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
        ids = [token for token, _ in params["logit_bias"]]
        vocabulary.check_ids("logit_bias", ids)
        return np.array(ids, np.int64), as_logits(np.array([bias for _, bias in params["logit_bias"]]))

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        for i, (row, (ids, biases)) in enumerate(zip(logits, rows.resolved, strict=True)):
            add_biases(row, rows, i, ids, biases)
