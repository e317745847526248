"""The command that verifies and measures, on the simulated chip, and its one line where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ascend_arrays import NpuArray
from ascend_building import vendor_library
from ascend_harness import Chip
from engine_sampler_ascend import AscendBackend
from engine_sampler_ascend.on_device.arrays import FORMS, floats, rounded
from engine_sampler_ascend.on_device.command import report, summary
from engine_sampler_ascend.on_device.draws import draw
from engine_sampler_ascend.on_device.equality import compare

PLUGIN = Path(__file__).resolve().parents[1]


@pytest.fixture
def place(chip: Chip) -> Iterator[Any]:
    placed: list[NpuArray] = []

    def put(elements: np.ndarray) -> NpuArray:
        placed.append(NpuArray(chip, elements))
        return placed[-1]

    yield put
    for array in placed:
        array.free()


@pytest.fixture
def backend(chip: Chip) -> AscendBackend:
    return AscendBackend("ascend", library=vendor_library())


def test_random_requests_are_equal_beside_the_host(backend: AscendBackend, place: Any) -> None:
    found = compare(backend, place, 256, 60, (512, 1024))
    assert found.difference is None
    assert found.rows == 256


def test_a_chip_that_computes_otherwise_is_found(backend: AscendBackend, chip: Chip) -> None:
    def wrong(elements: np.ndarray) -> NpuArray:
        return NpuArray(chip, np.roll(elements, 1, axis=1))

    found = compare(backend, wrong, 64, 60, (512,))
    assert found.difference is not None
    assert found.difference.startswith("step 0, row ")


def test_the_report_and_its_summary(backend: AscendBackend, place: Any) -> None:
    small = {"rows": 64, "vocab_size": 512, "timed_rows": (1, 4), "repeats": 2, "form": "float32"}
    found = report(backend, None, place, **small)
    assert found["passed"]
    assert found["target"] == "Ascend910B3, exact"
    text = summary(found)
    assert "64 rows beside the host: equal" in text
    assert text.count("\n| ") == 6


def test_draws_are_compared_with_the_softmax(place: Any) -> None:
    """By the reference, which is not an operator, but draws."""
    found = draw("numpy", lambda logits: logits, 500)  # type: ignore[arg-type]
    assert found["passed"], found
    biased = draw("numpy", lambda logits: np.where(logits > 3, logits + 2, logits), 500)  # type: ignore[arg-type]
    assert not biased["passed"]


@pytest.mark.parametrize("form", FORMS)
def test_types_are_rounded_to_the_nearest(form: str) -> None:
    logits = np.array([[1.0, -2.5, np.nan, -np.inf, 3.14159]], np.float32)
    np.testing.assert_allclose(floats(rounded(logits, form)), logits, rtol=2**-8)


def test_without_an_npu_there_is_one_clear_line() -> None:
    names = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "LD_LIBRARY_PATH")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment["PYTHONPATH"] = os.pathsep.join([str(PLUGIN), str(PLUGIN.parents[1])])
    done = subprocess.run(
        [sys.executable, "-m", "engine_sampler_ascend"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stdout.startswith("no NPU to run on: ")
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
