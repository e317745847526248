"""These tests run on a simulator of CANN, which stands on plugins/sim-device."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from ascend_harness import Chip, Host, nothing_left  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def collected() -> Iterator[None]:
    """What schedulers have used is given back when their module ends, not in a later test that counts."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def simulated_chip() -> Chip:
    return Chip()


@pytest.fixture
def chip(simulated_chip: Chip, monkeypatch: pytest.MonkeyPatch) -> Chip:
    """The chip, as new, where the library looks for CANN."""
    monkeypatch.setenv("ASCEND_HOME_PATH", str(simulated_chip.home))
    simulated_chip.reset()
    return simulated_chip


@pytest.fixture
def host(chip: Chip) -> Iterator[Host]:
    """An exact context, after which nothing is left."""
    with nothing_left(chip):
        host = Host(chip)
        yield host
        host.close()


@pytest.fixture
def operators(chip: Chip) -> Iterator[Host]:
    """A context that runs CANN's own sampling operators, after which nothing is left."""
    with nothing_left(chip):
        host = Host(chip, "operators")
        yield host
        host.close()
