"""engine-sampler in vLLM: its sampler, in both model runners, and its grammars. `ENGINE_SAMPLER_VLLM=1`
switches them on."""

from __future__ import annotations

import os
from importlib import import_module

from .places import PLACES

__all__ = ["register", "state", "switch_off", "switch_on"]

SWITCH = "ENGINE_SAMPLER_VLLM"
"""The environment variable that says what is switched on: 1 for all, or names of `PARTS` between commas."""

PARTS = {"sampler": ("v1", "v2"), "grammars": ("grammars",)}
"""What can be switched on, and the modules that do so."""


def register() -> None:
    """Called by vLLM in each of its processes, perhaps several times: `switch_on` what the environment
    names."""
    if (parts := _switched()) is not None:
        switch_on(*parts)


def state() -> tuple[bool, str]:
    """Whether vLLM's processes will switch this on, and why, for `engine-sampler plugins`."""
    parts = _switched()
    if parts is None:
        return False, f"{SWITCH}=1 switches it on"
    return True, f"{SWITCH}={os.environ[SWITCH]} switches {' and '.join(parts or PARTS)} on"


def _switched() -> list[str] | None:
    """The parts that the environment names, [] for all; None if it switches nothing on."""
    value = os.environ.get(SWITCH, "")
    return None if value in ("", "0") else [] if value == "1" else value.split(",")


def switch_on(*parts: str) -> None:
    """Let engines that are created from now on use engine-sampler.

    parts  names of `PARTS`; default: all.

    Raises `PeerError` if this release of vLLM cannot be imported, or has other signatures than those that
    this package is made for, and ValueError for another name: all is vLLM's own then.
    """
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"{SWITCH}={part!r} is not allowed: 1, or of {', '.join(PARTS)}")
    with PLACES.compared():
        for part in parts or PARTS:
            for name in PARTS[part]:
                import_module(f".{name}", __name__).put_in()


def switch_off() -> None:
    """Let engines that are created from now on be vLLM's own."""
    PLACES.put_back()
