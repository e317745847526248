"""What is registered, as plain data: for `engine-sampler plugins`, as a table and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .catalogue import Catalogue
from .contract import Backend, Sampler
from .registry import Registry

LISTED = ("samplers", "selectors", "stopping_criteria", "backends", "grammars", "observers")


def inventory(registry: Registry) -> dict[str, list[dict[str, Any]]]:
    """Every object by kind, with origin and state, and every plugin with its state and reason.

    All values can be written as JSON.
    """
    catalogue = registry.catalogue
    listed = {kind: [_entry(catalogue, kind, name) for name in getattr(catalogue, kind)] for kind in LISTED}
    return {**listed, "plugins": [asdict(status) for status in registry.plugins]}


def summary_of(value: object) -> str:
    """The first sentence of a class's docstring."""
    paragraph = (type(value).__doc__ or "").strip().partition("\n\n")[0]
    sentence, _, rest = " ".join(paragraph.split()).partition(". ")
    return f"{sentence}." if rest else sentence


def _entry(catalogue: Catalogue, kind: str, name: str) -> dict[str, Any]:
    value = getattr(catalogue, kind)[name]
    entry: dict[str, Any] = {
        "name": name,
        "origin": catalogue.origins[f"{kind}/{name}"],
        "state": _backend_state(value) if isinstance(value, Backend) else "loaded",
        "summary": summary_of(value),
        "parameters": [param.name for param in getattr(value, "params", ())],
    }
    if isinstance(value, Sampler):
        entry["role"] = value.role
    if isinstance(value, Backend):
        entry["exact"] = value.exact
        entry["reason"] = value.reason
    return entry


def _backend_state(backend: Backend) -> str:
    """Whether a backend can be used here for logits on the CPU."""
    try:
        return "usable" if backend.score("cpu") > 0 else "not usable here"
    except Exception as error:  # a plugin's code
        return f"failed: {type(error).__name__}: {error}"
