"""The `engine-sampler bench` command: its options, and the measurements as a table in Markdown, to be pasted
into an issue."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

from ...backends.choose import best_backend
from ..progress import tracked
from .cases import Measurement, count_of, measure


def machine() -> str:
    """The processor, the backend and the versions, in one line."""
    backend = best_backend("cpu")
    target = getattr(backend, "target", "")
    versions = [f"Python {platform.python_version()}"]
    for name in ("engine-sampler", "numpy", "transformers", "torch", "llama-cpp-python"):
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    where = f"{_processor()}, {os.cpu_count()} cores, {platform.system()}"
    return f"{where}; backend {backend.name}{f' ({target})' if target else ''}; {', '.join(versions)}"


def _processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model"))]
    return next(iter(names), platform.processor() or platform.machine())


def markdown(measurements: Iterable[Measurement], vocab_size: int) -> Iterator[str]:
    """The lines of the table: a row for each name, two columns for each number of rows."""
    table: dict[str, dict[int, Measurement]] = {}
    for measurement in measurements:
        table.setdefault(measurement.name, {})[measurement.rows] = measurement
    counts = sorted({count for cells in table.values() for count in cells})
    heads = [head for count in counts for head in (_rows(count), "passes")]
    yield "| " + " | ".join([f"one step, {vocab_size:,} tokens", *heads]) + " |"
    yield "|---|" + "---:|" * len(heads)
    for name, cells in table.items():
        found = (cells.get(count) for count in counts)
        values = (text for cell in found for text in (("", "") if cell is None else _cell(cell)))
        yield "| " + " | ".join([name, *values]) + " |"


def _rows(count: int) -> str:
    return "1 row, µs" if count == 1 else f"{count} rows, µs"


def _cell(measurement: Measurement) -> tuple[str, str]:
    """The time, and what it is relative to."""
    time = f"{measurement.seconds * 1e6:,.{1 if measurement.seconds < 1e-3 else 0}f}"
    if measurement.ratio is not None:
        return time, f"{measurement.ratio:,.{1 if measurement.ratio < 100 else 0}f} × our chain"
    return time, "" if measurement.passes is None else f"{measurement.passes:.2f}"


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
