"""vLLM's classes as these tests use them: from its source, without a GPU and without its build."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _no_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's source without its build does not detect that there is no GPU."""
    torch = sys.modules.get("torch")
    if torch is not None and not torch.cuda.is_available():
        for name, module in [*sys.modules.items()]:
            if name.startswith("vllm.") and "PIN_MEMORY" in vars(module):
                monkeypatch.setattr(module, "PIN_MEMORY", False)


@pytest.fixture
def runner() -> Iterator[Any]:
    """What the module of vLLM's model runner has by name, switched on."""
    from engine_sampler_vllm import v1
    from engine_sampler_vllm.places import PLACES
    from vllm.v1.sample import logits_processor, metadata, rejection_sampler, sampler

    module: Any = ModuleType("runner")
    module.Sampler, module.RejectionSampler = sampler.Sampler, rejection_sampler.RejectionSampler
    module.SamplingMetadata = metadata.SamplingMetadata
    module.build_logitsprocs = logits_processor.build_logitsprocs
    v1.put_in(module)
    yield module
    PLACES.put_back()
