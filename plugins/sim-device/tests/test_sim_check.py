"""`engine-sampler check` on the simulated device, as on any library."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler.testing import LibraryContract
from tests.random_chains import ROUNDS


@pytest.mark.skipif(ROUNDS < 2, reason="takes half a minute; ENGINE_SAMPLER_TEST_ROUNDS=2 tries it")
def test_all_promises_are_kept(device: Any) -> None:
    contract = LibraryContract()
    contract.library = device.path  # type: ignore[misc]
    contract.test_the_library_keeps_its_promises()
