"""The host's part of a step, by a clock that the test drives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from engine_sampler_torch.running import transfer
from on_device import __main__ as command
from on_device import host_time


class Done:
    """An event that nobody need wait for."""

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True


class Steps:
    """A scheduler whose steps work for 70 µs and wait for 900 µs, by its own clock."""

    def __init__(self) -> None:
        self.now = 0.0

    def step(self, logits: torch.Tensor) -> None:
        self.now += 50e-6
        transfer.wait(Done())
        self.now += 20e-6

    def wait(self, done: transfer.StreamEvent) -> None:
        self.now += 900e-6


def test_what_a_step_waits_for_the_device_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps()
    monkeypatch.setattr(host_time, "stepped", lambda *given: (steps, torch.zeros(1, 2)))
    monkeypatch.setattr(host_time.time, "perf_counter", lambda: steps.now)
    monkeypatch.setattr(transfer, "wait", steps.wait)
    found = host_time.host_times("cuda:0")
    assert found == pytest.approx(dict.fromkeys(("default chain", "greedy", "penalties"), 70))


def test_the_cases_are_requests_that_can_be_sampled() -> None:
    for chain in host_time.CASES.values():
        scheduler, logits = host_time.stepped("cpu", 2, 40, chain)
        assert (scheduler.step(logits).token_ids >= 0).all()


def test_the_summary_names_it_beside_its_bar() -> None:
    report: dict[str, Any] = {
        "date": "", "name": "", "device": "", "torch": "", "shortcoming": None, "movement": {},
        "equality": {"difference": None, "rows": 5, "asked": 5, "least": 5}, "sanitizer": None,
        "absent": None, "timings": [], "step_times": [],
        "host_time": {"default chain": 58.6, "greedy": 41.2},
    }  # fmt: skip
    assert command.summary(report).endswith(
        "the host's part of a step, 64 requests, default chain: 59 µs (bar 60)\n"
        "the host's part of a step, 64 requests, greedy: 41 µs"
    )
