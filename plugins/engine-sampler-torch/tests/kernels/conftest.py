"""Kernels run in Triton's interpreter here, which has to be chosen before the first import of Triton."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from typing import Any

import pytest

collect_ignore_glob = []
if importlib.util.find_spec("torch") is None or importlib.util.find_spec("triton") is None:
    collect_ignore_glob.append("*")
else:
    os.environ.setdefault("TRITON_INTERPRET", "1")
    from interpreter import patch_once

    patch_once()


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels run on the host."""
    from engine_sampler_torch.running import fused

    monkeypatch.setattr(fused, "DEVICE_TYPES", ["cpu"])
    fused.kernels_for.cache_clear()
    yield
    fused.kernels_for.cache_clear()


@pytest.fixture
def graphs(kernels: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`recording.Graphs`: kernels run on the host, and graphs are captured there."""
    from recording import Graphs

    return Graphs(monkeypatch)
