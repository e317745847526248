"""Measures whole engines: python -m benchmarks.generation [--engine NAME ...] [--seconds N] [--write]

Prints Markdown tables, and a line with the ratios that docs/performance.md quotes. --write also writes the
tables into docs/benchmarks. An engine whose libraries are missing is left out.
"""

from __future__ import annotations

import argparse
import os
import sys

import numpy as np

from ..render import write_between
from .cases import CHAIN
from .engines import CASES, NEEDED, missing, opened
from .race import Speed, race
from .report import headline, report

MAIN = 131_072
START, END = "<!-- generation -->", "<!-- end of generation -->"


def main() -> None:
    options = _arguments()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    np.empty(31 << 20, np.uint8)  # glibc keeps the heap from then on, as in any process with a larger model
    speeds = {}
    for engine in options.engine:
        if names := missing(engine):
            print(f"{engine} is left out: {', '.join(names)} not installed", file=sys.stderr)
        else:
            speeds[engine] = _measure(engine, options.vocabulary, options.seconds)
    text = report(speeds)
    print(text, f"docs/performance.md: {headline(speeds)}", sep="\n\n")
    if options.write:
        write_between(START, END, text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.generation", description="Measure whole engines.")
    parser.add_argument("--engine", nargs="+", default=list(NEEDED), choices=NEEDED)
    parser.add_argument("--vocabulary", type=int, default=MAIN, help="the number of tokens")
    parser.add_argument("--seconds", type=float, default=8.0, help="per case, at least five rounds; 0: one")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/benchmarks")
    return parser.parse_args()


def _measure(engine: str, vocab_size: int, seconds: float) -> dict[object, list[Speed]]:
    found = {}
    with opened(engine, vocab_size, CHAIN) as model:
        for case in CASES[engine]:
            print(f"{engine}: {case}", file=sys.stderr, flush=True)
            found[case] = race(model.sides(case), model.clock, seconds)
    return found


if __name__ == "__main__":
    main()
