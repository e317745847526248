"""The table of whole steps, tried on the host with few requests."""

from __future__ import annotations

from dataclasses import replace

import pytest
from on_device.step_times import CASES, StepCase, table


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name} {case.rows}")
def test_every_case_is_a_step_of_requests_that_live_on(case: StepCase) -> None:
    (line,) = table("cpu", 300, [replace(case, rows=4)])
    assert (line["a scheduler's step"], line["requests"]) == (case.name, 4)
    assert line["µs"] >= line["of it on the host, µs"] > 0
