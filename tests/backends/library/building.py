"""The toy vendor's library and variants of it, compiled where the tests run."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cffi
import pytest

from ...native.building import ARITHMETIC, INCLUDE, WARNINGS, compiler, folder

HERE = Path(__file__).resolve().parent
PLUGINS = HERE.parents[2] / "plugins"
TOY_VENDOR = PLUGINS / "toy-vendor"
SIM_DEVICE = PLUGINS / "sim-device" / "sim_device" / "source"


@functools.cache
def library(source: Path, *definitions: str, optimized: bool = False) -> Path:
    """The shared library of one C source, compiled once; skips the test if there is no compiler."""
    out = Path(tempfile.mkdtemp(dir=folder())) / "library.so"
    flags = [f"-D{definition}" for definition in definitions]
    flags += [
        "-O2" if optimized else "-O0",
        "-fvisibility=hidden",
        "-shared",
        "-fPIC",
        f"-I{INCLUDE}",
        f"-I{TOY_VENDOR}",
        f"-I{SIM_DEVICE}",
        "-ldl",
        "-lm",
    ]
    compile_c(source, out, *flags)
    return out


def compile_c(source: Path, out: Path, *flags: str) -> None:
    """Compile `source` into `out`; fails the test with the compiler's message."""
    command = [compiler(), *ARITHMETIC, *WARNINGS, str(source), *flags, "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(done.stderr, pytrace=False)


def toy(*definitions: str) -> Path:
    """The toy vendor's library."""
    return library(TOY_VENDOR / "toy_vendor.c", *definitions)


def variant(*definitions: str) -> Path:
    """The toy vendor's library with another table, as defined in variants.c."""
    return library(HERE / "variants.c", *definitions)


@functools.cache
def simulated_device() -> Path:
    """The library of the simulated device."""
    out = Path(tempfile.mkdtemp(dir=folder())) / "device.so"
    sources = sorted(map(str, SIM_DEVICE.glob("*.c")))
    flags = [
        "-std=gnu11",
        "-O1",
        "-ffp-contract=off",
        "-fvisibility=hidden",
        "-shared",
        "-fPIC",
        f"-I{INCLUDE}",
    ]
    command = [compiler(), *flags, *sources, "-o", str(out), "-lpthread", "-ldl", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(done.stderr, pytrace=False)
    return out


class FaultyToy:
    """The toy vendor's library, whose calls fail on demand."""

    def __init__(self, path: Path) -> None:
        ffi = cffi.FFI()
        ffi.cdef("void toy_fail(const char *, int32_t, int32_t, int32_t); int32_t toy_live(void);")
        self.path = path
        self._ffi, self._lib = ffi, ffi.dlopen(str(path))
        self._names: Mapping[str, Any] = {
            name: ffi.new("char[]", name.encode()) for name in ("open", "query", "compile", "run")
        }
        self.recover()

    def fail(self, call: str, code: int, *, skip: int = 0, times: int = 1) -> None:
        """Let `skip` calls of `call` pass, and the next `times` fail with `code`."""
        self._lib.toy_fail(self._names[call], skip, times, code)

    def recover(self) -> None:
        """Let all calls succeed again."""
        self._lib.toy_fail(self._ffi.NULL, 0, 0, 0)

    @property
    def live(self) -> int:
        """How many contexts are open."""
        return int(self._lib.toy_live())


def faulty_toy() -> FaultyToy:
    return FaultyToy(toy("TOY_FAULTS"))
