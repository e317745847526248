"""Results as tensors of the library from which the logits came."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine_sampler import RowSampler, SamplingParams, Scheduler, sample

LOGITS = np.random.default_rng(0).normal(0, 3, (3, 50)).astype(np.float32)


def results(logits: Any) -> dict[str, Any]:
    """The results of all ways to draw, with the two likeliest tokens of each row."""
    scheduler = Scheduler(50)
    for seed in range(3):
        scheduler.add(SamplingParams(seed=seed, logprobs=2))
    return {
        "Scheduler": scheduler.step(logits),
        "RowSampler": RowSampler(50).step(logits, [*"abc"], {"seed": [0, 1, 2]}, logprobs=2),
        "sample": sample(logits, [SamplingParams(seed=seed, logprobs=2) for seed in range(3)]),
    }


WAYS = ("Scheduler", "RowSampler", "sample")


@pytest.mark.parametrize("way", WAYS)
def test_numpys_logits_give_the_arrays_themselves(way: str) -> None:
    result = results(LOGITS)[way]
    found = result.tensors(LOGITS)
    assert found.token_ids is result.token_ids
    np.testing.assert_array_equal(found.logprob_token_ids[:, 0], result.token_ids)
    np.testing.assert_array_equal(found.logprobs, result.logprobs.logprobs)
    np.testing.assert_array_equal(found.ranks, result.logprobs.ranks)


def test_without_logprobs_there_are_tokens_alone() -> None:
    found = sample(LOGITS, SamplingParams(seed=1)).tensors(LOGITS)
    assert found[1:] == (None, None, None)


@pytest.mark.parametrize(
    "logits", [[[1.0]], SimpleNamespace(device="npu:0"), None], ids=["list", "npu", "None"]
)
def test_other_libraries_are_refused(logits: Any) -> None:
    with pytest.raises(TypeError, match=r"logits=.* is not allowed: a torch tensor or a NumPy array"):
        sample(LOGITS, SamplingParams(seed=1)).tensors(logits)


@pytest.mark.parametrize("way", WAYS)
def test_torchs_logits_give_tensors_that_share_the_memory_of_the_arrays(way: str) -> None:
    torch = pytest.importorskip("torch")
    logits = torch.from_numpy(LOGITS).to(torch.bfloat16)
    result = results(logits)[way]
    found = result.tensors(logits)
    assert [part.dtype for part in found] == [torch.int64, torch.int64, torch.float32, torch.int64]
    assert found.token_ids.tolist() == result.token_ids.tolist()
    assert np.shares_memory(found.token_ids.numpy(), result.token_ids)
    np.testing.assert_array_equal(found.logprobs.numpy(), result.logprobs.logprobs)


def test_tokens_that_lie_on_the_device_are_not_copied() -> None:
    torch = pytest.importorskip("torch")
    logits = torch.from_numpy(LOGITS)
    there = torch.tensor([4, 5, 6])
    result = replace(sample(logits, SamplingParams(seed=1)), token_ids_on_device=there)
    assert result.tensors(logits).token_ids is there
    elsewhere = replace(result, token_ids_on_device=there.to("meta"))
    assert elsewhere.tensors(logits).token_ids.tolist() == result.token_ids.tolist()


def test_a_function_of_a_chain_may_return_a_tensor() -> None:
    torch = pytest.importorskip("torch")

    def halve(token_ids: np.ndarray, logits: np.ndarray) -> Any:
        return torch.from_numpy(logits) / 2

    halved = sample(LOGITS, SamplingParams(seed=1, logits_processors=halve)).token_ids
    np.testing.assert_array_equal(halved, sample(LOGITS / 2, SamplingParams(seed=1)).token_ids)
