"""The choice of a backend: the argument, then ENGINE_SAMPLER_BACKEND, then the best exact one."""

from __future__ import annotations

import functools
import logging
import os

from ..contract import Backend, Sampler, Selector
from ..registry import default_registry
from .numpy import NumpyBackend

LIBRARY = "library:"
"""The prefix of a backend name that is the path of a shared library."""

logger = logging.getLogger("engine_sampler")


def named_backend(name: str | Backend) -> Backend | None:
    """The backend that `name` or the environment selects; None if the choice is automatic.

    "library:PATH" is the shared library at PATH, loaded once. Raises ValueError for a name that
    no plugin registers and for a backend that cannot be used here, `LibraryError` for a library that cannot
    be used.
    """
    if isinstance(name, Backend):
        return name
    if name == "auto":
        name = os.environ.get("ENGINE_SAMPLER_BACKEND") or "auto"
    if name == "auto":
        return None
    if name == LIBRARY:
        raise ValueError(f"backend={name!r} is not allowed: {LIBRARY}PATH, the path of a shared library")
    if name.startswith(LIBRARY):
        return _library(os.path.abspath(name.removeprefix(LIBRARY)))
    backends = default_registry().catalogue.backends
    if name not in backends:
        known = ", ".join(sorted(backends))
        raise ValueError(f"backend={name!r} is not allowed: auto or one of {known}, or {LIBRARY}PATH")
    backend = backends[name]
    if backend.reason:
        raise ValueError(f"backend={name!r} cannot be used: {backend.reason}")
    return backend


def best_backend(device: str) -> Backend:
    """The exact backend with the highest score for logits on `device`; ties go to the name that sorts
    first."""
    backends = default_registry().catalogue.backends
    exact = [b for _, b in sorted(backends.items()) if b.exact]
    best = max(exact, key=lambda backend: backend.score(device))
    if best.name == "numpy" and "native" in backends and (reason := backends["native"].reason):
        _warn_once(f"sampling runs on NumPy, without the C kernels: {reason}")
    return best


def runner_of(backend: Backend, part: Sampler | Selector) -> Backend:
    """The backend that runs `part` of a chain: `backend`, or the host if it lacks the part."""
    return backend if backend.supports(part) else NumpyBackend()


@functools.cache
def _library(path: str) -> Backend:
    from .library import LibraryBackend

    return LibraryBackend(path)


@functools.cache
def _warn_once(message: str) -> None:
    logger.warning(message)
