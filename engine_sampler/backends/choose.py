"""The choice of a backend: the argument, then ENGINE_SAMPLER_BACKEND, then the best exact one."""

from __future__ import annotations

import functools
import logging
import os

from ..base.calling import call_plugin
from ..base.errors import INTERRUPTIONS
from ..contract import Backend, Chain, Sampler, Selector
from ..registry import default_registry
from .hosted import HostedBackend, supports_all
from .numpy import NumpyBackend

LIBRARY = "library:"
"""The prefix of a backend name that is the path of a shared library."""

logger = logging.getLogger("engine_sampler")


def named_backend(name: str | Backend) -> Backend | None:
    """The backend that `name` or the environment selects; None if the choice is automatic.

    "library:PATH" is the shared library at PATH, loaded once, with the time limit for its steps that
    ENGINE_SAMPLER_LIBRARY_TIMEOUT sets in seconds, if it is set. Raises ValueError for a name that
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
    best = max(exact, key=lambda backend: _score(backend, device))
    if best.name == "numpy" and "native" in backends and (reason := backends["native"].reason):
        _warn_once(f"sampling runs on NumPy, without the C kernels: {reason}")
    return best


def _score(backend: Backend, device: str) -> float:
    """What `backend` says about itself; 0 if it fails, or gives no number."""
    try:
        score = float(call_plugin(f"backend {backend.name}", backend.score, device))
    except INTERRUPTIONS:
        raise
    except BaseException as error:
        _warn_once(f"a backend is not used: {error}")
        return 0.0
    return score if score == score else 0.0


def with_host(backend: Backend) -> Backend:
    """`backend`, and the host for the chains that it does not support, unless it sees to that itself."""
    is_whole = backend.hosts_the_rest or type(backend).supports is Backend.supports
    return backend if is_whole else HostedBackend(backend)


def runner_of(backend: Backend, part: Sampler | Selector, chain: Chain) -> Backend:
    """The backend that runs `part` of `chain`: `backend`, or the host."""
    supported = backend.runs(part, chain) if backend.hosts_the_rest else supports_all(backend, chain)
    return backend if supported else NumpyBackend()


@functools.cache
def _library(path: str) -> Backend:
    from .library import LibraryBackend

    given = os.environ.get("ENGINE_SAMPLER_LIBRARY_TIMEOUT")
    try:
        timeout = float(given) if given else None
    except ValueError:
        raise ValueError(f"ENGINE_SAMPLER_LIBRARY_TIMEOUT={given!r} is not a number of seconds") from None
    return LibraryBackend(path, timeout=timeout)


@functools.cache
def _warn_once(message: str) -> None:
    logger.warning(message)
