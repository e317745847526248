"""The torch backend obeys the laws of the core's kit, on the host's memory and on a device of its own."""

from __future__ import annotations

from engine_sampler_torch import TorchBackend

from engine_sampler.testing import BackendContract


class TestTorch(BackendContract):
    backend = TorchBackend()
    vocab_sizes = (1, 40, 2100)
    chains = 8
