"""Small real distributions: hand-written wheels that pip installs offline, without a build backend."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path


def make_wheel(
    folder: Path, distribution: str, source: str, *, entry: str | None = None, version: str = "1.0"
) -> Path:
    """Write a wheel of `distribution` with one module of the same name, registered as the plugin `entry`."""
    module = distribution.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    files = {
        f"{module}.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[engine_sampler]\n{entry or module} = {module}\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return path


def install(wheels: Iterable[Path], target: Path) -> None:
    """Install `wheels` into `target`, a folder to add to PYTHONPATH."""
    options = ["--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target)]
    subprocess.run([*command, *map(str, wheels)], check=True)
