"""A plugin of pytest for vLLM's own tests, from its source distribution: what they test is ours.

    CUDA_VISIBLE_DEVICES= TRITON_INTERPRET=1 PYTHONPATH=.../tests:.../tests/inside \
        python -m pytest -p swapped_in tests/v1/sample/test_sampler.py

Without a GPU, vLLM's kernels run in Triton's interpreter. `ENGINE_SAMPLER_TEST_VLLMS_OWN=1` tests vLLM's own,
for comparison. `.ci/vllm-tests` runs them.
"""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from functools import lru_cache
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from vllm.platforms import current_platform
from vllm.utils import platform_utils
from vllm.v1.sample import logits_processor, rejection_sampler, sampler
from vllm.v1.sample.ops import topk_topp_triton

from engine_sampler import SamplingParams, process_logits

OURS = os.environ.get("ENGINE_SAMPLER_TEST_VLLMS_OWN", "0") == "0"


def pytest_configure(config: pytest.Config) -> None:
    """Before any test is imported."""
    _without_a_gpu()
    if OURS:
        _swap()


@pytest.fixture(autouse=True)
def _no_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in [*sys.modules.items()]:
        if name.startswith("vllm.") and "PIN_MEMORY" in vars(module):
            monkeypatch.setattr(module, "PIN_MEMORY", False)


def _without_a_gpu() -> None:
    platform: Any = type(current_platform)
    platform.device_type, platform.device_count = "cpu", classmethod(lambda cls: 1)
    sampler.Sampler.greedy_sample = staticmethod(lambda logits: logits.argmax(dim=-1))  # is in its build
    platform_utils.is_pin_memory_available = lambda: False
    utilities: Any = ModuleType("tests.utils")  # the real ones import half of vLLM's dependencies
    utilities.large_gpu_mark = lambda **sizes: pytest.mark.skip(reason="needs a GPU with much memory")
    utilities.create_new_process_for_each_test = lambda: lambda test: test
    utilities.requires_spawn_multiprocessing = lambda: False
    utilities.set_random_seed = torch.manual_seed
    sys.modules["tests.utils"] = utilities


def _swap() -> None:
    from engine_sampler_vllm import v1

    runner = SimpleNamespace(
        Sampler=sampler.Sampler,
        RejectionSampler=rejection_sampler.RejectionSampler,
        SamplingMetadata=sampler.SamplingMetadata,
        build_logitsprocs=logits_processor.build_logitsprocs,
    )
    v1.put_in(runner)
    from vllm_hand_made import with_requests

    sampler.Sampler = with_requests(runner.Sampler)
    rejection_sampler.RejectionSampler = _with_bonus_rows(runner.RejectionSampler)
    logits_processor.build_logitsprocs = runner.build_logitsprocs
    topk_topp_triton.apply_top_k_top_p_triton = top_k_top_p
    if "examples" in sys.modules or os.path.isdir("examples"):
        from examples.features.logits_processor import dry

        dry._dry_penalties = dry_penalties
    if os.path.isdir("tests/v1/sample"):
        from tests.v1.sample import utils

        utils.fake_apply_logitsprocs = processed_rows


def _with_bonus_rows(rejection: type) -> type:
    """vLLM's tests say what the bonus token is, instead of giving its logits: these are one-hot here."""

    class WithBonusRows(rejection):  # type: ignore[misc, valid-type]
        def __init__(self, given: Any, *arguments: Any, **keywords: Any) -> None:
            super().__init__(sampler.Sampler(given.logprobs_mode), *arguments, **keywords)
            self.own = rejection(given, *arguments, **keywords)

        def forward(self, metadata: Any, draft_probs: Any, logits: Any, sampling_metadata: Any) -> Any:
            if draft_probs is not None or self.use_fly or self.synthetic_mode:
                self.own.sampler.return_value = self.sampler.return_value
                return self.own.forward(metadata, draft_probs, logits, sampling_metadata)
            counts = metadata.num_draft_tokens
            bonus = self.sampler.return_value.sampled_token_ids.flatten().long()
            ends = torch.tensor(np.cumsum(counts) + np.arange(len(counts)))
            rows = torch.full((len(logits) + len(counts), logits.shape[1]), -100.0)
            rows[ends, bonus] = 100.0
            targets = torch.tensor(np.setdiff1d(np.arange(len(rows)), ends.numpy()))
            rows[targets] = logits.float()
            metadata.bonus_logits_indices, metadata.target_logits_indices = ends, targets
            from vllm_hand_made import followed

            return super().forward(metadata, None, rows, followed(sampling_metadata, len(counts)))

    return WithBonusRows


def top_k_top_p(logits: Any, k: Any, p: Any, *arguments: Any, **keywords: Any) -> Any:
    """vLLM's function, by ours."""
    params = [
        SamplingParams(
            order="vllm",
            top_k=0 if k is None else int(k[row]),
            top_p=1.0 if p is None else float(p[row]),
        )
        for row in range(len(logits))
    ]
    processed = process_logits(logits.float().cpu().numpy(), params)
    return torch.from_numpy(processed).to(logits.dtype)


def processed_rows(fakes: Any, workload: list[int], outputs: list[list[int]] | None = None) -> torch.Tensor:
    """What vLLM's processors make of a batch whose changes they have been told of, by ours: float32 [rows,
    vocab]. Budgets of thoughts stay vLLM's."""
    from engine_sampler_vllm.batches import processed_by_others, requests_in

    logits = fakes.logits[torch.tensor(workload, dtype=torch.long)]
    if not workload:
        return logits
    metadata = dataclasses.replace(fakes.sampling_metadata, max_num_logprobs=-1)
    for row, output in enumerate(outputs or ()):
        metadata.output_token_ids[row] = output
    ours = _sampler_beside(metadata.logitsprocs)
    drawn = ours.draw(
        processed_by_others(logits, metadata),
        requests_in(metadata, len(logits)),
        metadata,
        logprobs_mode="processed_logits",
    )
    return torch.from_numpy(drawn.logprobs.by_id())


@lru_cache(maxsize=1)
def _sampler_beside(processors: Any) -> Any:
    """The one of an engine whose processors these are."""
    from engine_sampler_vllm.sampler import RowwiseSampler

    return RowwiseSampler()


def dry_penalties(
    window: list[int], breakers: Any, multiplier: float, base: float, allowed_length: int, _: int
) -> dict[int, float]:
    """The penalties of vLLM's example, by ours: in float32."""
    params = SamplingParams(
        dry_multiplier=multiplier,
        dry_base=base,
        dry_allowed_length=allowed_length,
        dry_sequence_breakers=sorted(breakers),
    )
    zeros = np.zeros((1, max([*window, *breakers, 0]) + 1), np.float32)
    processed = process_logits(zeros, params, output_token_ids=[window])[0]
    return {int(token_id): -float(processed[token_id]) for token_id in np.flatnonzero(processed)}


_isclose = math.isclose
if OURS:
    math.isclose = lambda a, b, rel_tol=1e-9, **rest: _isclose(a, b, rel_tol=max(rel_tol, 1e-6), **rest)
