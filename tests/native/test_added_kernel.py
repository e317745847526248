"""A kernel that is added as CONTRIBUTING says runs natively: the steps, one by one, in a copy of the project.

Compiling the kernels once more takes some seconds, so that waits for ENGINE_SAMPLER_TEST_ROUNDS=2.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native.building import ARITHMETIC, NATIVE, compiler
from tests.random_chains import ROUNDS

PACKAGE = NATIVE.parent / "engine_sampler"

SAMPLER = '''
from ..arithmetic import keep_leading
from ..contract import Example, Param, Truncation


class Toy(Truncation):
    """Keep the first tokens."""

    name = "toy"
    after = "min_p"
    params = (Param("toy_count", int, neutral=0, low=0, high=1000, doc="how many"),)
    argmax_invariant = True
    examples = (Example((1.0, 3.0), {"toy_count": 1}, (float("-inf"), 3.0)),)

    def keep(self, logits, rows):
        return keep_leading(logits, rows["toy_count"])
'''

KERNEL = """
static int32_t apply_toy(es_state *st) {
    keep_leading(st, st->p->toy_count);
    return ES_ROW_OK;
}
"""

CHECK = """
import sys
sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != "ScikitBuildRedirectingFinder"]
import numpy as np
import engine_sampler
from engine_sampler import SamplingParams, Scheduler
from engine_sampler.backends.host_run import HostRun
from engine_sampler.backends.native import NativeBackend
from engine_sampler.registry import default_registry
assert engine_sampler.__file__.startswith(sys.argv[1]), engine_sampler.__file__
toy = default_registry().catalogue.samplers["toy"]
native = NativeBackend()
print(native.runs_as(toy), native.supports(toy))
def refuse(*rows):
    raise AssertionError("the host ran a row")
logits = np.random.default_rng(0).normal(size=(8, 700)).astype(np.float32)
tokens = {}
for backend in ("numpy", "native"):
    scheduler = Scheduler(700, backend=backend)
    if backend == "native":
        HostRun.run = HostRun.resume = refuse
    for seed in range(8):
        scheduler.add(SamplingParams(toy_count=3, seed=seed, top_p=0.99))
    tokens[backend] = [scheduler.step(logits).token_ids.tolist() for _ in range(4)]
print(tokens["numpy"] == tokens["native"], len(np.unique(tokens["native"])) > 8)
"""


def insert(path: Path, before: str, text: str) -> None:
    """Add text to a file before the first occurrence of some other text."""
    old = path.read_text("utf-8")
    assert before in old, f"{before!r} is not in {path}"
    path.write_text(old.replace(before, text + before, 1), "utf-8")


def add_toy(root: Path) -> None:
    """The steps of CONTRIBUTING for a sampler, then for its kernel, but for documentation and tests."""
    package, native = root / "engine_sampler", root / "native"
    (package / "samplers" / "toy.py").write_text(SAMPLER, "utf-8")
    insert(package / "params" / "orders.py", '    "epsilon_cutoff",\n', '    "toy",\n')
    header = native / "include" / "engine_sampler.h"
    insert(header, "    /* selectors: the last step", "    ES_OP_TOY = 25,\n")
    insert(header, "} es_params;", "    int64_t toy_count;\n")
    kernels = native / "src" / "kernels" / "samplers.h"
    kernels.write_text(kernels.read_text("utf-8") + KERNEL, "utf-8")
    table = native / "src" / "operations.h"
    insert(table, "    DO(ES_OP_GREEDY,", "    DO(ES_OP_TOY, apply_toy, ES_RESHAPE, 0) \\\n")
    insert(native / "fuzz" / "world.c", "    p->min_keep =", "    p->toy_count = count(r, V);\n")


def compiled(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Compile the kernels in plain C and what calls them to a library in the package."""
    source, library = root / "native" / "src", root / "engine_sampler" / "_native" / "libengine_sampler.so"
    sources = [*source.glob("*.c"), *source.glob("tables/*.c"), source / "kernels" / "kernels.c"]
    folders = [f"-I{root / 'native' / 'include'}", f"-I{source}"]
    flags = [*ARITHMETIC, "-O0", "-Werror=switch-enum", "-DES_HAVE_PORTABLE", "-DES_ISA_PORTABLE=1"]
    command = [compiler(), *flags, *options, *folders, "-shared", "-fPIC", "-pthread"]
    command += ["-o", str(library), *map(str, sources)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package and of the C sources, with the toy."""
    shutil.copytree(PACKAGE, tmp_path / "engine_sampler", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(NATIVE, tmp_path / "native")
    add_toy(tmp_path)
    native = tmp_path / "engine_sampler" / "_native"
    native.mkdir(exist_ok=True)
    for header in (tmp_path / "native" / "include").iterdir():
        shutil.copy(header, native)
    return tmp_path


@pytest.mark.skipif(ROUNDS < 2, reason="only with ENGINE_SAMPLER_TEST_ROUNDS=2")
def test_a_kernel_that_is_added_by_the_book_runs_natively_and_equals_its_class(copy: Path) -> None:
    built = compiled(copy)
    assert not built.returncode, built.stderr
    command = [sys.executable, "-c", CHECK, str(copy)]
    ran = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["native", "True", "True", "True"], ran.stdout + ran.stderr


def test_an_operation_without_its_line_in_the_table_does_not_compile(copy: Path) -> None:
    table = copy / "native" / "src" / "operations.h"
    lines = table.read_text("utf-8").splitlines(keepends=True)
    table.write_text("".join(line for line in lines if "ES_OP_TOY" not in line), "utf-8")
    built = compiled(copy, "-fsyntax-only")
    assert built.returncode
    assert "ES_OP_TOY" in built.stderr
