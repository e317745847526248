"""A device is asked whether it computes exactly before it is used."""

from __future__ import annotations

import pytest
import torch
from engine_sampler_torch import arithmetic
from engine_sampler_torch.arithmetic import probe


def test_the_cpu_is_exact() -> None:
    assert arithmetic.shortcoming("cpu") is None


def test_flushed_denormals_are_noticed() -> None:
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush denormals")
    try:
        assert arithmetic.shortcoming("cpu") == "denormal numbers are flushed to zero on cpu"
    finally:
        torch.set_flush_denormal(False)


def test_a_device_that_cannot_hold_results_is_named() -> None:
    assert str(arithmetic.shortcoming("meta")).startswith("meta cannot do it: ")


def test_another_rounding_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "weights", lambda y: torch.exp2(y + 30).round().to(torch.int64))
    assert arithmetic.shortcoming("cpu") == "weights are not exact on cpu"
