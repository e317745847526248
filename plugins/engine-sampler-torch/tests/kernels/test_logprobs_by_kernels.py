"""What raw logprobs need, by the kernels, beside the steps in torch and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine_sampler_torch import TorchBackend
from engine_sampler_torch.arithmetic import row_logprobs
from engine_sampler_torch.kernels import Workspace, likeliest
from engine_sampler_torch.running import results

from engine_sampler import SamplingParams, Scheduler, Tokenizer
from engine_sampler.arithmetic import LN_2, log2_mass

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the interpreter's, for NaN


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("size", "k"), [(100, 0), (100, 3), (5000, 5), (5000, 70)])
def test_they_find_what_torch_finds(size: int, k: int, dtype: torch.dtype) -> None:
    random = np.random.default_rng(size + k)
    rows = random.normal(0, 3, (5, size)).astype(np.float32)
    rows[1] = np.round(rows[1])
    rows[2, ::3] = -np.inf
    rows[3, ::2] = -(2.0**101)
    rows[4] = 0.0
    logits = torch.from_numpy(rows).to(dtype)
    index = torch.tensor([4, 0, 2, 1, 3])
    tokens = torch.from_numpy(random.integers(0, size, 5))
    peaks = logits.to(torch.float32)[index].amax(1)
    listed = likeliest(logits, index, size, peaks, tokens, k, Workspace("cpu", 5, size))
    values = logits.to(torch.float32)[index]
    values = values.masked_fill(values < -(2.0**100), -np.inf)
    ids, logprobs, ranks = row_logprobs(values, tokens, k)
    totals = peaks.numpy().astype(np.float64) + log2_mass(listed.masses.numpy()) * LN_2
    assert listed.ids.tolist() == ids.tolist()
    assert listed.ranks.tolist() == ranks.tolist()
    given = (listed.values.numpy().astype(np.float64) - totals[:, None]).astype(np.float32)
    assert given.tobytes() == logprobs.numpy().tobytes()


SETTINGS = (
    {"logprobs": 3},
    {"logprobs": 0, "logit_bias": {3: 4.0}, "repetition_penalty": 1.3},
    {"logprobs": 7, "temperature": 0.0, "regex": "[a-f]+"},
)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_steps_report_what_numpy_reports(
    settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows with fewer tokens than are listed, equal ones and faulty ones among them."""
    monkeypatch.setattr(results, "row_logprobs", None)  # nothing else is asked
    size = 300
    tokenizer = Tokenizer([bytes([i % 256]) * (1 + i // 256) for i in range(size)])
    both = [Scheduler(size, tokenizer, backend=b) for b in (TorchBackend(), "numpy")]
    for scheduler in both:
        for seed in range(6):
            mixed = settings if seed % 3 else settings | {"logprobs": 1}
            params = SamplingParams(**({"temperature": 0.8, "top_k": 9, "seed": seed} | mixed))
            scheduler.add(params, [1, 2, 3, 1, seed])
    random = np.random.default_rng(5)
    for step in range(3):
        rows = np.round(random.normal(0, 3, (len(both[0].request_ids), size)), 1).astype(np.float32)
        rows[0, 104:] = rows[1, :97] = -np.inf
        rows[1, 99:] = -np.inf
        if step == 2:
            rows[2, 5] = np.nan
        found, right = (scheduler.step(torch.from_numpy(rows)) for scheduler in both)
        assert found.errors == right.errors
        assert found.token_ids.tolist() == right.token_ids.tolist()
        assert found.logprobs.token_ids.tolist() == right.logprobs.token_ids.tolist()
        assert found.logprobs.logprobs.tobytes() == right.logprobs.logprobs.tobytes()
        assert found.logprobs.ranks.tolist() == right.logprobs.ranks.tolist()
