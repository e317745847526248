"""The built-in backends obey the laws of the contract kit that plugins use."""

from __future__ import annotations

import pytest

from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.contract import Backend
from engine_sampler.registry import default_registry
from engine_sampler.testing import BackendContract

NATIVE: Backend = default_registry().catalogue.backends["native"]


@pytest.mark.quick_share(2)
class TestNumpy(BackendContract):
    backend = NumpyBackend()


@pytest.mark.quick_share(2)
@pytest.mark.skipif(bool(NATIVE.reason), reason=NATIVE.reason)
class TestNative(BackendContract):
    backend = NATIVE
