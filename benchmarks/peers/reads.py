"""Reads of the logits that chains take, by instruction set: python -m benchmarks.peers.reads

Prints a Markdown table, with the bars beside the numbers that have one; --write also writes it into
docs/benchmarks. Takes about three minutes. `--before LIBRARY` compares flat rows with
another build of the library.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

from engine_sampler.backends.library import LibraryBackend, LibraryError
from engine_sampler.base.packaged import library_path
from engine_sampler.cli.bench import rows
from engine_sampler.params import build_chain

from ..bars import Bar
from ..cases import BOTH, MAIN, Shape, params_of
from ..engines import Engine, Recorded, reading
from ..measure import Work
from ..render import cell, precise, table, write_between

CHAINS = ("temperature", "top_p", BOTH, "default chain", "min_p", "greedy")
ISAS = ("avx512", "avx2", "baseline", "neon", "portable")
COLUMNS = (
    "one hot row, reads",
    "64 rows, reads",
    "64 flat rows, reads",
    "64 flat rows, of before",
    "two threads, faster",
    "bfloat16, of float32",
    "float16, of float32",
    "one row, faster than llama.cpp",
)
HOT, MANY, FLAT, BEFORE, THREADS, BFLOAT, HALF, LLAMA = COLUMNS
CERTIFIED = ("temperature", "top_p", BOTH)
START, END = "<!-- reads -->", "<!-- end of reads -->"


AT_MOST, AT_LEAST = True, False
BOUNDS: Mapping[tuple[str, str], tuple[float, bool]] = {
    ("temperature", MANY): (1.6, AT_MOST),
    ("top_p", MANY): (1.7, AT_MOST),
    (BOTH, MANY): (1.7, AT_MOST),
    ("top_p", LLAMA): (45, AT_LEAST),
    **{(chain, HOT): (5.5, AT_MOST) for chain in CERTIFIED},
    **{(chain, BEFORE): (1.1, AT_MOST) for chain in CERTIFIED},
    **{(chain, THREADS): (1.7, AT_LEAST) for chain in CERTIFIED},
    **{(chain, BFLOAT): (0.7, AT_MOST) for chain in CERTIFIED},
}
"""Bars of the instruction set with the longest vectors."""

Reads = Mapping[tuple[str, str, str], float]
"""(instruction set, chain, column) → the ratio of two medians from one loop."""


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.peers.reads", description="Measure reads of the logits."
    )
    parser.add_argument("--before", type=Path, help="another build of the library")
    parser.add_argument("--vocabulary", type=int, default=MAIN, help="the number of tokens")
    parser.add_argument("--seconds", type=float, default=0.4, help="per number, at least five rounds")
    parser.add_argument("--write", action="store_true", help="write the table into docs/benchmarks")
    given = parser.parse_args()
    text = report(dict(_measure([isa for isa in ISAS if _runs(isa)][:3], given)))
    print(text)
    if given.write:
        write_between(START, END, text)


def _runs(isa: str) -> bool:
    try:
        return not LibraryBackend(library_path(), name="native", isa=isa).reason
    except LibraryError:
        return False


def report(reads: Reads) -> str:
    """One line for each instruction set and chain."""
    isas = list(dict.fromkeys(isa for isa, _, _ in reads))
    columns = [column for column in COLUMNS if any(column == of for _, _, of in reads)]
    lines = []
    for isa in isas:
        for chain in CHAINS:
            bounds = [BOUNDS.get((chain, of)) if isa == isas[0] else None for of in columns]
            values = [reads.get((isa, chain, of)) for of in columns]
            lines.append([f"{chain}, {isa}", *map(_shown, values, bounds)])
    return table(["chain, instruction set", *columns], lines)


def _shown(value: float | None, bound: tuple[float, bool] | None) -> str:
    if value is None:
        return "–"
    return cell(Bar("", bound[0], value, bound[1])) if bound else precise(value)


def ratio(work: Work, yardstick: Work, seconds: float, timer: Any = process_time) -> float:
    """The time of `work` relative to that of `yardstick`: medians of rounds in which both take turns."""
    taken: list[tuple[float, float]] = []
    end = perf_counter() + seconds
    while len(taken) < 6 or perf_counter() < end:
        taken.append((_seconds(work, timer), _seconds(yardstick, timer)))
    return median(a for a, _ in taken[1:]) / median(b for _, b in taken[1:])


def _seconds(work: Work, timer: Any) -> float:
    work.repeat()
    return work.seconds(timer)


def _measure(isas: list[str], options: argparse.Namespace) -> Iterator[tuple[tuple[str, str, str], float]]:
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    for isa in isas:
        for chain in CHAINS:
            print(f"{isa}: {chain}", file=sys.stderr, flush=True)
            if cores:
                os.sched_setaffinity(0, {max(cores)})
            for column, value in _one_core(isa, chain, options):
                yield (isa, chain, column), value
            if cores:
                os.sched_setaffinity(0, cores)
            if len(cores) != 1:
                yield (isa, chain, THREADS), 1 / _two_threads(isa, chain, options)
        if importlib.util.find_spec("llama_cpp") and isa == isas[0]:
            for chain in CHAINS:
                yield (isa, chain, LLAMA), _llama(isa, chain, options)


def _engine(isa: str, shape: Shape, logits: Any = None, path: Path | None = None, threads: int = 1) -> Engine:
    """An engine with this instruction set; `logits` in place of the shape's, `path` of another build."""
    backend = Recorded(path or library_path(), name="native", isa=isa)
    if logits is None:
        logits = rows.batch(shape.vocab_size, shape.batch, shape.rows)
    return Engine([shape.case], logits, shape.vocab_size, backend=backend, num_threads=threads)


