"""watermark_green: favour tokens of a list that the token before determines."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import numpy as np

from engine_sampler import ParameterError
from engine_sampler.arithmetic import settle
from engine_sampler.contract import Example, Param, Rows, Sampler

from .contexts import first_of_each
from .detection import Detection, binomial_tail, checked_ids

_LISTS = 1024
"""So many lists are kept; each takes a byte for eight tokens of the vocabulary."""


class GreenList(Sampler):
    """Add `watermark_green_bias` to the logits of the green tokens.

    Formula: the green tokens are the first int(ratio·V) of a permutation of all V token ids. It is the one
    that torch.randperm makes on a CPU with the seed key·(last token) mod (2^64 − 1). Without any token before
    it, nothing is added. Removed tokens stay removed. The bias changes the distribution: 0.5 to 2 is usual.

    A list takes some 6 ms for 131,072 tokens; those of the last 1,024 different tokens are kept. Sources:
    Kirchenbauer et al. 2023, arXiv 2301.10226; transformers' `WatermarkingConfig` with `seeding_scheme`
    "lefthash". There, lists made on a GPU differ, since its random numbers do.
    """

    name = "watermark_green"
    params = (
        Param("watermark_green_bias", float, neutral=0.0, low=-100, high=100, doc="what green tokens gain"),
        Param("watermark_green_ratio", float, neutral=0.25, low=0.01, high=0.99, switch=False,
              doc="the share of green tokens"),
        Param("watermark_green_key", int, neutral=15485863, low=1, high=2**62, switch=False,
              doc="the secret"),
    )  # fmt: skip
    cost = "history"
    examples = (
        Example((0.0, 0.0, 0.0, 0.0), {"watermark_green_bias": 2.0}, (0.0, 0.0, 2.0, 0.0),
                prompt_token_ids=(1,), note="one of four is green"),
        Example((0.0, 0.0), {"watermark_green_bias": 2.0}, (0.0, 0.0), note="no token before"),
    )  # fmt: skip

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        for i, bias in enumerate(rows["watermark_green_bias"].tolist()):
            history = rows.token_ids(i)
            if not len(history):
                continue
            key, ratio = int(rows["watermark_green_key"][i]), float(rows["watermark_green_ratio"][i])
            is_green = green_list(key, ratio, int(history[-1]), rows.vocabulary.size)
            columns = np.flatnonzero(logits[i] > -np.inf)
            ids = columns if rows.ids is None else rows.ids[i, columns]
            green = columns[is_green[ids >> 3] >> (ids & 7).astype(np.uint8) & 1 == 1]
            logits[i, green] = settle(logits[i, green].astype(np.float64) + bias)


@functools.lru_cache(maxsize=_LISTS)
def green_list(key: int, ratio: float, last_token_id: int, vocab_size: int) -> np.ndarray:
    """Which tokens are green behind `last_token_id`: uint8 [⌈V/8⌉], the bit id mod 8 of byte id // 8."""
    is_green = np.zeros(vocab_size, bool)
    seed = key * last_token_id % (2**64 - 1)
    is_green[first_of_permutation(seed, vocab_size, int(vocab_size * ratio))] = True
    return np.packbits(is_green, bitorder="little")


def first_of_permutation(seed: int, size: int, count: int) -> list[int]:
    """The first `count` entries of torch.randperm(size) on a CPU: Fisher and Yates's shuffle. Entry i changes
    places with entry i + r mod (size − i), r the next 32 bits of MT19937, seeded by 32 bits of `seed`."""
    generator = np.random.MT19937()
    generator._legacy_seeding(seed & 0xFFFFFFFF)
    places = np.arange(count)
    others = places + (generator.random_raw(count) % (size - places).astype(np.uint64)).astype(np.int64)
    entries = list(range(size))
    for i, other in enumerate(others.tolist()):
        entries[i], entries[other] = entries[other], entries[i]
    return entries[:count]


class GreenListDetector:
    """Finds the mark of `watermark_green` in token ids.

    score = how many of the different pairs of neighbours end with a green token; without the mark each does
    with a probability of int(ratio·V)/V, and the p-value is the tail of that binomial distribution.
    `vocab_size`, at most 2^24, is that of the model which made the text; other arguments are the request's.
    """

    def __init__(self, vocab_size: int, *, key: int = 15485863, ratio: float = 0.25) -> None:
        _, ratio_param, key_param = GreenList.params
        self.key, self.ratio = key_param.check(key), ratio_param.check(ratio)
        self.vocab_size = Param("vocab_size", int, neutral=0, low=1, high=2**24).check(vocab_size)

    def detect(self, token_ids: Iterable[int]) -> Detection:
        """What is in a text. Pass the prompt's last token with it if that is known: its list made the first
        token."""
        ids = checked_ids("token_ids", token_ids)
        if len(ids) and int(ids.max()) >= self.vocab_size:
            raise ParameterError(f"token_ids is not allowed: ids below vocab_size={self.vocab_size}")
        pairs = np.stack((ids[:-1], ids[1:]), axis=1)
        pairs = pairs[first_of_each(pairs)]
        green = sum(self._is_green(last, token_id) for last, token_id in pairs.tolist())
        share = int(self.vocab_size * self.ratio) / self.vocab_size
        return Detection(float(green), len(pairs), binomial_tail(green, len(pairs), share) if share else 1.0)

    def _is_green(self, last: int, token_id: int) -> bool:
        is_green = green_list(self.key, self.ratio, last, self.vocab_size)
        return bool(is_green[token_id >> 3] >> (token_id & 7) & 1)
