"""Whether CANN is here, without loading it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

LIBRARY = Path(__file__).with_name("libengine_sampler_ascend.so")
"""What hatch_build.py has compiled."""

_RUNTIME = "libascendcl.so"


def missing() -> str:
    """Why no NPU can be used here, as a message; "" if nothing is known to be missing."""
    if sys.platform != "linux":
        return f"CANN is for Linux; this is {sys.platform}"
    if not LIBRARY.exists():
        return f"{LIBRARY.name} has not been compiled; install engine-sampler-ascend again, with a C compiler"
    if "torch_npu" in sys.modules or any(Path(folder, _RUNTIME).exists() for folder in _folders()):
        return ""
    return (
        f"there is no {_RUNTIME} in ASCEND_HOME_PATH/lib64 or on LD_LIBRARY_PATH: "
        "CANN is not installed, or its set_env.sh has not been sourced"
    )


def _folders() -> list[str]:
    """Where the library looks for CANN."""
    home = os.environ.get("ASCEND_HOME_PATH") or os.environ.get("ASCEND_TOOLKIT_HOME")
    searched = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return [*([f"{home}/lib64"] if home else []), *filter(None, searched)]
