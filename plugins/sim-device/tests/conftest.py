"""Each test has the device to itself, like new, and leaves nothing on it."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PLUGIN = Path(__file__).parents[1]
sys.path[:0] = [str(PLUGIN), str(PLUGIN / "tests"), str(PLUGIN.parents[1])]

LIVE = ("blocks", "pinned_blocks", "streams", "events", "executors", "exports", "queued", "overruns")
"""What must be 0 when all is over."""


def live(device: Any) -> dict[str, int]:
    """What is left on the device, if anything, once all that is unreachable has been freed, and threads that
    have just done their work have let go of it."""
    for attempt in range(50):
        if not counted(device):
            break
        gc.collect(min(attempt, 2))
        time.sleep(0.01 if attempt > 2 else 0)
    return counted(device)


def counted(device: Any) -> dict[str, int]:
    """What is on the device now."""
    counters = device.counters() | {"contexts": device.contexts}
    return {name: counters[name] for name in (*LIVE, "contexts") if counters[name]}


@pytest.fixture(scope="session")
def one_device(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if sys.platform == "win32" or not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("the simulated device needs a C compiler of a POSIX system")
    from sim_device import SimDevice, compile_library, kernels

    if not kernels().is_file():
        pytest.skip("there are no packaged kernels to do its arithmetic")
    flags = os.environ.get("SIM_DEVICE_FLAGS", "-O0").split()
    return SimDevice(compile_library(tmp_path_factory.mktemp("sim") / "sim_device.so", "-Werror", *flags))


@pytest.fixture
def device(one_device: Any) -> Iterator[Any]:
    """The simulated device; the test fails if it leaves anything on it."""
    one_device.reset()
    one_device.configure()
    one_device.enter()
    yield one_device
    one_device.reset()
    assert live(one_device) == {}
