"""The library and the simulator of CANN, compiled where the tests run."""

from __future__ import annotations

import atexit
import functools
import importlib.resources
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
SOURCES = TESTS.parent / "engine_sampler_ascend" / "src"
SIMULATOR = TESTS / "simulator"
DEVICE = TESTS.parents[1] / "sim-device" / "sim_device" / "source"
HEADER = Path(str(importlib.resources.files("engine_sampler") / "_native"))
"""The folder of engine_sampler.h."""

FLAGS = ("-std=gnu11", "-O1", "-g", "-ffp-contract=off", "-fPIC", "-shared", "-fvisibility=hidden")
WARNINGS = ("-Wall", "-Wextra", "-Werror")
SIMULATED = ("-Wno-unused-function", "-lpthread", "-lm")
LIBRARIES = ("libascendcl.so", "libnnopbase.so", "libopapi.so")


def compiler() -> str:
    """The C compiler's path; skips the test if there is none."""
    names = [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip(f"there is no C compiler (looked for {', '.join(names)})")
    return path


def compile_c(sources: list[Path], out: Path, *flags: str) -> Path:
    """Compile `sources` into the shared library `out`; fails the test with the compiler's message."""
    command = [compiler(), *FLAGS, *WARNINGS, *map(str, sources), *flags, "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(done.stderr, pytrace=False)
    return out


@functools.cache
def folder() -> Path:
    """Removed when the interpreter ends."""
    path = tempfile.mkdtemp(prefix="engine-sampler-ascend-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return Path(path)


@functools.cache
def vendor_library() -> Path:
    """The library that is tested."""
    sources = sorted(SOURCES.glob("*.c"))
    return compile_c(sources, folder() / "libascend.so", "-D_GNU_SOURCE", f"-I{HEADER}", "-ldl", "-lm")


@functools.cache
def cann_home(*definitions: str) -> Path:
    """A folder for ASCEND_HOME_PATH in which the simulator stands in for all libraries of CANN."""
    home = folder() / "-".join(("cann", *definitions))
    (home / "lib64").mkdir(parents=True)
    names = ("sim_faults.c", "sim_memory.c", "sim_streams.c")
    sources = [*sorted(SIMULATOR.glob("*.c")), *(DEVICE / name for name in names)]
    flags = [f"-D{name}" for name in definitions]
    library = compile_c(sources, home / "simulator.so", f"-I{DEVICE}", *flags, *SIMULATED)
    for name in LIBRARIES:
        (home / "lib64" / name).symlink_to(library)
    return home
