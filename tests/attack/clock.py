"""The time that a step takes, and how much of it other programs had the processor."""

from __future__ import annotations

import threading
import time
from pathlib import Path


class Stopwatch:
    """Measures from its creation on, for the thread that creates it.

    On a machine that others use, too, the time of a step says little. Linux counts for each thread how long
    it ran and how long it waited for a processor. What is left is the time in which it waited for a lock;
    of that, the time counts in which other threads of this process ran.
    """

    def __init__(self) -> None:
        self._schedule = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._begin = self._now()

    def read(self) -> tuple[float, float]:
        """The seconds since then, and those of them that no other program had; both are the same on systems
        that do not tell."""
        whole, all_threads, ran, waited = (
            now - before for now, before in zip(self._now(), self._begin, strict=True)
        )
        if not self._schedule.exists():
            return whole, whole
        locked_out = max(0.0, whole - ran - waited)
        return whole, min(whole, ran + min(locked_out, max(0.0, all_threads - ran)))

    def _now(self) -> tuple[float, float, float, float]:
        """The time, the time that all threads ran, that this one ran, and that it waited for a processor."""
        ran, waited = self._schedule.read_text().split()[:2] if self._schedule.exists() else (0, 0)
        return time.perf_counter(), time.process_time(), int(ran) / 1e9, int(waited) / 1e9
