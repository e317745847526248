"""A small language model for the demo: interpolated Kneser–Ney n-grams in NumPy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

ORDER = 5
_FLOOR = 1e-3
"""Share of the unigram probability spread over the whole vocabulary, so that no token is impossible."""
_MAX_DISCOUNT = 0.75
"""In a short text almost every n-gram occurs once, and the usual estimate would discount them all to zero."""


@dataclass(frozen=True)
class _Level:
    """All contexts of one length: sorted codes, and a slice of continuations per context.

    contexts  int64 [contexts], ascending.
    starts    int64 [contexts + 1]; continuations of context i are starts[i] .. starts[i + 1] − 1.
    tokens    int64 [n-grams], the next token.
    shares    float32 [n-grams], its discounted probability.
    rest      float32 [contexts], the probability left for the next shorter context.
    """

    contexts: np.ndarray
    starts: np.ndarray
    tokens: np.ndarray
    shares: np.ndarray
    rest: np.ndarray


class NGramModel:
    """Log-probabilities of the next token given the last `ORDER` − 1, learnt by counting.

    A context is looked up at every length: each longer one that was seen takes its discounted share
    and leaves the rest to the shorter. Shorter contexts count the distinct tokens that precede an
    n-gram rather than its occurrences (Kneser and Ney 1995), so that a token that occurs in only one
    phrase is not predicted everywhere. `start_id` pads the context before a text and is never
    predicted.
    """

    def __init__(
        self, documents: Iterable[Sequence[int]], vocab_size: int, end_id: int, start_id: int
    ) -> None:
        if vocab_size**ORDER >= 2**63:
            raise ValueError(f"vocab_size={vocab_size} is not allowed: at most {int(2 ** (63 / ORDER)) - 1}")
        self.vocab_size = vocab_size
        self._start = [start_id] * (ORDER - 1)
        stream = [token for document in documents for token in (*self._start, *document, end_id)]
        windows = _windows(np.array(stream, np.int64), vocab_size)
        codes, counts = np.unique(windows[windows % vocab_size != start_id], return_counts=True)
        self._levels: list[_Level] = []
        for length in range(ORDER - 1, 0, -1):
            self._levels.insert(0, _level(codes, counts, vocab_size))
            codes, counts = np.unique(codes % vocab_size**length, return_counts=True)
        self._unigrams = _unigrams(codes, counts, vocab_size, start_id)

    def logits(self, contexts: Iterable[Sequence[int] | np.ndarray]) -> np.ndarray:
        """float32 [rows, vocab]: the logits after each of `contexts`, token ids of any length."""
        return np.stack([self._row(context) for context in contexts])

    def _row(self, context: Sequence[int] | np.ndarray) -> np.ndarray:
        p = self._unigrams.copy()
        code, scale = 0, 1
        latest_first = [*reversed(context[1 - ORDER :]), *self._start]
        for level, token in zip(self._levels, latest_first, strict=False):
            code += int(token) * scale
            scale *= self.vocab_size
            i = int(np.searchsorted(level.contexts, code))
            if i == len(level.contexts) or level.contexts[i] != code:
                break
            p *= level.rest[i]
            part = slice(level.starts[i], level.starts[i + 1])
            p[level.tokens[part]] += level.shares[part]
        with np.errstate(divide="ignore"):  # the start token is impossible: −inf
            return np.log(p, out=p)


def _windows(stream: np.ndarray, vocab_size: int) -> np.ndarray:
    """The code of every n-gram in the stream: its tokens as digits, the last one least significant."""
    code = np.zeros(len(stream) - ORDER + 1, np.int64)
    for i in range(ORDER):
        code = code * vocab_size + stream[i : i + len(code)]
    return code


def _level(codes: np.ndarray, counts: np.ndarray, vocab_size: int) -> _Level:
    contexts, starts = np.unique(codes // vocab_size, return_index=True)
    kinds = np.diff(starts, append=len(codes))
    totals = np.add.reduceat(counts, starts)
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    discount = min(_MAX_DISCOUNT, once / max(1, once + 2 * twice))
    return _Level(
        contexts=contexts,
        starts=np.append(starts, len(codes)),
        tokens=codes % vocab_size,
        shares=((counts - discount) / np.repeat(totals, kinds)).astype(np.float32),
        rest=(discount * kinds / totals).astype(np.float32),
    )


def _unigrams(tokens: np.ndarray, counts: np.ndarray, vocab_size: int, start_id: int) -> np.ndarray:
    p = np.full(vocab_size, _FLOOR / vocab_size, np.float64)
    p[tokens] += (1 - _FLOOR) * counts / counts.sum()
    p[start_id] = 0
    return p.astype(np.float32)
