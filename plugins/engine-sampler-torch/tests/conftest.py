"""These tests need torch; they compare with the core, and use the random requests of its tests."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine_sampler.for_backends import default_registry

os.environ.setdefault("TRITON_INTERPRET", "1")
"""Kernels are interpreted here; Triton reads this when it is imported."""

PLUGIN = Path(__file__).parents[1]
sys.path[:0] = [str(PLUGIN), str(PLUGIN / "benchmarks"), str(PLUGIN.parents[1])]

from tests.conftest import pytest_runtest_protocol, pytest_sessionfinish  # noqa: E402, F401


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Without torch, only what says so is collected."""
    has_torch = importlib.util.find_spec("torch") is not None
    return None if has_torch or collection_path.name in ("tests", "test_torch_is_there.py") else True


@pytest.fixture(scope="session", autouse=True)
def plugin() -> None:
    """Register the plugin, unless it is installed."""
    import engine_sampler_torch

    registry = default_registry()
    if "torch" not in registry.catalogue.backends:
        registry.register(engine_sampler_torch, "torch")


@pytest.fixture
def device() -> Iterator[Any]:
    """A `CountingDevice`, while the test runs."""
    from counting_device import CountingDevice

    with CountingDevice() as device:
        yield device
