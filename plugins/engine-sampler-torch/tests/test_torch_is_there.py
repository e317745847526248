"""All tests of this folder need torch: without it, this one says so, and the others are left out."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="engine-sampler-torch is tested in .ci/device, which has torch")


def test_torch_has_what_the_backend_uses() -> None:
    assert tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 6)
