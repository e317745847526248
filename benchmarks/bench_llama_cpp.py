"""llama.cpp's own samplers in C++, through llama-cpp-python: one call for each row.

Its array of candidates (id, logit, p) has to be filled for each call; that is measured too, and
apart, because a C program fills it faster than NumPy does.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from engine_sampler.chain import build_chain

from . import rows
from .cases import CONTEXT, PEERS, params_of
from .measure import measure

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

from tests.parity.llama import TOKEN, LlamaSampler, chain, lib


class Candidates:
    """One row as llama.cpp's samplers take it, and change it."""

    def __init__(self, row: np.ndarray) -> None:
        self.row = row
        self.ids = np.arange(len(row), dtype=np.int32)
        self.tokens = np.zeros(len(row), TOKEN)
        self.array = lib.llama_token_data_array()

    def fill(self) -> None:
        self.tokens["id"], self.tokens["logit"], self.tokens["p"] = self.ids, self.row, 0
        self.array.data = self.tokens.ctypes.data_as(lib.llama_token_data_p)
        self.array.size, self.array.selected, self.array.sorted = len(self.row), -1, False

    def sample(self, sampler: LlamaSampler) -> None:
        lib.llama_sampler_apply(sampler.pointer, ctypes.byref(self.array))
        sampler.accept([self.array.data[self.array.selected].id])


@pytest.mark.parametrize("filling", [True, False], ids=["filled", "alone"])
@pytest.mark.parametrize(("vocab_size", "batch", "case"), PEERS)
def bench_llama_cpp(benchmark, vocab_size, batch, case, filling):
    params = params_of(case)
    everything = [Candidates(row) for row in rows.batch(vocab_size, batch)]

    def fill():
        for candidates in everything:
            candidates.fill()

    with chain(build_chain(params).for_choice().key, params, vocab_size) as sampler:
        sampler.accept(rows.history(vocab_size, CONTEXT))

        def sample():
            for candidates in everything:
                candidates.sample(sampler)

        def fill_and_sample():
            for candidates in everything:
                candidates.fill()
                candidates.sample(sampler)

        labels = {"case": case, "vocab_size": vocab_size, "batch": batch}
        if filling:
            measure(benchmark, fill_and_sample, "llama.cpp, filled", **labels)
        else:
            measure(benchmark, sample, "llama.cpp", setup=fill, **labels)
