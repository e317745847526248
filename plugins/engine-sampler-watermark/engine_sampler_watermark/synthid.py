"""watermark_synthid: tournaments between tokens, layer by layer."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import numpy as np

from engine_sampler.arithmetic import LN_2, distances, log2_64, weights
from engine_sampler.contract import Example, Param, Rows, Sampler

from .contexts import contexts_of, first_of_each, newest_context, rows_by
from .detection import Detection, binomial_tail, checked_ids
from .keyed_noise import keys_from

MOST_KEYS = 64
WIDEST = 64
HISTORY = 1024
"""So many earlier contexts are compared with the newest."""

_FACTOR, _TABLE = np.uint64(6364136223846793005), 65536
_SMALLEST = 2.0**-1022


class SynthID(Sampler):
    """Move probability to the tokens whose random bits are 1, once for each key.

    Formula: from p = w/Σw, for each key, p ← p·(1 + g − Σ g·p) with the bits g of the tokens; then l' = ln p,
    in float64 from left to right, rounded once. Sums go by ascending id. A bit comes from a table of 65,536,
    at the place h mod 65,536: h ← (h + x)·6364136223846793005 + 1 in 64 bits, from h = 1, for x each of the
    ngram_len − 1 tokens before, the token, and the key. Zeros stand before the output.

    Over all keys the distribution stays as it is. A context that one of the last 1,024 tokens had changes
    nothing. 20 to 30 keys are usual; only the lower 16 bits of each decide, so they should differ there.
    Sources: Dathathri et al. 2024, Nature 634; transformers' `SynthIDTextWatermarkingConfig`, whose table is
    that of torch on a CPU.
    """

    name = "watermark_synthid"
    params = (
        Param("watermark_synthid_keys", tuple, neutral=(), convert=keys_from, limit=MOST_KEYS,
              doc="the secret: a key for each layer; empty is off"),
        Param("watermark_synthid_ngram_len", int, neutral=5, low=2, high=WIDEST, switch=False,
              doc="the tokens that determine a bit, the drawn one included"),
        Param("watermark_synthid_table_seed", int, neutral=0, low=0, high=2**32 - 1, switch=False,
              doc="the seed of the table of bits"),
    )  # fmt: skip
    cost = "sort"
    examples = (
        Example((0.0, -np.inf), {"watermark_synthid_keys": (1, 2)}, (0.0, -np.inf), note="one token left"),
        Example(
            (0.0, 0.0, 0.0), {"watermark_synthid_keys": (654, 400, 836)}, (-2.57429, -0.100108, -3.960585)
        ),
    )

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        settings = (
            rows[f"watermark_synthid_{name}"].tolist() for name in ("keys", "ngram_len", "table_seed")
        )
        for (keys, ngram_len, seed), some in rows_by(zip(*settings, strict=True)).items():
            contexts = {i: c for i in some if (c := _context(rows, i, ngram_len - 1)) is not None}
            if not contexts:
                continue
            marked, before = [*contexts], _start(np.stack([*contexts.values()]))
            ids = np.arange(logits.shape[1]) if rows.ids is None else rows.ids[marked]
            w = weights(distances(logits[marked])).astype(np.float64)
            p = _tournaments(w, _hashed(before[:, None], ids), keys, seed)
            moved = log2_64(np.maximum(p, _SMALLEST)) * LN_2
            logits[marked] = np.where(logits[marked] > -np.inf, moved, -np.inf)


def _context(rows: Rows, i: int, width: int) -> np.ndarray | None:
    output = rows.output_token_ids(i)
    return newest_context(output[:0], output, width, 0, HISTORY)


def _tournaments(w: np.ndarray, ngrams: np.ndarray, keys: Sequence[int], seed: int) -> np.ndarray:
    """Probabilities [n, columns] after one layer for each key, from weights and hashes of the same shape."""
    p = w / w.sum(axis=1, keepdims=True)
    for key in keys:
        bits = _bits(ngrams, key, seed)
        p = p * (1.0 + bits - np.cumsum(bits * p, axis=1)[:, -1:])
    return p


def _start(contexts: np.ndarray) -> np.ndarray:
    """The hashes of `contexts` [n, width], uint64 [n]."""
    state = np.ones(len(contexts), np.uint64)
    for ids in contexts.T:
        state = _hashed(state, ids)
    return state


def _hashed(state: np.ndarray, values: np.ndarray | int) -> np.ndarray:
    return (state + np.asarray(values).astype(np.uint64)) * _FACTOR + np.uint64(1)


def _bits(ngrams: np.ndarray, key: int, seed: int) -> np.ndarray:
    """The bits of some hashes in the layer of a key, float64."""
    # 65,536 divides 2^64: the remainder of the signed number that torch takes is that of the unsigned one.
    return _table(seed)[_hashed(ngrams, key) % np.uint64(_TABLE)]


@functools.lru_cache(maxsize=16)
def _table(seed: int) -> np.ndarray:
    """torch.randint(0, 2, (65536,)) on a CPU: the lowest bits of MT19937; float64."""
    generator = np.random.MT19937()
    generator._legacy_seeding(seed)
    return (generator.random_raw(_TABLE) & np.uint64(1)).astype(np.float64)


class SynthIDDetector:
    """Finds the mark of `watermark_synthid` in token ids.

    score = Σ of the bits of all tokens, one for each key, over the tokens whose context occurs for the first
    time and lies within the text; without the mark each is 1 with probability 1/2, and the p-value is the
    tail of that binomial distribution. Arguments are those of the request.
    """

    def __init__(self, keys: Sequence[int], *, ngram_len: int = 5, table_seed: int = 0) -> None:
        keys_param, ngram_param, seed_param = SynthID.params
        self.keys = keys_param.check(keys)
        if not 1 <= len(self.keys) <= MOST_KEYS:
            raise keys_param.error(keys, f"1 to {MOST_KEYS} keys")
        self.ngram_len, self.table_seed = ngram_param.check(ngram_len), seed_param.check(table_seed)

    def detect(self, token_ids: Iterable[int]) -> Detection:
        """What is in a text."""
        ids, width = checked_ids("token_ids", token_ids), self.ngram_len - 1
        contexts = contexts_of(ids, len(ids) + 1, width, 0)[width:-1]
        first = first_of_each(contexts)
        ngrams = _hashed(_start(contexts[first]), ids[width:][first])
        ones = sum(int(_bits(ngrams, key, self.table_seed).sum()) for key in self.keys)
        tail = binomial_tail(ones, len(first) * len(self.keys), 0.5)
        return Detection(float(ones), len(first), tail)
