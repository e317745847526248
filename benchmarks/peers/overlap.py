"""Sampling on the CPU beside a simulated device: python -m benchmarks.peers.overlap [--rows N ...] [--write]

The requests are halved: while the device runs the forward pass of one half, the CPU draws the tokens of the
other, which its next pass needs. A pass takes a given time, and no processor time. What draws take is
measured as processor time, step by step; each core has a `Scheduler` with its part of the rows. The pipeline
is then played in virtual time, so that other work on the machine changes nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from statistics import median
from time import process_time

import numpy as np

from engine_sampler.cli.bench import rows

from ..cases import DEFAULT
from ..render import number, table, write_between
from .cases import CASES, PROMPT
from .ours import scheduler_step

MAIN = 131_072
FORWARD_MS = (5, 10, 20)
CORES = (1, 2, 4, 8)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""The sizes of a core's part that are measured."""
MOST_WAITING = 0.05
"""The share of a forward pass that the device may wait for tokens while sampling still counts as hidden."""
MOST_ROWS = 1 << 20
GAIN_ROWS = 256
CHAINS = {
    "greedy": CASES["greedy"],
    "top_k + top_p": CASES["top_k + top_p"],
    "default chain": DEFAULT,
    "top_p": CASES["top_p"],
    "penalties": CASES["penalties"],
}
START, END = "<!-- overlap -->", "<!-- end of overlap -->"


def play(forward: float, draws: Sequence[float]) -> float:
    """The seconds that steps take when two halves of the requests share a device: `forward` seconds for each
    pass, then `draws[i]` seconds until the tokens of step i are there. The device waits where the tokens of
    the half whose turn it is are not.
    """
    ready, device, cpu = [0.0, 0.0], 0.0, 0.0
    for i, seconds in enumerate(draws):
        device = max(device, ready[i % 2]) + forward
        cpu = max(cpu, device) + seconds  # it draws for one half after the other
        ready[i % 2] = cpu
    return device


def sample_seconds(
    settings: Mapping[str, object], vocab_size: int, counts: Sequence[int], steps: int
) -> dict[int, list[float]]:
    """Rows → the processor times of steps of a scheduler with this many rows."""
    prompt, seconds = rows.history(vocab_size, PROMPT), {}
    for count in counts:
        logits = np.array(rows.batch(vocab_size, count))
        step = scheduler_step(settings, logits, prompt, None, "llama.cpp")
        step.repeat()
        seconds[count] = [step.seconds(process_time) for _ in range(max(3, steps // count))]
    return seconds


def hidden_rows(forward: float, cores: int, seconds: Mapping[int, Sequence[float]]) -> int:
    """The most rows in all, both halves, whose sampling stays hidden."""
    low, high = 0, MOST_ROWS
    while low < high:
        middle = (low + high + 1) // 2
        draws = draws_of(middle / 2 / cores, seconds)
        if play(forward, draws) <= (1 + MOST_WAITING) * forward * len(draws):
            low = middle
        else:
            high = middle - 1
    return low


def draws_of(part: float, seconds: Mapping[int, Sequence[float]], steps: int = 64) -> list[float]:
    """What steps take in which a core has `part` rows: measured ones of the sizes around it, interpolated
    quantile by quantile, in a fixed random order. Beyond the largest, a row costs what it costs there."""
    counts = sorted(seconds)
    shares = np.random.default_rng(1).permutation((np.arange(steps) + 0.5) / steps)
    by_count = np.array([np.quantile(seconds[count], shares) for count in counts])
    beyond = max(1.0, part / counts[-1])
    return [beyond * float(np.interp(part, counts, column)) for column in by_count.T]


def gain(forward: float, count: int, seconds: Mapping[int, Sequence[float]]) -> float:
    """How many times as many tokens one core gives when it draws beside the passes, not between them."""
    draws = draws_of(count / 2, seconds)
    return (forward * len(draws) + sum(draws)) / play(forward, draws)


def report(measured: Mapping[str, Mapping[int, Sequence[float]]]) -> str:
    """How many rows are hidden, by the time of a pass and the cores; what is gained; what a row takes."""
    heads = [f"{cores} core{'s' * (cores > 1)}" for cores in CORES]
    hidden, gains = [], []
    for chain, seconds in measured.items():
        for forward in FORWARD_MS:
            cells = [f"{hidden_rows(forward / 1e3, cores, seconds):,}" for cores in CORES]
            hidden.append([f"{chain}, {forward} ms", *cells])
        cells = [f"{gain(forward / 1e3, GAIN_ROWS, seconds) - 1:+.0%}" for forward in FORWARD_MS]
        gains.append([chain, *cells])
    per_row = [
        [chain, *(number(1e6 * median(seconds[count]) / count) for count in seconds)]
        for chain, seconds in measured.items()
    ]
    sizes = [f"{count} row{'s' * (count > 1)}" for count in next(iter(measured.values()))]
    return "\n\n".join(
        (
            table(["rows whose sampling is hidden", *heads], hidden),
            f"Tokens gained with {GAIN_ROWS} rows and one core, relative to drawing between the passes:",
            table(["settings", *(f"{forward} ms" for forward in FORWARD_MS)], gains),
            "A step of this many rows, microseconds per row:",
            table(["settings", *sizes], per_row),
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.peers.overlap", description="Overlap sampling.")
    parser.add_argument("--vocabulary", type=int, default=MAIN, help="the number of tokens")
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--steps", type=int, default=512, help="row-steps measured for each size")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/benchmarks")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    measured = {}
    for chain, settings in CHAINS.items():
        print(chain, file=sys.stderr, flush=True)
        measured[chain] = sample_seconds(settings, options.vocabulary, options.rows, options.steps)
    text = report(measured)
    print(text)
    if options.write:
        write_between(START, END, text)


if __name__ == "__main__":
    main()
