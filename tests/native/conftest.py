"""Tests that need the native library are skipped, with the reason, if there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine_sampler.backends.native import NativeBackend


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = NativeBackend().reason
    if not reason or os.environ.get("ENGINE_SAMPLER_REQUIRE_NATIVE") == "1":
        return
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=f"the native backend cannot be used: {reason}"))
