"""The choice of a backend: the argument, then ENGINE_SAMPLER_BACKEND, then the best exact one.

That a plugin is installed does not show that its backend is faster than this package's: "auto" takes it for
logits on a device that it reads, from which this package's would copy them, and nowhere else. A deployer who
knows better names it.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..base.arguments import instance_of
from ..base.calling import call_plugin
from ..base.environment import variables_set
from ..base.errors import PluginFault, warn_once
from ..contract import Backend, Chain, Sampler, Selector
from ..registry import Registry, default_registry
from .hosted import HostedBackend, supports_all
from .numpy import NumpyBackend

LIBRARY = "library:"
"""The prefix of a backend name that is the path of a shared library."""

logger = logging.getLogger("engine_sampler")


@dataclass(frozen=True)
class BackendChoice:
    """A backend, why it is taken, and why each other one that is registered is not, by name."""

    backend: Backend
    why: str
    others: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        others = "".join(f"; not {name}: {why}" for name, why in self.others.items())
        return f"backend {described(self.backend)}: {self.why}{others}"


def described(backend: Backend) -> str:
    """The name of `backend`, with the instruction set or device that it reports."""
    target = target_of(backend)
    return f"{backend.name} ({target})" if target else backend.name


def target_of(backend: Backend) -> str:
    """The instruction set or device that `backend` uses, empty if it reports none."""
    try:
        return "" if backend.reason else str(call_plugin(backend.name, getattr, backend, "target", ""))
    except PluginFault:
        return ""


# --- by name -------------------------------------------------------------------------------------


def named_backend(name: str | Backend) -> Backend | None:
    """The backend that `name` or the environment selects; None if the choice is automatic.

    "library:PATH" is the shared library at PATH, loaded once. ENGINE_SAMPLER_LIBRARY_TIMEOUT sets a time
    limit for its steps, in seconds. Raises ValueError for a name that no plugin registers, and for a backend
    or an ENGINE_SAMPLER_ISA that cannot be used here. A library that cannot be used raises `LibraryError`.
    """
    choice = named_choice(name)
    if choice is None:
        return None
    if logger.isEnabledFor(logging.INFO):
        _log_once(str(choice))
    return choice.backend


def named_choice(name: str | Backend = "auto", registry: Registry | None = None) -> BackendChoice | None:
    """As `named_backend`, with the reason; from `registry`, by default that of this process."""
    if isinstance(name, Backend):
        return BackendChoice(name, "given as an object")
    instance_of(str, "backend", name, "a name, or a Backend")
    why = f"named by backend={name!r}"
    if name == "auto":
        name = os.environ.get("ENGINE_SAMPLER_BACKEND") or "auto"
        why = f"named by ENGINE_SAMPLER_BACKEND={name}"
    if name == "auto":
        if os.environ.get("ENGINE_SAMPLER_ISA"):
            _check_isa(registry or default_registry())
        return None
    return BackendChoice(_backend_called(name, registry or default_registry()), why)


def _check_isa(registry: Registry) -> None:
    """Raise ValueError if the C kernels cannot run with the instruction set that is asked for: as with a
    backend that is named, nothing else takes its place. Without a compiler there are no kernels to ask."""
    if fault := getattr(registry.catalogue.backends.get("native"), "isa_fault", ""):
        raise ValueError(fault)


def _backend_called(name: str, registry: Registry) -> Backend:
    if name == LIBRARY:
        raise ValueError(f"backend={name!r} is not allowed: {LIBRARY}PATH, the path of a shared library")
    if name.startswith(LIBRARY):
        return _library(os.path.abspath(name.removeprefix(LIBRARY)))
    backends = registry.catalogue.backends
    if name not in backends:
        known = ", ".join(sorted(backends))
        raise ValueError(f"backend={name!r} is not allowed: auto or one of {known}, or {LIBRARY}PATH")
    backend = backends[name]
    if backend.reason:
        raise ValueError(f"backend={name!r} cannot be used: {backend.reason}")
    return backend


# --- automatically -------------------------------------------------------------------------------


def best_backend(device: str) -> Backend:
    """The backend that "auto" takes for logits on `device`. The reasons are logged once."""
    registry = default_registry()
    best, backends = _best(device, registry), registry.catalogue.backends
    if best.name == "numpy" and "native" in backends and (reason := backends["native"].reason):
        warn_once(f"sampling runs on NumPy, without the C kernels: {reason}")
    if logger.isEnabledFor(logging.INFO):
        _log_once(f"logits on {device}: {automatic_choice(device, registry)}")
    return best


def automatic_choice(device: str, registry: Registry) -> BackendChoice:
    """The backend that "auto" takes for logits on `device`, with the reasons: that with the highest score for
    it among this package's and, unless it is the host, those of plugins that read logits on it, all of them
    exact. Ties go to this package's, then to the name that sorts first."""
    best = _best(device, registry)
    if registry.is_built_in(best):
        why = "the best of engine-sampler's own"
    else:
        why = f"the best of those that read logits on {device}"
    backends = sorted(registry.catalogue.backends.items())
    others = {name: _why_not(b, best, device, registry) for name, b in backends if b is not best}
    return BackendChoice(best, why, others)


def _best(device: str, registry: Registry) -> Backend:
    backends = sorted(registry.catalogue.backends.items())
    candidates = [backend for _, backend in backends if not _objection(backend, device, registry)]
    return max(candidates, key=lambda backend: (_score(backend, device), registry.is_built_in(backend)))


def _objection(backend: Backend, device: str, registry: Registry) -> str:
    """Why "auto" does not consider `backend` for logits on `device`; empty if it does."""
    if not backend.exact:
        return "inexact (used by name)"
    if registry.is_built_in(backend):
        return ""
    if "cpu" in device.lower():
        return "of a plugin (used by name, or for logits on a device that it reads)"
    if not _reads_from(backend, device):
        return f"of a plugin that does not read logits on {device} (used by name)"
    return ""


def _why_not(backend: Backend, best: Backend, device: str, registry: Registry) -> str:
    """Why "auto" takes `best` in place of `backend`."""
    if objection := _objection(backend, device, registry):  # first: a reason may have to be loaded
        return objection
    if backend.reason:
        return backend.reason
    score, highest = _score(backend, device), _score(best, device)
    return f"its score is {score:g}, that of {best.name} {highest:g}"


def _reads_from(backend: Backend, device: str) -> bool:
    try:
        return bool(call_plugin(f"backend {backend.name}", backend.reads_from, device))
    except PluginFault as fault:
        warn_once(f"a backend is not used: {fault}")
        return False


def _score(backend: Backend, device: str) -> float:
    """What `backend` says about itself; 0 if it fails, or gives no number."""
    try:
        score = call_plugin(f"backend {backend.name}", lambda: float(backend.score(device)))
    except PluginFault as fault:
        warn_once(f"a backend is not used: {fault}")
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
def _log_once(message: str) -> None:
    settings = ", ".join(f"{name}={value}" for name, value in variables_set().items())
    logger.info("%s%s", message, f" (environment: {settings})" if settings else "")
