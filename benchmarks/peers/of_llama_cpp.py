"""llama.cpp's chain in C++ through its C interface, a call for each row, with `accept` and the filling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine_sampler import SamplingParams
from engine_sampler.params import build_chain
from tests.parity.llama import LlamaSampler, chain, lib

from ..measure import Work
from .candidates import Candidates
from .ours import scheduler_step


def sides(
    settings: Mapping[str, Any], logits: np.ndarray, prompt: Sequence[int], mask: np.ndarray | None
) -> tuple[Work | None, Work]:
    """The engine's step and ours. Its masks need a model, and it has no logprobs."""
    ours = scheduler_step(settings, logits, prompt, mask, "llama.cpp")
    if mask is not None or "logprobs" in settings:
        return None, ours
    return Work(_chains(settings, logits, prompt)), ours


def _chains(settings: Mapping[str, Any], logits: np.ndarray, prompt: Sequence[int]) -> Any:
    """A call that draws each row with a chain of its own."""
    params = SamplingParams(seed=1, penalty_scope="all", **settings)
    names = build_chain(params).for_choice().key
    opened = chain(names, params, logits.shape[1])
    first = opened.__enter__()
    first.accept(prompt)
    samplers = [first, *(LlamaSampler(lib.llama_sampler_clone(first.pointer)) for _ in logits[1:])]
    arrays = [Candidates(len(row)) for row in logits]
    for candidates, row in zip(arrays, logits, strict=True):
        candidates.prepare(row)

    def draw() -> None:
        for sampler, candidates in zip(samplers, arrays, strict=True):
            candidates.fill()
            sampler.accept([candidates.apply(sampler)])

    draw.opened = opened  # type: ignore[attr-defined]  # freed when nothing calls them any more
    return draw
