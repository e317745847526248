"""The example distribution in plugins/ works as its README says."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

from .wheels import install, make_wheel

FOLDER = Path(__file__).resolve().parents[2] / "plugins" / "engine-sampler-robust-z"

CHAINS = """
from engine_sampler.params import build_chain
from engine_sampler.params import SamplingParams
print(build_chain(SamplingParams(robust_z=2.5, min_p=0.1, xtc_probability=0.5, temperature=0.7)))
print(build_chain(SamplingParams(min_p=0.1)))
print(SamplingParams(robust_z=2.5))
"""


def test_once_installed_it_follows_min_p_in_requests_that_set_it(tmp_path: Path) -> None:
    source = (FOLDER / "engine_sampler_robust_z.py").read_text("utf-8")
    install(
        [make_wheel(tmp_path, "engine-sampler-robust-z", source, entry="robust_z")], tmp_path / "installed"
    )
    variables = {
        "PYTHONPATH": str(tmp_path / "installed"),
        "ENGINE_SAMPLER_PLUGINS": "robust_z",
        "PYTHONUTF8": "1",
    }
    command = [sys.executable, "-c", CHAINS]
    printed = subprocess.run(command, env=os.environ | variables, capture_output=True, encoding="utf-8")
    assert printed.stderr == ""
    assert printed.stdout.splitlines() == [
        "min_p → robust_z → xtc → temperature → dist",
        "min_p → dist",
        "SamplingParams(robust_z=2.5)",
    ]


def test_it_imports_only_what_is_public() -> None:
    imported = set()
    for file in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module)
    ours = {name for name in imported if name.split(".")[0] == "engine_sampler"}
    assert ours == {"engine_sampler.arithmetic", "engine_sampler.contract", "engine_sampler.testing"}


def test_its_project_file_declares_the_entry_point() -> None:
    project = (FOLDER / "pyproject.toml").read_text("utf-8")
    assert '[project.entry-points.engine_sampler]\nrobust_z = "engine_sampler_robust_z"\n' in project
