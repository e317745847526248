"""llama.cpp's samplers through its C API, built from our parameters and applied to our rows.

Importing this module needs llama_cpp.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import llama_cpp.llama_cpp as lib
import numpy as np

TOKEN = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
DEFAULT_SEED = 1
"""Where the parameters have none."""


@dataclass
class Result:
    """An array of candidates after a sampler; selected is the index of the chosen one, or −1."""

    ids: np.ndarray
    logits: np.ndarray
    p: np.ndarray
    selected: int

    def row(self, vocab_size: int) -> np.ndarray:
        """float32 [vocab], −inf for removed tokens."""
        row = np.full(vocab_size, -np.inf, np.float32)
        row[self.ids] = self.logits
        return row


class LlamaSampler:
    """One sampler of llama.cpp."""

    def __init__(self, pointer: Any) -> None:
        self.pointer = pointer

    def accept(self, token_ids: Sequence[int]) -> None:
        for token in token_ids:
            lib.llama_sampler_accept(self.pointer, token)

    def apply(self, row: np.ndarray) -> Result:
        """Apply the sampler to the surviving tokens of float32 `row` [vocab]."""
        ids = np.flatnonzero(row > -np.inf)
        tokens = np.zeros(len(ids), TOKEN)
        tokens["id"], tokens["logit"] = ids, row[ids]
        data = tokens.ctypes.data_as(lib.llama_token_data_p)
        array = lib.llama_token_data_array(data=data, size=len(ids), selected=-1, sorted=False)
        lib.llama_sampler_apply(self.pointer, ctypes.byref(array))
        size = array.size * TOKEN.itemsize
        after = np.frombuffer(ctypes.string_at(array.data, size), TOKEN)
        return Result(after["id"], after["logit"], after["p"], array.selected)


@contextmanager
def opened(name: str, params: Mapping[str, Any], vocab_size: int) -> Iterator[LlamaSampler]:
    """llama.cpp's equivalent of our sampler `name`, with the values of `params`."""
    pointer = FACTORIES[name](params, vocab_size)
    try:
        yield LlamaSampler(pointer)
    finally:
        lib.llama_sampler_free(pointer)


@contextmanager
def chain(names: Sequence[str], params: Mapping[str, Any], vocab_size: int) -> Iterator[LlamaSampler]:
    """A chain of such samplers."""
    pointer = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
    for name in names:
        lib.llama_sampler_chain_add(pointer, FACTORIES[name](params, vocab_size))
    try:
        yield LlamaSampler(pointer)
    finally:
        lib.llama_sampler_free(pointer)


# --- samplers by our names -----------------------------------------------------------------------


def _seed(params: Mapping[str, Any]) -> int:
    """The seed of a sampler, 32 bits."""
    seed = params.get("seed")
    return DEFAULT_SEED if seed is None else int(seed) & 0xFFFFFFFF


def _penalties(params: Mapping[str, Any], vocab_size: int) -> Any:
    values = (params[f"{kind}_penalty"] for kind in ("repetition", "frequency", "presence"))
    return lib.llama_sampler_init_penalties(vocab_size, params["penalty_last_n"], *values)


def _logit_bias(params: Mapping[str, Any], vocab_size: int) -> Any:
    biases = params["logit_bias"]
    array = (lib.llama_logit_bias * len(biases))(*(lib.llama_logit_bias(*pair) for pair in biases))
    return lib.llama_sampler_init_logit_bias(vocab_size, len(biases), array)


class _Vector(ctypes.Structure):
    """libstdc++'s std::vector: begin, end, end of the storage."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("begin", "end", "storage")]

    @classmethod
    def of(cls, array: Any) -> _Vector:
        begin = ctypes.addressof(array)
        return cls(begin, begin + ctypes.sizeof(array), begin + ctypes.sizeof(array))


def _dry(params: Mapping[str, Any], vocab_size: int) -> Any:
    """DRY without a vocabulary: the function that llama.cpp's own tests use takes breakers as token ids."""
    init = lib._lib._Z30llama_sampler_init_dry_testingffiiRKSt6vectorIS_IiSaIiEESaIS1_EE
    init.argtypes = [ctypes.c_float, ctypes.c_float, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p]
    init.restype = lib.llama_sampler_p_ctypes
    entries = params["dry_sequence_breakers"]
    phrases = [[entry] if isinstance(entry, int) else list(entry) for entry in entries]
    arrays = [(ctypes.c_int32 * len(ids))(*ids) for ids in phrases]
    vectors = (_Vector * len(arrays))(*map(_Vector.of, arrays))
    breakers = _Vector.of(vectors)
    numbers = (params[f"dry_{name}"] for name in ("multiplier", "base", "allowed_length", "penalty_last_n"))
    return init(*numbers, ctypes.addressof(breakers))


FACTORIES: Mapping[str, Callable[[Mapping[str, Any], int], Any]] = {
    "logit_bias": _logit_bias,
    "penalties": _penalties,
    "dry": _dry,
    "top_n_sigma": lambda p, _: lib.llama_sampler_init_top_n_sigma(p["top_n_sigma"]),
    "top_k": lambda p, _: lib.llama_sampler_init_top_k(p["top_k"]),
    "typical_p": lambda p, _: lib.llama_sampler_init_typical(p["typical_p"], p["min_keep"]),
    "top_p": lambda p, _: lib.llama_sampler_init_top_p(p["top_p"], p["min_keep"]),
    "min_p": lambda p, _: lib.llama_sampler_init_min_p(p["min_p"], p["min_keep"]),
    "xtc": lambda p, _: lib.llama_sampler_init_xtc(
        p["xtc_probability"], p["xtc_threshold"], p["min_keep"], _seed(p)
    ),
    "temperature": lambda p, _: lib.llama_sampler_init_temp_ext(
        p["temperature"], p["dynatemp_range"], p["dynatemp_exponent"]
    ),
    "greedy": lambda p, _: lib.llama_sampler_init_greedy(),
    "dist": lambda p, _: lib.llama_sampler_init_dist(_seed(p)),
    "mirostat": lambda p, vocab_size: lib.llama_sampler_init_mirostat(
        vocab_size, _seed(p), p["mirostat_tau"], p["mirostat_eta"], 100
    ),
    "mirostat_v2": lambda p, _: lib.llama_sampler_init_mirostat_v2(
        _seed(p), p["mirostat_tau"], p["mirostat_eta"]
    ),
    "adaptive_p": lambda p, _: lib.llama_sampler_init_adaptive_p(
        p["adaptive_target"], p["adaptive_decay"], _seed(p)
    ),
}
