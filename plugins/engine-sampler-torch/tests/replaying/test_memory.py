"""The temporaries of a replay are bounded by its chunks, whatever the number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from engine_sampler_torch import replay
from random_rollouts import Rollout, normal_logits
from torch.utils._python_dispatch import TorchDispatchMode

from engine_sampler import SamplingParams

SIZE = 300


class Largest(TorchDispatchMode):
    """Notes the sizes of the storages that are written to, by their addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                self.bytes[storage.data_ptr()] = storage.nbytes()
        return out


@pytest.mark.parametrize(
    "settings", [{}, {"top_k": 20}, {"top_k": 20, "order": "vllm", "dynatemp_range": 0.3}]
)
def test_no_tensor_but_the_gradient_grows_with_the_rows(settings: dict[str, Any]) -> None:
    params = SamplingParams(repetition_penalty=1.2, temperature=0.8, **settings)
    rollout = Rollout(np.random.default_rng(1), [params] * 8, SIZE, 5, draw_logits=normal_logits)
    logits = rollout.logits.clone().requires_grad_()
    with Largest() as largest:
        replay(logits, rollout.records, chunk_size=2 * SIZE).sum().backward()
    *others, gradient, its_logits = sorted({**largest.bytes, logits.data_ptr(): logits.nbytes}.values())
    assert gradient == its_logits == logits.nbytes
    assert max(others) <= 3 * SIZE * 8 < logits.nbytes / 6
