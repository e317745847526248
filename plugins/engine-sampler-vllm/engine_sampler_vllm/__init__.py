"""engine-sampler in vLLM: its sampler, in both model runners, and its grammars. `ENGINE_SAMPLER_VLLM=1`
switches them on."""

from __future__ import annotations

import os
from importlib import import_module

__all__ = ["register", "switch_off", "switch_on"]

SWITCH = "ENGINE_SAMPLER_VLLM"
"""The environment variable that says what is switched on: 1 for all, or names of `PARTS` between commas."""

PARTS = {"sampler": ("v1", "v2"), "grammars": ("grammars",)}
"""What can be switched on, and the modules that do so."""


def register() -> None:
    """Called by vLLM in each of its processes, perhaps several times: `switch_on` what the environment
    names."""
    value = os.environ.get(SWITCH, "")
    if value not in ("", "0"):
        switch_on(*([] if value == "1" else value.split(",")))


def switch_on(*parts: str) -> None:
    """Let engines that are created from now on use engine-sampler.

    parts  names of `PARTS`; default: all.

    Raises `PeerError` if this release of vLLM has other signatures than those that this package is made for,
    and ValueError for another name: all is vLLM's own then.
    """
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"{SWITCH}={part!r} is not allowed: 1, or of {', '.join(PARTS)}")
    try:
        for part in parts or PARTS:
            for name in PARTS[part]:
                import_module(f".{name}", __name__).put_in()
    except Exception:
        switch_off()
        raise


def switch_off() -> None:
    """Let engines that are created from now on be vLLM's own."""
    from .places import PLACES

    PLACES.put_back()
