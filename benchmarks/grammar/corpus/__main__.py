"""Runs collections of JSON Schemas with their instances on our engine and on llguidance and xgrammar.

    python -m benchmarks.grammar.corpus PATH... [--engines NAME ...] [--sample [ENGINE=]N]... [--seed S]
                                       [--out FOLDER] [--again] [--write]

PATH is a folder or a file that holds schemas as they are published (see `collections`): JSONSchemaBench's,
MaskBench's `data`, the `tests` of JSON-Schema-Test-Suite, whose drafts are reported one by one. Nothing is
downloaded. Every engine that is installed runs in a process of its own, one after the other, with the tokens
of mistral-common's tekken. Results are kept in FOLDER, a line for each schema in a file for each collection
and engine: a run that was interrupted goes on where it ended, and --again begins anew. The tables are
printed and written to FOLDER, a file for each collection; --write writes all of these into
docs/benchmarks.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from ...render import write_between
from .collections import Task, read_tasks
from .engines import ENGINES, missing
from .kept import Results, Settings, SettingsError
from .report import Selection, report
from .running import Bounds, StartError, Worker, run

_START, _END = "<!-- corpus -->", "<!-- end of corpus -->"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for, and print the tables."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        engines = _runnable(options.engines)
        sizes = _sizes(options.sample, engines)
        collections = _collections(options)
        options.out.mkdir(parents=True, exist_ok=True)
        for name, tasks in collections.items():
            text = _measured(name, tasks, sizes, options)
            (options.out / f"{name}.md").write_text(text + "\n", "utf-8")
            print(text)
    except (ValueError, OSError, SettingsError, StartError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    if options.write:
        texts = [file.read_text("utf-8").strip() for file in sorted(options.out.glob("*.md"))]
        write_between(_START, _END, "\n\n".join(texts))


def _runnable(names: Sequence[str]) -> list[str]:
    """The engines that can run; prints a line on each of the others."""
    engines = []
    for name in names:
        if lacking := missing(name):
            print(f"{name} is left out: {', '.join(lacking)} not installed", file=sys.stderr)
        else:
            engines.append(name)
    if not engines:
        raise ValueError("none of the engines can run")
    return engines


def _sizes(samples: Sequence[str], engines: Sequence[str]) -> dict[str, int]:
    """How many schemas of a collection each engine is given."""
    sizes = dict.fromkeys(engines, sys.maxsize)
    for sample in samples:
        engine, _, count = sample.rpartition("=")
        if engine not in ("", *ENGINES) or not (count.isascii() and count.isdigit() and int(count)):
            raise ValueError(f"--sample is N or ENGINE=N, with N schemas, at least 1, not {sample!r}")
        sizes |= dict.fromkeys([engine] if engine else engines, int(count))
    return {engine: sizes[engine] for engine in engines}


def _collections(options: argparse.Namespace) -> dict[str, list[Task]]:
    """The tasks of each path, by its name."""
    collections: dict[str, list[Task]] = {}
    for path in options.paths:
        name = path.resolve().name
        if name in collections:
            raise ValueError(f"two paths end in {name}: give them in two runs with an --out each")
        collections[name] = _tasks(path, options.seed)
    return collections


def _tasks(path: Path, seed: int) -> list[Task]:
    """The tasks of a collection in random order: the first are a sample, and so is a part of a run."""
    tasks = list(read_tasks(path))
    if not tasks:
        raise ValueError(f"{path} has no schemas, which are *.json and *.jsonl in any folder of it")
    random.Random(seed).shuffle(tasks)
    return tasks


def _measured(name: str, tasks: Sequence[Task], sizes: dict[str, int], options: argparse.Namespace) -> str:
    """Run the engines on a collection; its tables."""
    bounds = Bounds.of(
        "thread_time_ns" if options.processor_time else "perf_counter_ns", options.seconds, options.memory
    )
    chosen = {}
    for engine, size in sizes.items():
        file = options.out / f"{name}.{engine}.jsonl"
        if options.again:
            file.unlink(missing_ok=True)
        with Results(file, _settings(engine, bounds, options)) as results:
            run(tasks[:size], Worker(engine, bounds), results)
        chosen[engine] = Selection(file, version(engine), {task.name for task in tasks[:size]})
    return report(name, chosen, _conditions(len(tasks), options))


def _settings(engine: str, bounds: Bounds, given: argparse.Namespace) -> Settings:
    return {
        "version": version(engine),
        "clock": bounds.clock,
        "seconds": bounds.seconds,
        "memory": given.memory,
    }


def _conditions(total: int, given: argparse.Namespace) -> str:
    """What a reader of the tables must know of the run."""
    times = "in processor time" if given.processor_time else "by the wall clock"
    return (
        f"{total:,} schemas, in random order (seed {given.seed}), samples are the first. A schema may "
        f"take {given.seconds:g} s of processor time, the process {given.memory} GiB of address space. "
        f"Times are measured {times}."
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.grammar.corpus",
        description="Run whole collections of JSON Schemas with their instances, and go on with a run.",
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a folder or file of schemas")
    parser.add_argument(
        "--engines",
        nargs="+",
        default=[*ENGINES],
        choices=ENGINES,
        metavar="NAME",
        help=f"of {', '.join(ENGINES)}, where installed",
    )
    parser.add_argument(
        "--sample",
        action="append",
        default=[],
        metavar="[ENGINE=]N",
        help="schemas at random; may be repeated",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random order (0)")
    parser.add_argument(
        "--out", type=Path, default=Path("build/corpus"), help="the folder of the results (build/corpus)"
    )
    parser.add_argument("--again", action="store_true", help="measure again what has been measured")
    parser.add_argument("--processor-time", action="store_true", help="measure it, for a busy machine")
    parser.add_argument("--seconds", type=_seconds, default=60.0, help="of processor time per schema (60)")
    parser.add_argument("--memory", type=_gibibytes, default=16, help="GiB of address space per engine (16)")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/benchmarks")
    return parser


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) <= 86_400:
            return float(text)
    raise argparse.ArgumentTypeError(f"more than 0, at most 86,400, not {text}")


def _gibibytes(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text) <= 1 << 20:
        return int(text)
    raise argparse.ArgumentTypeError(f"at least 1, not {text}")


if __name__ == "__main__":
    main()
