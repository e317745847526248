"""llama.cpp's own samplers in C++, through llama-cpp-python: one call for each row.

Its array of candidates (id, logit, p) must be filled for each call. It is filled by copying a prepared
array, which takes about as long as the loop over the logits in llama.cpp. Both are measured, with the
filling and without.
"""

from __future__ import annotations

import numpy as np
import pytest

from engine_sampler.cli.bench import rows
from engine_sampler.params import build_chain

from .cases import ALONE, CONTEXT, PEERS_STEPS, params_of
from .engines import Engine
from .measure import Work, measure
from .results import FILLED, UNFILLED

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

from tests.parity.llama import chain

from .peers.candidates import Candidates


def candidates_of(row: np.ndarray) -> Candidates:
    candidates = Candidates(len(row))
    candidates.prepare(row)
    return candidates


@pytest.mark.parametrize("filling", [True, False], ids=["filled", "alone"])
@pytest.mark.parametrize("shape", ALONE + PEERS_STEPS, ids=str)
def bench_llama_cpp(benchmark, shape, filling):
    params = params_of(shape.case)
    ours = Engine.of(shape)
    logits = rows.batch(shape.vocab_size, shape.batch, shape.rows)
    all_candidates = [candidates_of(row) for row in logits]

    def fill():
        for candidates in all_candidates:
            candidates.fill()

    with chain(build_chain(params).for_choice().key, params, shape.vocab_size) as sampler:
        sampler.accept(rows.history(shape.vocab_size, CONTEXT))

        def sample():
            for candidates in all_candidates:
                sampler.accept([candidates.apply(sampler)])

        def fill_and_sample():
            for candidates in all_candidates:
                candidates.fill()
                sampler.accept([candidates.apply(sampler)])

        series, work = (FILLED, Work(fill_and_sample)) if filling else (UNFILLED, Work(sample, fill))
        measure(benchmark, work, series, shape, {"ours": ours.run if shape.batch == 1 else ours.step})
