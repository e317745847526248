"""The torch backend obeys the laws of the core's kit, with logits in the host's memory and on a device."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from counting_device import DEVICE, CountingDevice, OnDevice
from engine_sampler_torch import TorchBackend, backend
from host_sampler import SecondBest

from engine_sampler import SamplingParams, Scheduler, logprobs
from engine_sampler.arithmetic import LogitRows
from engine_sampler.for_backends import best_backend
from engine_sampler.testing import BackendContract
from tests.engines import registered


class TestOnTheHost(BackendContract):
    backend = TorchBackend()
    vocab_sizes = (1, 40, 2100)
    chains = 8


class TestOnADevice(BackendContract):
    backend = TorchBackend()
    vocab_sizes = (40, 2100)
    chains = 6

    @pytest.fixture(autouse=True)
    def device(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """The device, also in the threads in which the kit calls the backend."""
        device = CountingDevice()

        def in_thread(call: Callable[[], Any]) -> Any:
            def call_with_device() -> Any:
                with device:
                    return call()

            with ThreadPoolExecutor(1) as pool:
                return pool.submit(call_with_device).result()

        monkeypatch.setattr("engine_sampler.testing.search.surroundings._in_thread", in_thread)
        with device:
            yield

    def place(self, logits: np.ndarray) -> Any:
        return OnDevice(torch.from_numpy(logits.copy()))


def test_auto_takes_it_for_logits_on_a_device_only() -> None:
    with CountingDevice():
        assert best_backend(str(DEVICE)).name == "torch"
    assert best_backend("cpu").name == "native"


def test_it_can_be_asked_for_on_the_host() -> None:
    scheduler = Scheduler(10, backend="torch")
    assert scheduler.backend is not None
    assert scheduler.backend.name == "torch"


def test_reports_say_from_where_on_the_host_runs_a_chain() -> None:
    with registered(SecondBest()):
        scheduler = Scheduler(10, backend="torch")
        scheduler.add(
            SamplingParams(top_k=3, second_best=True, order=["top_k", "second_best", "temperature"])
        )
        scheduler.add(SamplingParams(second_best=True, top_p=0.9, order=["second_best", "top_p"]))
        scheduler.add(SamplingParams(temperature=0.5, min_p=0.1))
        assert [str(report) for report in scheduler.explain()] == [
            "1 rows: top_k (torch) → second_best (numpy) → dist (numpy)",
            "1 rows: second_best (numpy) → top_p (numpy) → dist (numpy)",
            "1 rows: min_p (torch) → temperature (torch) → dist (torch)",
        ]


@pytest.mark.parametrize("device", ["cuda:0", "mps", "npu:0", "far:0", "no device at all"])
def test_it_is_of_no_use_for_devices_that_torch_does_not_have(device: str) -> None:
    backend = TorchBackend()
    assert (backend.score(device), backend.reads_from(device)) == (0.0, False)


def test_work_is_done_on_the_card_of_the_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[torch.device] = []

    @contextmanager
    def card(device: torch.device) -> Iterator[None]:
        entered.append(device)
        yield

    monkeypatch.setattr(torch.cuda, "device", card)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    second = types.SimpleNamespace(remote=object(), device="cuda:1")
    with backend.work_on(second):
        assert entered == [torch.device("cuda", 1)]
        assert not torch.is_grad_enabled()
    with backend.work_on(types.SimpleNamespace(remote=None, device="cpu")):
        assert len(entered) == 1
    first = types.SimpleNamespace(remote=object(), device="cuda:0")
    with torch.no_grad(), backend.work_on(first):
        assert len(entered) == 1  # nothing is left to do
    with backend.work_on(first):
        assert not torch.is_grad_enabled()


def test_steps_processing_and_logprobs_work_on_the_card_of_the_logits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places: list[str] = []

    @contextmanager
    def noted(logits: LogitRows) -> Iterator[None]:
        places.append(logits.device)
        with torch.no_grad():
            yield

    monkeypatch.setattr(backend, "work_on", noted)
    with CountingDevice():
        scheduler = Scheduler(10, backend="torch")
        scheduler.add(SamplingParams(top_k=3, logprobs=1))
        logits = OnDevice(torch.zeros(1, 10))
        scheduler.step(logits)
        scheduler.begin(logits).finish()
        scheduler.process(logits, on_device=True)
        logprobs(logits, [3])
    assert places == [str(DEVICE)] * 5  # a step, and one in its two halves
