"""Torch is not imported because this plugin is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from engine_sampler.for_backends import best_backend, default_registry

FIRST_CALL = """
import sys
import numpy as np
import engine_sampler_torch
from engine_sampler import SamplingParams, sample
from engine_sampler.for_backends import default_registry

registry = default_registry()
if "torch" not in registry.catalogue.backends:
    registry.register(engine_sampler_torch, "torch")
assert "torch" in registry.catalogue.backends
sample(np.zeros((2, 9), np.float32), SamplingParams(seed=1))
print(sorted({"torch", "triton"} & set(sys.modules)))
assert registry.catalogue.backends["torch"].score("cpu") > 0
print("torch" in sys.modules)
"""


def test_the_first_call_for_logits_on_the_host_imports_no_torch() -> None:
    plugin = Path(__file__).parents[1]
    paths = os.pathsep.join([str(plugin), *filter(None, sys.path)])
    process = subprocess.run(
        [sys.executable, "-c", FIRST_CALL],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stdout.split("\n")[:2] == ["[]", "True"], process.stderr


def test_the_registered_backend_is_the_plugins() -> None:
    backend = default_registry().catalogue.backends["torch"]
    assert (backend.name, backend.exact, backend.hosts_the_rest, backend.reason) == ("torch", True, True, "")
    assert not backend.reads_from("nowhere:0")
    assert best_backend("cpu") is not backend
