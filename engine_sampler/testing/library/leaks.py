"""Whether calls leave memory or open files behind."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from pathlib import Path

import numpy as np

from ...backends.library.binding import Library
from ..results import FAILED, NOT_PROMISED, PASSED, CheckResult
from .bench import Room, Tally, normal_rows, problem_of
from .situations import supported
from .surroundings import open_files

WARM, MEASURED = 40, 160
"""Calls before memory is measured, and while it is."""

_BYTES_A_CALL = 8192
"""What a call may leave behind on average: less than that cannot be told from noise."""


class Held:
    """What the process holds: taken when this is made."""

    def __init__(self) -> None:
        gc.collect()
        self._bytes, self._files = _allocated(), open_files()

    def grown(self) -> str | None:
        """By how much that has grown in MEASURED calls, if it is too much."""
        now = Held()
        grown, opened = now._bytes - self._bytes, now._files - self._files
        if opened >= MEASURED // 2:
            return f"{opened} files more are open after {MEASURED} calls"
        too_much = grown >= _BYTES_A_CALL * MEASURED
        return f"it has grown by {grown:,} bytes in {MEASURED} calls" if too_much else None


def leaks(library: Library) -> CheckResult:
    """Hundreds of calls of the first program that it runs."""
    room, tally = Room(library, 47), Tally()
    chains = supported(room)
    if not chains:
        return CheckResult("leaks", NOT_PROMISED, "it runs none of the programs")
    requests = room.requests(chains[0], range(4))
    logits = normal_rows(np.random.default_rng(0), 4, room.size)
    step = room.step([room.group(chains[0], requests, np.arange(4))], logits)
    before = Held()
    for call in range(WARM + MEASURED):
        if call == WARM:
            before = Held()
        if problem := problem_of(room, step, tally):
            return CheckResult("leaks", FAILED, problem)
    problem = before.grown()
    return CheckResult("leaks", FAILED if problem else PASSED, problem or str(tally))


class _Figures(ctypes.Structure):
    """`struct mallinfo2`."""

    _fields_ = [("figures", ctypes.c_size_t * 10)]


def _allocated() -> int:
    """Bytes that the process has allocated or, where the C library does not say, has in memory; else 0."""
    if not sys.platform.startswith("linux"):
        return 0
    try:
        figures = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    figures.restype = _Figures
    found = list(figures().figures)
    return found[4] + found[7]  # hblkhd and uordblks: blocks of their own, and those of the heap
