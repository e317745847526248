"""Compiles the library when the package is installed, with $CC or cc. CANN is not needed for that."""

from __future__ import annotations

import importlib.resources
import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path(__file__).resolve().parent / "engine_sampler_ascend"
LIBRARY = "libengine_sampler_ascend.so"
FLAGS = (
    "-std=c11",
    "-D_GNU_SOURCE",
    "-O2",
    "-ffp-contract=off",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-Wall",
)


class CompileHook(BuildHookInterface):  # type: ignore[type-arg]
    """Called by hatchling for every wheel, an editable one too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        header = Path(str(importlib.resources.files("engine_sampler") / "_native"))  # engine_sampler.h
        sources = sorted(FOLDER.joinpath("src").glob("*.c"))
        compiler = shlex.split(os.environ.get("CC", "cc"))
        command = [*compiler, *FLAGS, f"-I{header}", *map(str, sources), "-o", str(FOLDER / LIBRARY)]
        subprocess.run([*command, "-ldl", "-lm"], check=True)
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"].append(f"/{FOLDER.name}/{LIBRARY}")
