"""Gradients of a replay are those of a masked log-softmax over the logits after edits and temperature, in
float64."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from engine_sampler_torch import ReplayRecord, replay
from random_rollouts import Rollout, normal_logits
from torch import Tensor

from engine_sampler import SamplingParams
from tests.random_chains import tokenizer

SIZE = 65
PENALTIES: Mapping[str, Any] = {
    "repetition_penalty": 1.3,
    "frequency_penalty": 0.4,
    "presence_penalty": -0.3,
    "logit_bias": {3: 1.5, 7: -0.75},
}
SMOOTH: Mapping[str, Any] = {"smoothing_factor": 0.3, "smoothing_curve": 1.5}
DYNAMIC: Mapping[str, Any] = {"temperature": 0.9, "dynatemp_range": 0.5, "dynatemp_exponent": 1.5}
CASES: Mapping[str, Mapping[str, Any]] = {
    "temperature alone": {"temperature": 0.7},
    "a truncation": {"temperature": 0.7, "top_k": 9},
    "penalties and biases": {**PENALTIES, "temperature": 1.4, "top_p": 0.9},
    "smoothing": {**SMOOTH, "top_k": 20},
    "smoothing of whole rows, cut afterwards": {**SMOOTH, "top_k": 12, "order": ["smoothing", "top_k"]},
    "a dynamic temperature": {**DYNAMIC, "top_k": 20},
    "a dynamic temperature of whole rows, cut afterwards": {
        **DYNAMIC,
        **PENALTIES,
        "top_p": 0.8,
        "order": "vllm",
    },
}


@pytest.mark.parametrize("settings", CASES.values(), ids=CASES)
def test_gradients_are_those_of_the_formula(settings: Mapping[str, Any]) -> None:
    random = np.random.default_rng(8)
    rollout = Rollout(random, [SamplingParams(**settings)] * 3, SIZE, 8, draw_logits=normal_logits)
    logits = rollout.logits + 0.1 * torch.from_numpy(random.normal(size=rollout.logits.shape)).float()
    outer = torch.from_numpy(random.normal(size=len(logits)))
    trained, right = logits.clone().requires_grad_(), logits.double().requires_grad_()
    values = replay(trained, rollout.records, tokenizer=tokenizer(SIZE))
    expected = reference(right, rollout.records, settings)
    values.backward(outer.float())
    expected.backward(outer)
    assert trained.grad is not None
    assert right.grad is not None
    torch.testing.assert_close(values.double(), expected.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(trained.grad.double(), right.grad, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_have_the_dtype_of_the_logits(dtype: torch.dtype) -> None:
    rollout = Rollout(np.random.default_rng(3), [SamplingParams(**PENALTIES, top_k=9)], SIZE, 9, dtype=dtype)
    grads = []
    for kind in (dtype, torch.float32):
        logits = rollout.logits.to(kind, copy=True).requires_grad_()
        replay(logits, rollout.records).sum().backward()
        assert logits.grad is not None
        assert logits.grad.dtype == kind
        grads.append(logits.grad)
    torch.testing.assert_close(grads[0], grads[1].to(dtype), rtol=0, atol=0)


def test_what_did_not_survive_has_no_gradient() -> None:
    rollout = Rollout(np.random.default_rng(4), [SamplingParams(top_k=5)] * 2, SIZE, 6)
    logits = rollout.logits.clone().requires_grad_()
    replay(logits, rollout.records).sum().backward()
    assert logits.grad is not None
    masks = [record.sampling_mask for record in rollout.records]
    survivors = [mask.row(row) for mask in masks for row in range(len(mask))]
    for row, ids in enumerate(survivors):
        others = np.setdiff1d(np.arange(SIZE), ids)
        assert not logits.grad[row, others].any()


def reference(logits: Tensor, records: list[ReplayRecord], settings: Mapping[str, Any]) -> Tensor:
    """ln of the shares of the drawn tokens, float64 [rows], of float64 `logits`."""
    logprobs, row = [], 0
    for record in records:
        prompt, output = list(record.prompt_token_ids), list(record.output_token_ids)
        for i, token in enumerate(output):
            ids = record.sampling_mask.row(i)
            assert ids is not None
            survives = torch.zeros(SIZE, dtype=torch.bool)
            survives[torch.from_numpy(ids.astype(np.int64))] = True
            alive = torch.arange(SIZE) > 0 if "order" in settings else survives  # token 0 is EOS, and ignored
            values = _penalized(logits[row], prompt, output[:i], settings)
            values = _bent(values, alive, settings) * _inverse_temperature(values, alive, settings)
            logprobs.append(values.masked_fill(~survives, -math.inf).log_softmax(0)[token])
            row += 1
    return torch.stack(logprobs)


def _penalized(values: Tensor, prompt: list[int], output: list[int], settings: Mapping[str, Any]) -> Tensor:
    for token, bias in settings.get("logit_bias", {}).items():
        values = values + bias * torch.nn.functional.one_hot(torch.tensor(token), SIZE)
    if "repetition_penalty" in settings:
        q = settings["repetition_penalty"]
        seen = torch.zeros(SIZE, dtype=torch.bool)
        seen[[*prompt, *output]] = True
        values = torch.where(seen, torch.where(values > 0, values / q, values * q), values)
        counts = torch.zeros(SIZE, dtype=torch.float64)
        for token, count in Counter(output).items():
            counts[token] = count
        values = values - settings["frequency_penalty"] * counts - settings["presence_penalty"] * (counts > 0)
    return values


def _bent(values: Tensor, alive: Tensor, settings: Mapping[str, Any]) -> Tensor:
    if "smoothing_factor" not in settings:
        return values
    f, c = settings["smoothing_factor"], settings["smoothing_curve"]
    peak = values[alive].max()
    d = values - peak
    return peak - (3 - c) / 2 * f * d**2 + (c - 1) / 2 * f * d**3


def _inverse_temperature(values: Tensor, alive: Tensor, settings: Mapping[str, Any]) -> Tensor | float:
    temperature = settings.get("temperature", 1.0)
    if "dynatemp_range" not in settings or alive.sum() <= 1:
        return 1.0 if "dynatemp_range" in settings else 1 / temperature
    low, high = max(0.0, temperature - settings["dynatemp_range"]), temperature + settings["dynatemp_range"]
    logs = values[alive].log_softmax(0)
    share = -(logs.exp() * logs).sum() / math.log(int(alive.sum()))
    return 1 / (low + (high - low) * share ** settings["dynatemp_exponent"])
