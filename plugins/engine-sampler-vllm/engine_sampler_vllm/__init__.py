"""engine-sampler as the sampler of vLLM's V1 model runner: `ENGINE_SAMPLER_VLLM=1` switches it on."""

from __future__ import annotations

import os

__all__ = ["register", "switch_off", "switch_on"]

SWITCH = "ENGINE_SAMPLER_VLLM"
"""The environment variable that switches the sampler on."""


def register() -> None:
    """Called by vLLM in each of its processes, perhaps several times: `switch_on` if the environment says
    so."""
    if os.environ.get(SWITCH, "") not in ("", "0"):
        switch_on()


def switch_on() -> None:
    """Let model runners that are created from now on draw with engine-sampler.

    Raises `PeerError` if this release of vLLM has other signatures than those that this package is made for.
    """
    from .places import put_in

    put_in()


def switch_off() -> None:
    """Let model runners that are created from now on draw with vLLM's own sampler."""
    from .places import put_back

    put_back()
