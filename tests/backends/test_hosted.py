"""Chains with a part that a Python backend lacks run on the host; reports say what runs each part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.backends.choose import with_host
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.contract import Batch, Chain
from engine_sampler.explain import trace

from ..engines import observed

VOCAB = 50
CHAINS: tuple[dict[str, Any], ...] = (
    {"min_p": 0.1},
    {"top_k": 5, "min_p": 0.1},
    {"repetition_penalty": 1.3, "logprobs": 3, "logprobs_mode": ["raw", "penalized", "processed"]},
    {"top_k": 7, "presence_penalty": 0.5, "logprobs": 2, "logprobs_mode": "penalized"},
)


class WithoutTopK(NumpyBackend):
    """Supports everything but top_k, and records what it is given."""

    name = "without_top_k"

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def supports(self, sampler: Any) -> bool:
        return sampler.name != "top_k"

    def compile(self, chain: Chain) -> Chain:
        self.seen |= set(chain.key)
        return chain

    def run(self, batch: Batch) -> None:
        self.seen |= {name for group in batch.groups for name in group.plan.key}
        super().run(batch)


def generation(backend: Any) -> list[Any]:
    scheduler = Scheduler(VOCAB, backend=backend)
    for seed, settings in enumerate(CHAINS):
        scheduler.add(SamplingParams(seed=seed, **settings), [1, 2])
    random, results = np.random.default_rng(0), []
    for _ in range(4):
        result = scheduler.step(random.normal(0, 2, (len(CHAINS), VOCAB)).astype(np.float32))
        assert result.logprobs is not None
        tables = {mode: table.logprobs.tolist() for mode, table in result.logprobs.modes.items()}
        results.append((result.token_ids.tolist(), tables))
    return results


def test_the_backend_is_never_given_a_part_that_it_does_not_support() -> None:
    backend = WithoutTopK()
    assert str(generation(backend)) == str(generation("numpy"))
    assert {"min_p", "penalties", "dist"} <= backend.seen
    assert "top_k" not in backend.seen


def test_a_backend_that_supports_everything_is_used_as_it_is() -> None:
    backend = NumpyBackend()
    assert with_host(backend) is backend


def test_a_chain_that_is_not_supported_is_reported_as_run_by_the_host() -> None:
    scheduler = Scheduler(VOCAB, backend=WithoutTopK())
    for settings in CHAINS[:2]:
        scheduler.add(SamplingParams(**settings))
    reports = [str(report) for report in scheduler.explain()]
    assert reports == [
        "1 rows: min_p (without_top_k) → dist (without_top_k)",
        "1 rows: top_k (numpy) → min_p (numpy) → dist (numpy)",
    ]


@pytest.mark.parametrize(("settings", "name"), [(CHAINS[0], "without_top_k"), (CHAINS[1], "numpy")])
def test_the_trace_reports_the_same(settings: dict[str, Any], name: str) -> None:
    steps = trace(np.zeros(VOCAB), SamplingParams(**settings), backend=WithoutTopK())
    assert {step.backend for step in steps[1:]} == {name}


def test_observers_are_told_how_many_rows_the_host_runs() -> None:
    with observed("rows_on_host") as seen:
        generation(WithoutTopK())
    assert seen == [("without_top_k", 2, "unsupported")] * 4


class Halves(WithoutTopK):
    """Draws when a step that has begun is finished."""

    def begin(self, batch: Batch) -> Any:
        batch.token_ids_on_device = "soon"

        def finish() -> None:
            self.run(batch)
            batch.token_ids_on_device = "there"

        return finish


@pytest.mark.parametrize("chains", [CHAINS, CHAINS[::2]], ids=["with top_k", "without top_k"])
def test_steps_begin_on_the_backend_if_it_supports_all_chains(chains: Any) -> None:
    logits = np.random.default_rng(7).normal(0, 3, (len(chains), VOCAB)).astype(np.float32)
    tokens, seen = [], []
    for backend in (Halves(), "numpy"):
        scheduler = Scheduler(VOCAB, backend=backend)
        for seed, settings in enumerate(chains):
            scheduler.add(SamplingParams(seed=seed, **settings), [1])
        begun = scheduler.begin(logits)
        seen.append(begun.token_ids_on_device)
        result = begun.finish()
        tokens.append(result.token_ids.tolist())
        seen.append(result.token_ids_on_device)
    assert tokens[0] == tokens[1]
    assert seen[:2] == ([None, None] if len(chains) == len(CHAINS) else ["soon", "there"])
