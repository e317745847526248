"""Uniform numbers from a key, a context and a token: what vLLM and SGLang compute, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from engine_sampler.arithmetic import philox4x32

_MASK = 0xFFFFFFFF
_CONTEXT, _TOKEN = 0x574D4358, 0x574D544B
"""What vLLM separates the numbers of contexts and of tokens by."""

Uniform = Callable[[int, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""(key, contexts, which, token_ids): u of the `token_ids` [n], each behind the one of `contexts` [m, width]
that `which` [n] names; float64 [n] in (0, 1)."""


def vllm_uniform(key: int, contexts: np.ndarray, which: np.ndarray, token_ids: np.ndarray) -> np.ndarray:
    """See `Uniform`. Philox4x32-10 takes in the context, four ids at a time, then the token: as float32,
    u = (w + 1)/(2^24 + 1), w the upper 24 bits of a word. Ids of −1 stand before the text. Source: vLLM's
    `philox4x32-10-v1`.
    """
    low, high, (n, width) = key & _MASK, key >> 32, contexts.shape
    words = (contexts & _MASK).astype(np.uint64)
    state = [np.full(n, word, np.uint64) for word in (_CONTEXT, width, 0, 0)]
    for offset in range(0, width, 4):
        block = words[:, offset : offset + 4].T
        for i, word in enumerate(state):
            word ^= block[i] if i < len(block) else np.uint64(_MASK - i)
        state = list(philox4x32((state[0], state[1], state[2], state[3]), (low ^ offset, high)))
    state = [word[which] for word in state]
    counter = (token_ids >> 2).astype(np.uint64), state[0], state[1], state[2]
    drawn = np.stack(philox4x32(counter, (state[3] ^ np.uint64(low), high ^ _TOKEN)))
    drawn = drawn[token_ids & 3, np.arange(len(token_ids))] >> np.uint64(8)
    return ((drawn.astype(np.float64) + 1.0) / (2**24 + 1)).astype(np.float32).astype(np.float64)


def sglang_uniform(key: int, contexts: np.ndarray, which: np.ndarray, token_ids: np.ndarray) -> np.ndarray:
    """See `Uniform`. MurmurHash3 of the key, of the context's hash and of the token: u = (h + 1/2)/2^32.
    Ids below 0 stand before the text, and are left out. Source: SGLang's `srt/sampling/watermarking`.
    """
    hashes, lengths = np.zeros(len(contexts), np.uint32), (contexts >= 0).sum(axis=1)
    for length in np.unique(lengths).tolist():
        some = contexts[lengths == length][:, contexts.shape[1] - length :].astype(np.uint32)
        hashes[lengths == length] = _murmur3([*some.T])
    words = np.uint32(key & _MASK), np.uint32(key >> 32), hashes[which], token_ids.astype(np.uint32)
    return (_murmur3(words).astype(np.float64) + 0.5) / 2**32


def _murmur3(words: Sequence[np.ndarray | np.uint32]) -> np.ndarray:
    """MurmurHash3's 32-bit hash of some words, with the seed 0; uint32, wrapping."""
    state: np.ndarray = np.zeros(1, np.uint32)
    for word in words:
        value = _rotated(np.atleast_1d(word) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        state = _rotated(state ^ value, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state = state ^ np.uint32(4 * len(words))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        state = (state ^ (state >> np.uint32(shift))) * np.uint32(factor)
    return state


def _rotated(words: np.ndarray, bits: int) -> np.ndarray:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


SCHEMES: Mapping[str, Uniform] = {"vllm": vllm_uniform, "sglang": sglang_uniform}


def contexts_include_prompt(scheme: str) -> bool:
    """Whether the first contexts of an output reach into its prompt; in vLLM they do not."""
    return scheme == "sglang"


def key_from(value: object) -> int:
    """A key of 64 bits: an integer, or up to 16 hexadecimal digits as SGLang has them: "77" is 0x77. Raises
    ValueError."""
    if isinstance(value, str):
        digits = value.lower().removeprefix("0x")
        if 0 < len(digits) <= 16 and set(digits) <= set("0123456789abcdef"):
            return int(digits, 16)
    elif isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 <= value < 2**64:
        return int(value)
    raise ValueError("an integer from 0 to 2^64 - 1, or a string of up to 16 hexadecimal digits")


def keys_from(values: Iterable[object]) -> tuple[int, ...]:
    """Keys of up to 63 bits, one for each layer of tournaments. Raises ValueError."""
    if isinstance(values, (str, bytes)):
        raise ValueError("a list of integers")
    keys = tuple(key_from(value) for value in values)
    if len(set(keys)) != len(keys) or any(key >= 2**63 for key in keys):
        raise ValueError("a list of different integers from 0 to 2^63 - 1")
    return keys
