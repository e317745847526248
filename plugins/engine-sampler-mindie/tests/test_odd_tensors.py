"""Tensors of torch that are not arrays of numbers are refused by name, before anything changes."""

from __future__ import annotations

from typing import Any

import pytest
from engine_sampler_mindie import Sampler, SamplingData, SamplingParam
from engine_sampler_mindie.atb import TopkToppSampling, TopkToppSamplingParam

from engine_sampler import SamplingParams, Scheduler, sample

torch = pytest.importorskip("torch")

KINDS = {
    "float8": (lambda x: x.to(torch.float8_e4m3fn), "float8_e4m3fn"),
    "sparse": (lambda x: x.to_sparse(), "sparse_coo"),
    "nested": (lambda x: torch.nested.nested_tensor(list(x)), "nested|NestedTensor"),
    "meta": (lambda x: x.to("meta"), "meta"),
    "complex": (lambda x: x.to(torch.complex64), "complex64"),
}


def refuses(call: Any, name: str, text: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} .*({text})"):
        call()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_logits_that_are_no_dense_floats_are_refused(kind: str) -> None:
    made, text = KINDS[kind]
    logits = made(torch.zeros(2, 8))
    scheduler = Scheduler(8)
    for _ in range(2):
        scheduler.add(SamplingParams(), [])
    refuses(lambda: sample(logits, SamplingParams()), "logits", text)
    refuses(lambda: scheduler.step(logits), "logits", text)
    refuses(lambda: Sampler().sample(logits, SamplingData(request_ids=[1, 2])), "logits", text)
    assert scheduler.step(torch.zeros(2, 8)).errors == [None, None]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_inputs_that_are_no_dense_numbers_are_refused(kind: str) -> None:
    made, text = KINDS[kind]
    half = torch.ones(2, 1, dtype=torch.float16)
    operator = TopkToppSampling(TopkToppSamplingParam(topk=3))
    probs = torch.full((2, 8), 0.125, dtype=torch.float16)
    refuses(lambda: SamplingData(made(torch.ones(2, 3))), "all_input_ids", text)
    if kind != "nested":
        refuses(lambda: SamplingParam(temperature=made(torch.ones(2))), "temperature", text)
    refuses(lambda: operator(made(probs), half), "probs", text)
    refuses(lambda: operator(probs, made(half)), "topp", text)
