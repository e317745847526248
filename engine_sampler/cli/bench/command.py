"""The `engine-sampler bench` command."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict

from ..progress import tracked
from . import machine, markdown, measure
from .cases import count_of


def _between(low: int, high: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text} is not allowed: {low}..{high}")
        return value

    return number


_SIZES = _between(512, 1 << 20)
_ROWS = _between(1, 1024)


def run_bench(arguments: argparse.Namespace) -> None:
    """Measure how fast this machine samples, in a minute; the table can be pasted into an issue."""
    vocab_size, batch = arguments.vocab_size, arguments.rows
    measuring = measure(vocab_size, batch, arguments.seconds, arguments.backend)
    results = list(tracked(measuring, count_of(batch), "measuring"))
    if arguments.json:
        print(json.dumps({"machine": machine(), "results": [asdict(result) for result in results]}, indent=2))
        return
    print(machine(), end="\n\n")
    print(*markdown(results, vocab_size), sep="\n")
    print("\nMedians of whole steps, logits to tokens. A pass is reading the same logits once.")


def bench_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--vocab-size", type=_SIZES, default=131_072, metavar="N", help="tokens")
    parser.add_argument("--rows", type=_ROWS, default=64, metavar="N", help="requests in a step")
    parser.add_argument("--backend", default="auto", metavar="NAME", help="sampling backend (default: auto)")
    seconds = "time for all measurements, in seconds; each runs five times at least (default: 40)"
    parser.add_argument("--seconds", type=float, default=40.0, metavar="N", help=seconds)
    parser.add_argument("--json", action="store_true", help="print JSON")
