"""Long comparison of the native backend with NumPy over random chains: `python -m benchmarks.long_run`.

Every draw of every instruction set, with one thread and with two, is compared with NumPy's: token ids,
notes and errors, and in every fourth group the processed rows, bit for bit. Prints the progress and the
first differences. Exits with 1 if there are differences, with 2 if there is nothing to compare.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

import numpy as np

from engine_sampler.backends.library import LibraryBackend
from engine_sampler.base.packaged import library_path
from tests.native.comparing import (
    NUMPY,
    accept_tokens,
    differences,
    halves,
    instruction_sets,
    random_bitmask,
    random_block,
    random_group,
    run,
)
from tests.random_chains import random_settings

THREADS = (1, 2)
REQUESTS, STEPS = 256, 16
"""The requests and steps of one group; each step draws once for every request."""
VOCABULARIES = (64, 4096)
SMALL_VOCABULARIES = (64, 192)
"""With infill, which is slow in NumPy."""
REPORT_EVERY = 30.0
"""Seconds."""
SHOWN = 20
"""The number of differences printed; the others are only counted."""


def native_backends() -> dict[str, tuple[LibraryBackend, int]]:
    """Name → (backend, threads)."""
    path = library_path()
    return {
        f"{isa} with {threads} threads": (LibraryBackend(path, isa=isa), threads)
        for isa in instruction_sets()
        if path is not None
        for threads in THREADS
    }


def compare_group(
    seed: int, backends: dict[str, tuple[LibraryBackend, int]]
) -> Iterator[tuple[int, list[str]]]:
    """(draws compared, differences) of each step of the random group number `seed`."""
    random = np.random.default_rng([seed, 20])
    infill, processed, masked, faulty = seed % 9 == 0, seed % 4 == 0, seed % 5 == 0, seed % 7 == 0
    size = int(np.exp(random.uniform(*np.log(SMALL_VOCABULARIES if infill else VOCABULARIES))))
    settings = random_settings(random, size, without=() if infill else ("infill",))
    chain, rows = random_group(random, size, REQUESTS, settings)
    for step in range(STEPS):
        logits = random_block(random, REQUESTS, size, faults=0.01 if faulty else 0)
        if step % 3 == 2:
            logits = halves(logits)
        bitmask = random_bitmask(random, REQUESTS, size) if masked else None
        expected = run(NUMPY, chain, rows, logits, bitmask, processed=processed)
        texts = []
        for name, (backend, threads) in backends.items():
            rows.slots.num_threads = threads  # read when a backend first uses these slots
            batch = run(backend, chain, rows, logits, bitmask, processed=processed)
            label = f"group {seed}, step {step}, vocabulary {size}, {chain}, {name}"
            texts += [f"{label}: {text}" for text in differences(batch, expected)]
        yield REQUESTS * len(backends), texts
        accept_tokens(random, rows, expected)


def main(arguments: list[str] | None = None) -> int:
    """Compare until enough draws are done, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--draws", type=int, default=10_000_000, help="number of native draws to compare")
    parser.add_argument("--first", type=int, default=0, help="number of the first random group")
    options = parser.parse_args(arguments)
    backends = native_backends()
    if not backends:
        print("there is no native library to compare")
        return 2
    print(f"comparing {', '.join(backends)} with NumPy", flush=True)
    start = last_report = time.monotonic()
    draws, differing, group = 0, 0, options.first
    while draws < options.draws:
        for count, texts in compare_group(group, backends):
            for text in texts[: max(0, SHOWN - differing)]:
                print(text, flush=True)
            draws, differing = draws + count, differing + len(texts)
        group += 1
        if time.monotonic() - last_report > REPORT_EVERY or draws >= options.draws:
            last_report = time.monotonic()
            minutes = (last_report - start) / 60
            print(
                f"{draws:,} draws in {group - options.first:,} groups, {minutes:.1f} minutes: "
                f"{differing} differences",
                flush=True,
            )
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
