"""The installed `engine_sampler_numbers.h` compiles alone, with the bits of `engine_sampler.arithmetic`."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from engine_sampler import arithmetic as a
from engine_sampler.base.packaged import header_text

from ..native.building import compiler

HEADER = "engine_sampler_numbers.h"
SOURCE = """
#include "engine_sampler_numbers.h"
double log2_of(double x) { return es_log2(x); }
double exp2_of(double x) { return es_exp2(x); }
int32_t weight_of(float y) { return es_weight(y); }
uint64_t draw_of(uint64_t seed, int64_t position, uint32_t stream, uint32_t draw) {
    return es_draw64(seed, position, stream, draw);
}
int64_t scaled(uint64_t r, int64_t total) { return es_scale_draw(r, total); }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed header and a source that includes nothing else."""
    folder = tmp_path_factory.mktemp("numbers")
    (folder / HEADER).write_text(header_text(HEADER), "utf-8")
    (folder / "mine.c").write_text(SOURCE, "utf-8")
    return folder


@pytest.fixture(scope="module")
def library(folder: Path) -> ctypes.CDLL:
    path = folder / "mine.so"
    flags = ["-std=c11", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    command = [compiler(), *flags, "-shared", "-fPIC", "mine.c", "-o", str(path)]
    subprocess.run(command, cwd=folder, check=True)
    loaded = ctypes.CDLL(str(path))
    for name, result, arguments in (
        ("log2_of", ctypes.c_double, [ctypes.c_double]),
        ("exp2_of", ctypes.c_double, [ctypes.c_double]),
        ("weight_of", ctypes.c_int32, [ctypes.c_float]),
        ("draw_of", ctypes.c_uint64, [ctypes.c_uint64, ctypes.c_int64, ctypes.c_uint32, ctypes.c_uint32]),
        ("scaled", ctypes.c_int64, [ctypes.c_uint64, ctypes.c_int64]),
    ):
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def test_logarithms_exponentials_and_weights_have_the_same_bits(library: ctypes.CDLL) -> None:
    random = np.random.default_rng(1)
    x = np.concatenate([random.random(2000), 2.0 ** random.uniform(-1074, 1023, 2000)])
    assert [library.log2_of(v) for v in x.tolist()] == a.log2_64(x).tolist()
    e = random.uniform(-1100, 1100, 2000)
    assert [library.exp2_of(v) for v in e.tolist()] == a.exp2_64(e).tolist()
    y = -np.abs(random.normal(0, 8, 4000)).astype(np.float32)
    assert [library.weight_of(v) for v in y.tolist()] == a.weights(y).tolist()


def test_random_numbers_are_the_same(library: ctypes.CDLL) -> None:
    for seed, position in ((0, 0), (7, 3), (2**64 - 1, 2**62)):
        for draw in range(3):
            found = library.draw_of(seed, position, a.SELECTOR_STREAM, draw)
            expected = a.draw64(np.array([seed], np.uint64), np.array([position]), a.SELECTOR_STREAM, draw)
            assert found == int(expected[0])
            total = np.array([12345678901234], np.int64)
            assert library.scaled(found, int(total[0])) == int(a.scale_draw(expected, total)[0])


def test_it_is_a_header_for_cpp_as_well(folder: Path) -> None:
    command = [compiler(), "-x", "c++", "-std=c++17", "-Wall", "-Werror", "-fsyntax-only", "mine.c"]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", check=False)
    if "cc1plus" in done.stderr:
        pytest.skip("there is no compiler of C++")
    assert done.returncode == 0, done.stderr
