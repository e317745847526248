"""Samplers of other distributions with a torch form: used if it works, replaced by the host if it fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from counting_device import CountingDevice, OnDevice
from engine_sampler_torch.steps import Block, DeviceStep, Given

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.contract import Example, Param, Rows, Sampler
from tests.engines import registered

pytestmark = pytest.mark.usefixtures("device")

SIZE, ROWS = 300, 4
LOGITS = np.random.default_rng(2).normal(0, 3, (ROWS, SIZE)).astype(np.float32)


class TiltStep(DeviceStep):
    name = "tilt"

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {"tilt": rows["tilt"].astype(np.float32)}

    def apply(self, block: Block, tensors: Given, fixed: Any) -> None:
        lifted = block.values + tensors["tilt"][:, None] * (block.columns % 2).to(torch.float32)
        block.replace(lifted)


class Tilt(Sampler):
    """Add `tilt` to the tokens with odd ids."""

    name = "tilt"
    params = (Param("tilt", float, neutral=0.0, low=-9, high=9),)
    examples = (Example((1.0, 2.0), {"tilt": 1.5}, (1.0, 3.5)),)
    step: type[DeviceStep] = TiltStep

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        ids = np.arange(logits.shape[1])[None] if rows.ids is None else rows.ids
        logits += rows["tilt"].astype(np.float32)[:, None] * (ids % 2).astype(np.float32)

    def torch_step(self) -> DeviceStep:
        return self.step()


class ReadsNothing(TiltStep):
    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        raise OSError("no file")


class ReadsComplex(TiltStep):
    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {"tilt": rows["tilt"].astype(complex)}


class AppliesNothing(TiltStep):
    def apply(self, block: Block, tensors: Given, fixed: Any) -> None:
        raise RuntimeError("no kernel")


class Explodes(TiltStep):
    def apply(self, block: Block, tensors: Given, fixed: Any) -> None:
        block.replace(block.values + float("inf"))


def scheduler_on(backend: str) -> Scheduler:
    scheduler = Scheduler(SIZE, backend=backend)
    for seed in range(ROWS):
        order = ["tilt", "temperature", "top_k"]
        scheduler.add(SamplingParams(seed=seed, tilt=2.5, temperature=0.8, top_k=9, order=order), [1])
    return scheduler


def step(backend: str, logits: Any) -> Any:
    return scheduler_on(backend).step(logits)


def test_a_step_that_works_runs_on_the_device(device: CountingDevice) -> None:
    with registered(Tilt()):
        step("torch", OnDevice(torch.from_numpy(LOGITS)))
        device.reset()
        found = step("torch", OnDevice(torch.from_numpy(LOGITS)))
        assert found.token_ids.tolist() == step("numpy", LOGITS).token_ids.tolist()
    assert device.down < 1024
    assert found.token_ids_on_device is not None


@pytest.mark.parametrize("broken", [ReadsNothing, ReadsComplex, AppliesNothing])
def test_rows_of_a_step_that_fails_go_to_the_host(
    broken: type[DeviceStep], caplog: pytest.LogCaptureFixture
) -> None:
    sampler = Tilt()
    sampler.step = broken
    with registered(sampler):
        found = step("torch", OnDevice(torch.from_numpy(LOGITS)))
        assert found.token_ids.tolist() == step("numpy", LOGITS).token_ids.tolist()
    assert found.errors == [None] * ROWS
    assert "a torch step failed" in caplog.text


@pytest.mark.parametrize("broken", [ReadsNothing, AppliesNothing])
def test_a_step_that_fails_is_tried_again_when_a_request_leaves(
    broken: type[DeviceStep], device: CountingDevice, caplog: pytest.LogCaptureFixture
) -> None:
    sampler = Tilt()
    sampler.step = broken
    with registered(sampler):
        there, host = scheduler_on("torch"), scheduler_on("numpy")
        for number in range(6):
            if number == 3:
                assert caplog.text.count("a torch step failed") == 1
                there.remove(there.request_ids[0]), host.remove(host.request_ids[0])
            rows = LOGITS[: len(host.request_ids)]
            found = there.step(OnDevice(torch.from_numpy(rows)))
            assert found.token_ids.tolist() == host.step(rows).token_ids.tolist()
    assert caplog.text.count("a torch step failed") == 2


def test_a_step_that_gives_infinity_ends_its_rows() -> None:
    sampler = Tilt()
    sampler.step = Explodes
    with registered(sampler):
        found = step("torch", OnDevice(torch.from_numpy(LOGITS)))
    assert found.errors == ["tilt gives inf"] * ROWS
