"""A sampler and a criterion are one file each: what CONTRIBUTING says of them, done in a copy of the project.

The tests of the copy take a minute, so that waits for ENGINE_SAMPLER_TEST_ROUNDS=2.
"""

from __future__ import annotations

import importlib.resources
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..random_chains import ROUNDS

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(".*", "build", "__pycache__")

SAMPLER = '''"""near_best: cut at a distance from the best token."""

from __future__ import annotations

import numpy as np

from ..contract import Example, Param, Rows, Truncation


class NearBest(Truncation):
    """Keep tokens whose logit is at most `near_best` below the best one.

    Formula: keep l >= l_max - near_best. 0 leaves it out. The best token always stays.
    """

    name = "near_best"
    after = "min_p"
    cost = "pass"
    params = (Param("near_best", float, neutral=0.0, low=0, high=1000, doc="greatest distance"),)
    argmax_invariant = True
    examples = (
        Example((2.0, 1.0, 0.0), {"near_best": 1.5}, (2.0, 1.0, -np.inf)),
        Example((1.0, 1.0, 0.0), {"near_best": 0.5}, (1.0, 1.0, -np.inf)),
    )

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        cut = rows["near_best"][:, None].astype(np.float32)
        stays: np.ndarray = (logits >= logits.max(axis=1, keepdims=True) - cut) | (cut == 0)
        return stays
'''

CRITERION = '''"""token_sum: a sum of token ids ends a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contract import Param, StoppingCriteria, StopVerdict, Vocabulary


class TokenSumCriteria(StoppingCriteria):
    """Ends a request when the sum of its token ids reaches `token_sum`. None leaves it out."""

    name = "token_sum"
    params = (Param("token_sum", int, None, low=1, high=10**9, doc="least sum of token ids that ends it"),)
    examples = ({"token_sum": 40},)

    def new_state(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> list[int]:
        return [params["token_sum"]]

    def check(self, state: list[int], token_ids: Sequence[int], text: str) -> StopVerdict | None:
        for token_id in token_ids:
            state.append(state[-1] - token_id)
        return StopVerdict("token_sum") if state[-1] <= 0 else None

    def rollback(self, state: list[int], n: int) -> None:
        del state[len(state) - n :]
'''

IN_THE_COPY = """
import runpy, sys
sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != "ScikitBuildRedirectingFinder"]
sys.path.insert(0, "")
import engine_sampler
assert engine_sampler.__file__.startswith(sys.argv[1]), engine_sampler.__file__
del sys.argv[:2]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""

TESTS = (
    "tests/samplers/test_contracts.py::Test_near_best",
    "tests/stopping/test_contract.py::Test_token_sum",
    *(f"tests/params/test_{name}.py" for name in ("chain", "chain_costs", "costs", "orders", "typed")),
    "tests/backends/test_numpy.py",
    "tests/native/test_equality.py",
    "tests/registry",
    "tests/docs/test_generated.py",
    "tests/docs/test_names.py",
    "tests/test_layout.py",
)
"""The contract kits of the two, and the tests that know all samplers or all criteria."""


def run(root: Path, *command: str) -> str:
    """The output of a Python module that runs in the copy and succeeds."""
    environment = {**os.environ, "ENGINE_SAMPLER_TEST_ROUNDS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", IN_THE_COPY, str(root), *command],
        cwd=root,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.skipif(ROUNDS < 2, reason="only with ENGINE_SAMPLER_TEST_ROUNDS=2")
def test_a_sampler_and_a_criterion_are_added_by_one_file_each(tmp_path: Path) -> None:
    root = tmp_path / "copy"
    shutil.copytree(ROOT, root, ignore=LEFT_OUT)
    for folder in ("_native", "_grammars"):
        with importlib.resources.as_file(importlib.resources.files("engine_sampler") / folder) as packaged:
            shutil.copytree(packaged, root / "engine_sampler" / folder, dirs_exist_ok=True)
    (root / "engine_sampler" / "samplers" / "near_best.py").write_text(SAMPLER, "utf-8")
    (root / "engine_sampler" / "stopping" / "token_sum.py").write_text(CRITERION, "utf-8")
    run(root, "tests.params.typed_parameters")
    assert {"samplers/near_best.md", "criteria/token_sum.md"} <= set(run(root, "docs.generate").splitlines())
    assert " passed" in run(root, "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *TESTS)
