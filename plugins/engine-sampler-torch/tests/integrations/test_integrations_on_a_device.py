"""The integrations for vLLM and transformers leave logits on their device: rows are processed there, and only
tokens, faults and histories move."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from counting_device import CountingDevice, OnDevice
from engine_sampler_transformers import ChainLogitsProcessor
from engine_sampler_transformers.generate import _Loop
from engine_sampler_vllm.logits_processor import EngineSampler
from vllm_protocol import Batch, FakeRequest, Params, Runner

from engine_sampler import SamplingParams, Scheduler

ROWS, VOCAB = 8, 32000
LOGITS = np.random.default_rng(8).normal(0, 3, (ROWS, VOCAB)).astype(np.float32)
KB = 1024
EXTRA = {"dry_multiplier": 0.8, "dry_allowed_length": 1, "top_n_sigma": 2.0}


def requests() -> list[FakeRequest]:
    rng = random.Random(3)
    return [
        FakeRequest(Params(EXTRA if i % 2 else None, seed=i), [rng.randrange(9) for _ in range(12)], [1, 2])
        for i in range(ROWS)
    ]


# --- vLLM -----------------------------------------------------------------------------------------


def test_vllm_v1_processes_rows_on_the_device(device: CountingDevice) -> None:
    batch, processor = Batch(), EngineSampler(None, "cpu", False)
    for request in requests():
        batch.add(request)
    processor.update_state(batch.update())
    for _ in range(2):
        logits = device.place(torch.from_numpy(LOGITS))
        device.reset()
        assert processor.apply(logits) is logits
    found = logits.data_there.numpy()
    for request, row, given in zip(batch.rows, found, LOGITS, strict=True):
        assert request is not None
        np.testing.assert_array_equal(row, request.expected(given))
    assert device.synchronisations == 1
    assert device.down <= KB
    assert device.up <= 8 * KB


def test_vllm_v2_processes_rows_on_the_device_after_drafts(device: CountingDevice) -> None:
    runner = Runner(4, lambda array: OnDevice(torch.from_numpy(array.copy())))
    processor = EngineSampler(None, runner)
    asked = requests()
    for slot in (0, 1):
        runner.assign(slot, asked[2 * slot + 1])
        processor.add_request(slot, asked[2 * slot + 1].params)
    parts = [(0, 13, [3, 4]), (1, 13, [])]
    logits = device.place(torch.from_numpy(LOGITS[:4]))
    processor.apply(device.place(torch.from_numpy(LOGITS[:4])), runner.context(parts))
    runner.commit(0, [5])
    device.reset()
    parts = [(0, 14, [3, 4]), (1, 13, [])]
    processor.apply(logits, runner.context(parts))
    found = logits.data_there.numpy()
    for depth, drafts in enumerate(([], [3], [3, 4])):
        np.testing.assert_array_equal(found[depth], asked[1].expected(LOGITS[depth], drafts))
    np.testing.assert_array_equal(found[3], asked[3].expected(LOGITS[3]))
    assert device.down <= 2 * KB


def test_a_faulty_row_stays_as_it_is(device: CountingDevice) -> None:
    batch, processor = Batch(), EngineSampler(None, "cpu", False)
    batch.add(requests()[1])
    processor.update_state(batch.update())
    logits = LOGITS[:1].copy()
    logits[0, 5] = np.nan
    there = device.place(torch.from_numpy(logits))
    np.testing.assert_array_equal(processor.apply(there).data_there.numpy(), logits)


# --- transformers ---------------------------------------------------------------------------------


def test_the_logits_processor_of_transformers_works_on_the_device(device: CountingDevice) -> None:
    params = SamplingParams(top_k=20, min_p=0.05, repetition_penalty=1.2, seed=1)
    there, host = ChainLogitsProcessor(params), ChainLogitsProcessor(params, backend="native")
    ids = torch.randint(0, 9, (ROWS, 12), generator=torch.Generator().manual_seed(1))
    scores = torch.from_numpy(LOGITS)
    for _ in range(2):
        device.reset()
        found = there(device.place(ids), device.place(scores))
        assert isinstance(found, OnDevice)
        np.testing.assert_array_equal(found.data_there.numpy(), host(ids, scores).numpy())
        ids = torch.cat([ids, ids[:, :1]], 1)
    assert device.down <= 2 * KB
    assert device.synchronisations <= 3


class TableModel:
    """A model whose logits depend on the last token, in the form that `generate` drives."""

    def __init__(self, device: CountingDevice | None) -> None:
        table = torch.from_numpy(LOGITS)
        self._table = table if device is None else device.place(table)
        self.config = SimpleNamespace(is_encoder_decoder=False)

    def _prefill(self, input_ids: Any, config: Any, model_kwargs: Any) -> Any:
        return self(input_ids)

    def _update_model_kwargs_for_generation(self, outputs: Any, model_kwargs: Any, **options: Any) -> Any:
        return model_kwargs

    def prepare_inputs_for_generation(self, input_ids: Any, **options: Any) -> dict[str, Any]:
        return {"input_ids": input_ids}

    def __call__(self, input_ids: Any, return_dict: bool = True) -> Any:
        return SimpleNamespace(logits=self._table.index_select(0, input_ids[:, -1] % ROWS)[:, None])


def generated(device: CountingDevice | None, settings: dict[str, Any]) -> torch.Tensor:
    """Five tokens for three rows; the second one ends after two."""
    scheduler = Scheduler(VOCAB, backend="native" if device is None else "auto")
    prompts = torch.tensor([[1, 2], [3, 4], [5, 6]])
    for row, prompt in enumerate(prompts.tolist()):
        params = SamplingParams(seed=row, max_tokens=2 if row == 1 else 5, **settings)
        scheduler.add(params, prompt, request_id=row)
    loop = _Loop(
        TableModel(device),
        scheduler,
        processors=lambda ids, scores: scores,
        criteria=None,
        padding=7,
        streamer=None,
    )
    given = prompts if device is None else device.place(prompts)
    if device is not None:
        device.reset()
    return loop.run(given, SimpleNamespace(return_dict_in_generate=False), {})  # type: ignore[no-any-return]


@pytest.mark.parametrize("settings", [{}, {"top_k": 50, "temperature": 0.7, "frequency_penalty": 0.3}])
def test_a_whole_generation_of_transformers_stays_on_the_device(
    device: CountingDevice, settings: dict[str, Any]
) -> None:
    found = generated(device, settings)
    assert isinstance(found, OnDevice)
    assert found.data_there.tolist() == generated(None, settings).tolist()
    assert device.synchronisations == 5
    assert device.down <= 5 * KB
    assert device.up <= 20 * KB
