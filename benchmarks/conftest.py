"""Pins everything to one core, and reduces the results to what the tables need."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

# glibc returns the end of the heap to the system and faults it in again at every call, until the process has
# freed a large block once. Any process with a model has done so; do it here for every implementation.
np.empty(31 << 20, np.uint8)

LIBRARIES = ("numpy", "torch", "transformers", "llama-cpp-python")
STATISTICS = ("median", "min", "iqr", "rounds")


def pytest_benchmark_update_json(config: Any, benchmarks: Any, output_json: dict[str, Any]) -> None:
    """Keep what the tables need, and nothing that identifies this machine."""
    results = [
        {**entry["extra_info"], **{name: entry["stats"][name] for name in STATISTICS}}
        for entry in output_json["benchmarks"]
    ]
    cpu = output_json["machine_info"]["cpu"]
    output_json.clear()
    output_json.update(machine=_machine(cpu), results=results)


def _machine(cpu: dict[str, Any]) -> dict[str, Any]:
    return {
        "cpu": cpu.get("brand_raw", platform.machine()),
        "family": cpu.get("family"),
        "model": cpu.get("model"),
        "cores": os.cpu_count(),
        "caches": _caches(),
        "system": platform.system(),
        "versions": {"Python": platform.python_version()} | _versions(),
    }


def _caches() -> list[str]:
    """Sizes of the last core's data caches, level 1 first, if Linux reports them."""
    found = {}
    for cache in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        if (cache / "type").read_text().strip() != "Instruction":
            found[(cache / "level").read_text().strip()] = (cache / "size").read_text().strip()
    return [f"L{level} {size}" for level, size in sorted(found.items())]


def _versions() -> dict[str, str]:
    versions = {}
    for library in LIBRARIES:
        try:
            versions[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
