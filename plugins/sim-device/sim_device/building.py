"""The library of the simulated device, compiled with $CC or cc."""

from __future__ import annotations

import importlib.resources
import os
import shlex
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "source"
LIBRARY = Path(__file__).resolve().with_name("sim_device.so")
"""Where an installation has its library."""

FLAGS = (
    "-std=gnu11",
    "-O1",
    "-ffp-contract=off",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
)


def installed_library() -> Path | None:
    """What an installation has compiled, unless it lies in a checkout whose sources are newer."""
    if not LIBRARY.is_file():
        return None
    is_checkout = LIBRARY.parents[1].joinpath("hatch_build.py").is_file()
    newest = max(path.stat().st_mtime for path in (*SOURCES.iterdir(), headers() / "engine_sampler.h"))
    return None if is_checkout and newest > LIBRARY.stat().st_mtime else LIBRARY


def headers() -> Path:
    """The folder of engine_sampler.h and of the packaged kernels."""
    return Path(str(importlib.resources.files("engine_sampler") / "_native"))


def kernels() -> Path:
    """The packaged kernels, or those that ENGINE_SAMPLER_NATIVE_LIBRARY names in their place."""
    suffix = ".dylib" if sys.platform == "darwin" else ".so"
    named = os.environ.get("ENGINE_SAMPLER_NATIVE_LIBRARY")
    return Path(named) if named else headers() / f"libengine_sampler{suffix}"


def compile_library(out: Path, *flags: str, compiler: str | None = None) -> Path:
    """Compile the library to `out`. Raises RuntimeError with the compiler's message if it refuses them, and
    OSError if there is no compiler."""
    command = [
        *shlex.split(compiler or os.environ.get("CC", "cc")),
        *FLAGS,
        *flags,
        f"-I{headers()}",
        f'-DSIM_KERNELS="{kernels()}"',
        *map(str, sorted(SOURCES.glob("*.c"))),
        "-o",
        str(out),
        "-lpthread",
        "-ldl",
        "-lm",
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return out
