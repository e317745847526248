"""Files that come with the package: C headers, the C library, and library grammars.

Environment: ENGINE_SAMPLER_NATIVE_LIBRARY names a library to load instead of the packaged one, such as a
build with sanitizers.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path, PurePath
from typing import Any

from .forking import fork_safe

PACKAGE = "engine_sampler"
GRAMMAR_FOLDER = "_grammars"
_NATIVE_FOLDER = "_native"
_LIBRARY_SUFFIXES = {"win32": ".dll", "darwin": ".dylib"}


def header_text(header: str) -> str:
    """The text of a C header, such as "engine_sampler.h"."""
    text: str = (_folder(_NATIVE_FOLDER) / header).read_text(encoding="utf-8")
    return text


def header_declarations(header: str) -> str:
    """The part of a C header between its cdef markers: plain declarations that cffi can read."""
    return header_text(header).split("/* cdef: begin */")[1].split("/* cdef: end */")[0]


def library_path() -> Path | None:
    """The C library that ENGINE_SAMPLER_NATIVE_LIBRARY names, else the packaged one, else None."""
    if given := os.environ.get("ENGINE_SAMPLER_NATIVE_LIBRARY"):
        return Path(given)
    name = f"libengine_sampler{_LIBRARY_SUFFIXES.get(sys.platform, '.so')}"
    packaged = Path(str(_folder(_NATIVE_FOLDER) / name))
    return packaged if packaged.is_file() else None


def new_interface(declarations: str) -> Any:
    """A `cffi.FFI` with these declarations. Its locks are free in the child of a fork: it holds them while it
    reads a type that is named for the first time, which takes some milliseconds."""
    import cffi  # type: ignore[import-untyped]  # only where the library is used
    from cffi import cparser, model

    ffi = cffi.FFI()
    for owner, name in ((ffi, "_lock"), (cparser, "lock"), (model, "global_lock")):
        if hasattr(owner, name):
            fork_safe(getattr(owner, name))
    ffi.cdef(declarations)
    return ffi


@functools.cache
def load_functions(header: str, function: str) -> tuple[Any, Any] | None:
    """The C library with what `header` declares, and its `cffi.FFI`; None if there is none that has
    `function`."""
    path = library_path()
    if path is None:
        return None
    ffi = new_interface(header_declarations(header))
    try:
        library = ffi.dlopen(str(path))
        getattr(library, function)
    except (OSError, AttributeError):
        return None
    return library, ffi


def load_histories() -> tuple[Any, Any] | None:
    """The C library with what works on histories, and its `cffi.FFI`; None without it."""
    return load_functions("engine_sampler_histories.h", "es_histories_repeats")  # the newest of its functions


def grammar_names() -> list[str]:
    """The names of the library grammars."""
    files = (PurePath(file.name) for file in _folder(GRAMMAR_FOLDER).iterdir())
    return sorted(file.stem for file in files if file.suffix == ".lark")


def grammar_text(name: str) -> str:
    """The Lark text of a library grammar. Raises OSError if there is no grammar of that name."""
    text: str = (_folder(GRAMMAR_FOLDER) / f"{name}.lark").read_text(encoding="utf-8")
    return text


def _folder(name: str) -> Any:  # a Traversable; its module moved in Python 3.11
    import importlib.resources  # only here: it loads a dozen modules

    return importlib.resources.files(PACKAGE) / name