def _one_core(isa: str, chain: str, options: argparse.Namespace) -> Iterator[tuple[str, float]]:
    one, many, flat = (
        Shape(chain, options.vocabulary, batch, kind)
        for batch, kind in ((1, "peaked"), (64, "peaked"), (64, "flat"))
    )
    for column, shape in ((HOT, one), (MANY, many), (FLAT, flat)):
        engine, logits = _engine(isa, shape), rows.batch(shape.vocab_size, shape.batch, shape.rows)
        yield column, ratio(engine.run if column == HOT else engine.step, reading(logits), options.seconds)
    full = rows.batch(many.vocab_size, many.batch, many.rows)
    for column, half in ((BFLOAT, rows.as_bfloat16(full)), (HALF, full.astype(np.float16))):
        yield column, ratio(_engine(isa, many, half).step, _engine(isa, many).step, options.seconds)
    if options.before:
        before = _engine(isa, flat, path=options.before)
        yield BEFORE, ratio(_engine(isa, flat).step, before.step, options.seconds)


def _two_threads(isa: str, chain: str, given: argparse.Namespace) -> float:
    shape = Shape(chain, given.vocabulary, 64)
    two, one = (_engine(isa, shape, threads=n).step for n in (2, 1))
    return ratio(two, one, given.seconds, perf_counter)


def _llama(isa: str, chain: str, options: argparse.Namespace) -> float:
    """llama.cpp's time of one row, with the filling of its array, relative to ours."""
    from tests.parity.llama import chain as llama_chain

    from .candidates import Candidates

    shape, params = Shape(chain, options.vocabulary), params_of(chain)
    candidates = Candidates(shape.vocab_size)
    candidates.prepare(rows.batch(shape.vocab_size, 1)[0])
    with llama_chain(build_chain(params).for_choice().key, params, shape.vocab_size) as sampler:

        def draw() -> None:
            candidates.fill()
            sampler.accept([candidates.apply(sampler)])

        return ratio(Work(draw), _engine(isa, shape).run, options.seconds)


if __name__ == "__main__":
    main()
