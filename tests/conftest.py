"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How fast a machine is, and how many examples a filter happens to leave, is no fault of what is tested.
settings.register_profile(
    "suite",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
settings.load_profile("suite")


def shared_data(name: str) -> Path:
    """A file of peers' test cases, which lies beside the checkout; skips the test where it is absent."""
    folder = os.environ.get("ENGINE_SAMPLER_TEST_DATA")
    root = Path(folder) if folder else Path(__file__).resolve().parents[2] / "shared" / "data"
    path = root / name
    if not path.exists():
        pytest.skip(f"{name} is not there (looked in {root}; set ENGINE_SAMPLER_TEST_DATA)")
    return path
