"""`engine-sampler check` on the simulated device, as on any library."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler.testing import LibraryContract
from engine_sampler.testing.library.checking import check_apart
from tests.random_chains import ROUNDS


def test_inputs_may_change_and_calls_end_in_any_order(device: Any) -> None:
    only = ["late inputs on npu:0", "tickets on npu:0"]
    assert {result.name: result.outcome for result in check_apart(device.path, only=only)} == dict.fromkeys(
        only, "passed"
    )


@pytest.mark.skipif(ROUNDS < 2, reason="takes half a minute; ENGINE_SAMPLER_TEST_ROUNDS=2 tries it")
def test_all_promises_are_kept(device: Any) -> None:
    contract = LibraryContract()
    contract.library = device.path  # type: ignore[misc]
    contract.test_the_library_keeps_its_promises()
