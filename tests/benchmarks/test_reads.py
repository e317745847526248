"""The table of reads by instruction set."""

from __future__ import annotations

import itertools

from benchmarks.measure import Work
from benchmarks.peers.reads import BEFORE, CHAINS, HOT, LLAMA, MANY, ratio, report


def test_a_line_shows_a_chain_beside_its_bars() -> None:
    reads = {
        ("avx512", "top_p", HOT): 5.0,
        ("avx512", "top_p", MANY): 1.9,
        ("avx512", "top_p", LLAMA): 50.0,
        ("avx2", "top_p", HOT): 8.25,
    }
    lines = report(reads).splitlines()
    assert lines[0] == f"| chain, instruction set | {HOT} | {MANY} | {LLAMA} |"
    assert "| top_p, avx512 | 5.00 (≤ 5.5) | **missed:** 1.90 (≤ 1.7) | 50.0 (≥ 45) |" in lines
    assert "| top_p, avx2 | 8.25 | – | – |" in lines  # bars are those of the longest vectors
    assert len(lines) == 2 + 2 * len(CHAINS)
    assert BEFORE not in lines[0]


def test_a_ratio_is_that_of_medians() -> None:
    clock = itertools.count()
    work = Work(lambda: [next(clock) for _ in range(6)])
    half = Work(lambda: [next(clock) for _ in range(2)])
    assert ratio(work, half, 0, lambda: next(clock)) == 7 / 3
