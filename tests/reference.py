"""Independent float64 references for the samplers: direct definitions with libm."""

from __future__ import annotations

import numpy as np

NEG_INF = -np.inf


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of one row of logits, float64; 0 for −inf."""
    shifted = np.asarray(logits, np.float64) - np.max(logits)
    weights = np.exp(shifted)
    return weights / weights.sum()


def order(logits: np.ndarray) -> np.ndarray:
    """Ids of one row in (logit desc, id asc) order, without those at −inf."""
    ids = np.lexsort((np.arange(len(logits)), -np.asarray(logits, np.float64)))
    return ids[np.asarray(logits)[ids] > NEG_INF]


def kept(logits: np.ndarray) -> set[int]:
    """Ids whose logit is not −inf."""
    return set(np.flatnonzero(np.asarray(logits) > NEG_INF).tolist())
