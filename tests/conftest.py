"""Settings and helpers for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Neither the speed of the machine nor the number of examples that a filter rejects is a fault of the code.
settings.register_profile(
    "suite",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
settings.load_profile("suite")


def shared_data(name: str) -> Path:
    """A file of peers' test cases, stored next to the checkout; skips the test if the file is missing."""
    folder = os.environ.get("ENGINE_SAMPLER_TEST_DATA")
    root = Path(folder) if folder else Path(__file__).resolve().parents[2] / "shared" / "data"
    path = root / name
    if not path.exists():
        pytest.skip(f"{name} is missing from {root}; set ENGINE_SAMPLER_TEST_DATA")
    return path
