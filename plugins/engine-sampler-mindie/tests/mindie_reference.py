"""MindIE's processing in plain float64 NumPy, for comparison, and a batch to compare."""

import numpy as np
from engine_sampler_mindie import SamplingParam

VOCAB = 24
RNG = np.random.default_rng(5)
LOGITS = (3 * RNG.normal(size=(4, VOCAB))).astype(np.float32)


def param(**fields):
    return SamplingParam.from_numpy(**{name: np.array(values) for name, values in fields.items()})


def processed(
    logits,
    all_ids,
    output,
    repetition=1.0,
    frequency=0.0,
    presence=0.0,
    temperature=1.0,
    top_k=0,
    top_p=1.0,
):
    """The probabilities of one row [vocab] after MindIE's chain."""
    row = np.array(logits, np.float64)
    seen = sorted(set(all_ids))
    row[seen] = np.where(row[seen] < 0, row[seen] * repetition, row[seen] / repetition)
    counts = np.bincount(np.array(output, int), minlength=len(row))
    row -= frequency * counts
    row -= presence * (counts > 0)
    row /= temperature
    order = np.argsort(-row, kind="stable")
    order = order[: top_k or len(row)]
    shares = np.exp(row[order] - row[order[0]])
    shares /= shares.sum()
    exceeding = np.flatnonzero(shares.cumsum() > top_p)
    kept = order[: exceeding[0] + 1] if len(exceeding) else order
    probabilities = np.zeros(len(row))
    probabilities[kept] = shares[: len(kept)] / shares[: len(kept)].sum()
    return probabilities


def penalised(logits, all_ids, output, repetition=1.0, frequency=0.0, presence=0.0):
    """The logits of one row after the penalties."""
    row = np.array(logits, np.float64)
    seen = sorted(set(all_ids))
    row[seen] = np.where(row[seen] < 0, row[seen] * repetition, row[seen] / repetition)
    counts = np.bincount(np.array(output, int), minlength=len(row))
    return row - frequency * counts - presence * (counts > 0)


def padded(rows, pad):
    """Rows of ids as one int array."""
    width = max(map(len, rows))
    return np.array([list(row) + [pad] * (width - len(row)) for row in rows])
