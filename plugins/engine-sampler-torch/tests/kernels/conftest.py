"""Kernels run in Triton's interpreter here, which has to be chosen before the first import of Triton."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PLUGIN = Path(__file__).parents[2]
sys.path[:0] = [str(PLUGIN), str(PLUGIN.parents[1])]

collect_ignore_glob = []
if importlib.util.find_spec("torch") is None or importlib.util.find_spec("triton") is None:
    collect_ignore_glob.append("*")
else:
    os.environ.setdefault("TRITON_INTERPRET", "1")
    from interpreter import patch_once

    patch_once()


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`recording.Graphs`: kernels run on the host, and graphs are captured there."""
    from engine_sampler_torch.running import fused
    from recording import Graphs

    monkeypatch.setattr(fused, "DEVICE_TYPES", ["cpu"])
    fused.kernels_for.cache_clear()
    yield Graphs(monkeypatch)
    fused.kernels_for.cache_clear()
