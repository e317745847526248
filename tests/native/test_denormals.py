"""Hosts that flush denormal numbers to zero get the same tokens."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.native import building
from tests.native.comparing import (
    NUMPY,
    differences,
    instruction_sets,
    random_block,
    random_group,
    run,
    times,
)
from tests.random_chains import HOST_ONLY, random_settings

HELPER = """
#if defined(__x86_64__)
#include <xmmintrin.h>
unsigned es_float_mode(void) { return _mm_getcsr(); }
void es_set_float_mode(unsigned mode) { _mm_setcsr(mode); }
#else
unsigned es_float_mode(void) {
    unsigned long mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return (unsigned)mode;
}
void es_set_float_mode(unsigned mode) { __asm__ volatile("msr fpcr, %0" : : "r"((unsigned long)mode)); }
#endif
"""
DECLARATIONS = """
/* cdef: begin */
unsigned es_float_mode(void);
void es_set_float_mode(unsigned mode);
/* cdef: end */
"""
FLUSH = {"x86_64": 0x8040, "AMD64": 0x8040, "aarch64": 1 << 24, "arm64": 1 << 24}
"""Flush results and operands to zero, by machine."""


@pytest.fixture(scope="module")
def mode(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The thread's floating-point mode, to be read and set."""
    if platform.machine() not in FLUSH:
        pytest.skip(f"it is not known here how a {platform.machine()} flushes denormal numbers")
    folder: Path = tmp_path_factory.mktemp("mode")
    (folder / "mode.c").write_text(HELPER)
    (folder / "mode.h").write_text(DECLARATIONS)
    flags = ("-Wno-missing-prototypes",)
    return building.load(str(folder / "mode.c"), headers=(str(folder / "mode.h"),), flags=flags)[1]


@contextlib.contextmanager
def flushed(mode: Any) -> Iterator[None]:
    """Denormal numbers are flushed to zero in this context, in this thread and those it starts."""
    before = mode.es_float_mode()
    mode.es_set_float_mode(before | FLUSH[platform.machine()])
    try:
        yield
    finally:
        mode.es_set_float_mode(before)


def test_denormal_numbers_are_flushed_in_the_context(mode: Any) -> None:
    tiny = np.full(4, 1e-40, np.float32)
    with flushed(mode):
        assert not (tiny * np.float32(0.5)).view(np.int32).any()
    assert (tiny * np.float32(0.5)).view(np.int32).all()


@pytest.mark.parametrize("num_threads", [1, 2])
def test_flushed_denormals_change_no_token_and_no_row(mode: Any, num_threads: int) -> None:
    compared = 0
    for number in range(times(40)):
        random = np.random.default_rng(number)
        size = (5, 64, 257, 1000)[number % 4]
        chain, rows = random_group(
            random, size, 16, random_settings(random, size, without=("infill", *HOST_ONLY))
        )
        rows.slots.num_threads = num_threads
        logits = random_block(random, 16, size, faults=0)
        if number % 3 == 0:
            logits *= np.float32(2.0**-148)
        expected = run(NUMPY, chain, rows, logits)
        if any(expected.errors):  # the host would run the row, and flush itself
            continue
        compared += 1
        for isa, backend in instruction_sets().items():
            with flushed(mode):
                batch = run(backend, chain, rows, logits)
            assert differences(batch, expected) == [], f"{isa}: {chain}"
    assert compared >= times(40) // 2
