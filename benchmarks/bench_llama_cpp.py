"""llama.cpp's own samplers in C++, through llama-cpp-python: one call for each row.

Its array of candidates (id, logit, p) must be filled for each call. It is filled by copying a prepared
array, which takes about as long as the loop over the logits in llama.cpp. Both are measured, with the
filling and without.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from engine_sampler.params import build_chain

from . import rows
from .cases import ALONE, CONTEXT, PEERS_STEPS, params_of
from .engines import Engine
from .measure import Work, measure
from .results import FILLED, UNFILLED

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

from tests.parity.llama import TOKEN, LlamaSampler, chain, lib


class Candidates:
    """One row in the form that llama.cpp's samplers take and modify."""

    def __init__(self, row: np.ndarray) -> None:
        prepared = np.zeros(len(row), TOKEN)
        prepared["id"], prepared["logit"] = np.arange(len(row)), row
        self.prepared = prepared.view(np.uint8)
        self.tokens = np.empty_like(self.prepared)
        self.data = self.tokens.ctypes.data_as(lib.llama_token_data_p)
        self.array = lib.llama_token_data_array()

    def fill(self) -> None:
        self.tokens[:] = self.prepared
        self.array.data, self.array.size = self.data, len(self.prepared) // TOKEN.itemsize
        self.array.selected, self.array.sorted = -1, False

    def sample(self, sampler: LlamaSampler) -> None:
        lib.llama_sampler_apply(sampler.pointer, ctypes.byref(self.array))
        sampler.accept([self.array.data[self.array.selected].id])


@pytest.mark.parametrize("filling", [True, False], ids=["filled", "alone"])
@pytest.mark.parametrize("shape", ALONE + PEERS_STEPS, ids=str)
def bench_llama_cpp(benchmark, shape, filling):
    params = params_of(shape.case)
    ours = Engine.of(shape)
    all_candidates = [Candidates(row) for row in rows.batch(shape.vocab_size, shape.batch, shape.rows)]

    def fill():
        for candidates in all_candidates:
            candidates.fill()

    with chain(build_chain(params).for_choice().key, params, shape.vocab_size) as sampler:
        sampler.accept(rows.history(shape.vocab_size, CONTEXT))

        def sample():
            for candidates in all_candidates:
                candidates.sample(sampler)

        def fill_and_sample():
            for candidates in all_candidates:
                candidates.fill()
                candidates.sample(sampler)

        series, work = (FILLED, Work(fill_and_sample)) if filling else (UNFILLED, Work(sample, fill))
        measure(benchmark, work, series, shape, {"ours": ours.run if shape.batch == 1 else ours.step})
