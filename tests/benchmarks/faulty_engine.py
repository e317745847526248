"""An engine that does what a schema says under `does`: `python -m tests.benchmarks.faulty_engine`.

Takes the arguments of `worker.serve`. It accepts every text, byte by byte.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.grammar.corpus.worker import serve


class Bytes:
    """A vocabulary of all bytes and an end."""

    eos = 256

    @staticmethod
    def encode(text: str) -> list[int]:
        return list(text.encode())


class FaultyEngine:
    vocabulary = Bytes

    def compile(self, schema: Any, options: Mapping[str, Any]) -> Any:
        FAULTS.get(schema.get("does", ""), lambda: None)()

    def matcher(self, compiled: Any) -> Any:
        return None

    def new_mask(self) -> Any:
        return np.full((1, 9), -1, np.int32)

    def fill(self, matcher: Any, mask: Any) -> None:
        pass

    def accept(self, matcher: Any, token_id: int) -> bool:
        return True


def spin() -> None:
    sum(range(1 << 60))  # one call into C


def eat() -> None:
    held = [np.empty(1 << 30, np.uint8) for _ in range(64)]  # address space only: it is not written
    del held


def refuse() -> None:
    raise ValueError("no")


FAULTS = {
    "spin": spin,
    "eat": eat,
    "refuse": refuse,
    "crash": lambda: signal.raise_signal(signal.SIGKILL),
    "exit": lambda: os._exit(3),
    "wait": lambda: time.sleep(1000),
}


def start() -> Any:
    if sys.argv[1:2] == ["--broken"]:
        raise RuntimeError("no vocabulary")
    return FaultyEngine()


if __name__ == "__main__":
    serve(start, sys.argv[-3:])
