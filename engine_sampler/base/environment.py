"""The environment variables that this package reads."""

from __future__ import annotations

import os
from collections.abc import Mapping

PREFIX = "ENGINE_SAMPLER_"

VARIABLES: Mapping[str, str] = {
    "ENGINE_SAMPLER_PLUGINS": "which third-party plugins to load: a,b; empty for none",
    "ENGINE_SAMPLER_STRICT": "1: raise when a plugin fails to load",
    "ENGINE_SAMPLER_BACKEND": "the backend if the code names none: a name, or library:PATH",
    "ENGINE_SAMPLER_LIBRARY_TIMEOUT": "how many seconds a step of a library:PATH may take",
    "ENGINE_SAMPLER_ISA": "the instruction set of the C kernels",
    "ENGINE_SAMPLER_NATIVE_LIBRARY": "a library to load in place of the packaged C kernels",
    "ENGINE_SAMPLER_GRAMMAR_ENGINE": "what reads grammars if the code names nothing: the name of a plugin",
    "ENGINE_SAMPLER_MASK_ENGINE": "the engine that computes the masks of this package's grammars",
}
"""Those that change what runs, and what each does."""


def variables_set() -> dict[str, str]:
    """Those of `VARIABLES` that are set, and to what."""
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}
