"""Random cases against the C library, by its own fuzzer.

Compiling it takes some fifteen seconds, so that waits for ENGINE_SAMPLER_TEST_ROUNDS=2, as in `.ci/run`;
`test_equality.py` compares the instruction sets of the library itself in any run.
"""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from engine_sampler.base.packaged import library_path
from tests.native.building import NATIVE, compiler
from tests.random_chains import ROUNDS

pytestmark = pytest.mark.skipif(ROUNDS < 2, reason="only with ENGINE_SAMPLER_TEST_ROUNDS=2")

SECONDS, CASES = 3, 60


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory):
    """The path of `es_fuzz` with the kernels of every instruction set and those in plain C."""
    if sys.platform == "win32":
        pytest.skip("the fuzzer needs fork")
    folder = tmp_path_factory.mktemp("fuzz")
    cmake = _tool("cmake")
    options = ["-DES_FUZZ=ON", "-DES_PORTABLE=ON", f"-DCMAKE_C_COMPILER={compiler()}"]
    options += ["-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_FLAGS=-O1"]  # compiled sooner; tokens are the same
    if ninja := _find("ninja"):
        options += ["-GNinja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    _do(cmake, "-S", NATIVE, "-B", folder, *options)
    _do(cmake, "--build", folder, "--target", "es_fuzz", "--parallel")
    return folder / "es_fuzz"


def _find(name):
    return shutil.which(name) or shutil.which(name, path=sysconfig.get_path("scripts"))


def _tool(name):
    return _find(name) or pytest.skip(f"there is no {name}")


def _do(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout.strip()


def _digest(fuzzer: Path, *options, kind="digest"):
    return _do(fuzzer, kind, CASES, *options)


def test_random_cases_break_no_rule_of_the_contract(fuzzer):
    output = _do(fuzzer, SECONDS)
    assert "cases from seed 0" in output
    assert int(output.split()[0]) > 5


@pytest.mark.parametrize("seed", [0, 1000])
def test_logits_that_change_while_they_are_read_neither_crash_nor_hang_a_step(fuzzer, seed):
    output = _do(fuzzer, "changes", SECONDS, seed)
    assert f"cases from seed {seed}" in output
    assert int(output.split()[0]) > 5


@pytest.mark.parametrize("kind", ["digest", "masks", "plain"])
def test_every_instruction_set_gives_the_same_tokens_and_logits(fuzzer, kind):
    isas = _do(fuzzer, "isas").split()
    assert "portable" in isas
    assert len({_digest(fuzzer, isa, kind=kind) for isa in isas}) == 1


@pytest.mark.parametrize("threads", [2, 8])
def test_the_number_of_threads_changes_nothing(fuzzer, threads):
    assert _digest(fuzzer, "--threads", threads) == _digest(fuzzer)


def test_bounds_of_weights_refuse_draws_and_cuts_at_their_edge_and_decide_those_beside_it(fuzzer):
    assert "edges on" in _do(fuzzer, "edges")


def test_bounds_of_weights_that_are_too_narrow_are_found(fuzzer):
    assert int(_do(fuzzer, "narrow", CASES // 3).split()[0]) > 0


def test_another_build_is_compared_byte_for_byte(fuzzer):
    output = _do(fuzzer, "against", library_path(), SECONDS)
    assert int(output.split("steps, ")[1].split()[0]) > 100


def test_another_build_that_cannot_be_loaded_is_named(fuzzer):
    done = subprocess.run([fuzzer, "against", "no.so", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no.so" in done.stderr


def test_a_failing_case_is_reported_with_its_seed(fuzzer):
    done = subprocess.run([fuzzer, "digest", "3", "abacus"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "es_fuzz: case 0 failed; again: " in done.stderr
