"""Our sampler beside engines' own: python -m benchmarks.peers [--engine NAME ...] [--rows N ...] [--write]

Prints Markdown tables; --write also writes them into docs/benchmarks. An engine whose libraries are
missing is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from importlib import import_module

import numpy as np

from engine_sampler.cli.bench import rows

from ..render import write_between
from .cases import CASES, MASKED, PROMPT, ROWS, Cost
from .ours import mask_of
from .report import report
from .turns import take_turns

ENGINES = {
    "vLLM": ("of_vllm", ("torch", "vllm")),
    "llama.cpp": ("of_llama_cpp", ("llama_cpp",)),
    "transformers": ("of_transformers", ("torch", "transformers")),
    "mlx-lm": ("of_mlx", ("mlx", "mlx_lm")),
}
"""Engine → the module that measures it, and the libraries that it needs."""
MAIN = 131_072
START, END = "<!-- peers -->", "<!-- end of peers -->"


def main() -> None:
    options = _arguments()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    costs = {}
    for engine in options.engine:
        module, needed = ENGINES[engine]
        if names := [name for name in needed if importlib.util.find_spec(name) is None]:
            print(f"{engine} is left out: {', '.join(names)} not installed", file=sys.stderr)
            continue
        if "torch" in needed:
            import_module("torch").set_num_threads(1)
        costs[engine] = _measure(engine, module, options)
    text = report(costs)
    print(text)
    if options.write:
        write_between(START, END, text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.peers", description="Measure whole samplers.")
    parser.add_argument("--engine", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--vocabulary", type=int, default=MAIN, help="the number of tokens")
    parser.add_argument("--case", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="per number, at least three rounds; 0: one"
    )
    parser.add_argument("--write", action="store_true", help="write the tables into docs/benchmarks")
    return parser.parse_args()


def _measure(engine: str, module: str, options: argparse.Namespace) -> dict[tuple[str, int], Cost]:
    sides = import_module(f"{__package__}.{module}").sides
    prompt = rows.history(options.vocabulary, PROMPT)
    costs = {}
    for count in options.rows:
        logits = np.array(rows.batch(options.vocabulary, count))
        for case in options.case:
            print(f"{engine}: {case}, {count} rows", file=sys.stderr, flush=True)
            mask = mask_of(options.vocabulary, count) if case == MASKED else None
            costs[case, count] = take_turns(*sides(CASES[case], logits, prompt, mask), options.seconds)
    return costs


if __name__ == "__main__":
    main()
