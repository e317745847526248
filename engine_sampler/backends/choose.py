"""Which backend runs: the argument, then ENGINE_SAMPLER_BACKEND, then the best exact one."""

from __future__ import annotations

import os

from ..contract import Backend
from ..registry import default_registry


def named_backend(name: str | Backend) -> Backend | None:
    """The backend that `name` or the environment asks for; None if the choice is automatic.

    Raises ValueError for a name that no plugin registers.
    """
    if isinstance(name, Backend):
        return name
    if name == "auto":
        name = os.environ.get("ENGINE_SAMPLER_BACKEND") or "auto"
    if name == "auto":
        return None
    backends = default_registry().catalogue.backends
    if name not in backends:
        raise ValueError(f"backend={name!r} is not allowed: auto or one of {', '.join(sorted(backends))}")
    return backends[name]


def best_backend(device: str) -> Backend:
    """The exact backend with the highest score for logits on `device`; ties go to the lesser name."""
    backends = default_registry().catalogue.backends
    exact = [b for _, b in sorted(backends.items()) if b.exact]
    return max(exact, key=lambda backend: backend.score(device))
