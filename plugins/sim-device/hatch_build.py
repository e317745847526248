"""Compiles the library when the package is installed, with $CC or cc."""

from __future__ import annotations

import importlib.util
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = Path(__file__).resolve().parent / "sim_device"


class SimDeviceBuild(BuildHookInterface):  # type: ignore[type-arg]
    """Called by hatchling for every wheel, an editable one too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        spec = importlib.util.spec_from_file_location("building", PACKAGE / "building.py")
        assert spec is not None
        assert spec.loader is not None
        building = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(building)
        library = building.compile_library(building.LIBRARY)
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"].append(f"/{PACKAGE.name}/{library.name}")
