"""llama.cpp's own samplers in C++, through llama-cpp-python: one call for each row.

Its array of candidates (id, logit, p) has to be filled for each call. It is filled by copying one
that is ready, which takes about as long as the loop over the logits in llama.cpp; both are measured,
with the filling and without.
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
    """One row as llama.cpp's samplers take it, and change it."""

    def __init__(self, row: np.ndarray) -> None:
        ready = np.zeros(len(row), TOKEN)
        ready["id"], ready["logit"] = np.arange(len(row)), row
        self.ready = ready.view(np.uint8)
        self.tokens = np.empty_like(self.ready)
        self.data = self.tokens.ctypes.data_as(lib.llama_token_data_p)
        self.array = lib.llama_token_data_array()

    def fill(self) -> None:
        self.tokens[:] = self.ready
        self.array.data, self.array.size = self.data, len(self.ready) // TOKEN.itemsize
        self.array.selected, self.array.sorted = -1, False

    def sample(self, sampler: LlamaSampler) -> None:
        lib.llama_sampler_apply(sampler.pointer, ctypes.byref(self.array))
        sampler.accept([self.array.data[self.array.selected].id])


@pytest.mark.parametrize("filling", [True, False], ids=["filled", "alone"])
@pytest.mark.parametrize("shape", ALONE + PEERS_STEPS, ids=str)
def bench_llama_cpp(benchmark, shape, filling):
    params = params_of(shape.case)
    ours = Engine.of(shape)
    everything = [Candidates(row) for row in rows.batch(shape.vocab_size, shape.batch, shape.rows)]

    def fill():
        for candidates in everything:
            candidates.fill()

    with chain(build_chain(params).for_choice().key, params, shape.vocab_size) as sampler:
        sampler.accept(rows.history(shape.vocab_size, CONTEXT))

        def sample():
            for candidates in everything:
                candidates.sample(sampler)

        def fill_and_sample():
            for candidates in everything:
                candidates.fill()
                candidates.sample(sampler)

        who, work = (FILLED, Work(fill_and_sample)) if filling else (UNFILLED, Work(sample, fill))
        measure(benchmark, work, who, shape, {"ours": ours.run if shape.batch == 1 else ours.step})
