"""C sources of the native backend as small libraries of their own, compiled where the tests run."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import cffi
import pytest

NATIVE = Path(__file__).resolve().parents[2] / "native"
SOURCES = NATIVE / "src"
INCLUDE = NATIVE / "include"
CONTRACT = INCLUDE / "engine_sampler.h"

ARITHMETIC = ("-std=gnu11", "-O2", "-ffp-contract=off", "-fno-math-errno")
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")


@functools.cache
def load(*sources: str, headers: tuple[str, ...] = (), flags: tuple[str, ...] = ()) -> tuple[Any, Any]:
    """(ffi, lib) of a library compiled from `sources`, names below native/src; compiled once per session.

    headers  names below native/src whose declarations the library offers, after the contract's.
    flags    for the compiler, after `ARITHMETIC` and `WARNINGS`.
    Skips the test if there is no C compiler; fails it if the compiler rejects the sources.
    """
    ffi = cffi.FFI()
    for header in (CONTRACT, *(SOURCES / name for name in headers)):
        ffi.cdef(declarations(header))
    return ffi, ffi.dlopen(str(_shared_library(sources, flags)))


def declarations(header: Path) -> str:
    """The text between the marks of a header: plain declarations, as cffi reads them."""
    text = header.read_text(encoding="utf-8")
    return text.split("/* cdef: begin */")[1].split("/* cdef: end */")[0]


def compiler() -> str:
    """The C compiler's path: the environment's CC, else cc, gcc or clang; skips without one."""
    names = [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"there is no C compiler (looked for {', '.join(names)})")
    return found


def _shared_library(sources: tuple[str, ...], flags: tuple[str, ...]) -> Path:
    library = Path(tempfile.mkdtemp(dir=folder())) / "library.so"
    paths = [str(SOURCES / name) for name in sources]
    options = [*ARITHMETIC, *WARNINGS, *flags, f"-I{INCLUDE}", f"-I{SOURCES}", "-shared", "-fPIC"]
    command = [compiler(), *options, "-o", str(library), *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(command)}\n{done.stderr}", pytrace=False)
    return library


@functools.cache
def folder() -> str:
    """Removed when the interpreter ends."""
    folder = tempfile.mkdtemp(prefix="engine-sampler-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
