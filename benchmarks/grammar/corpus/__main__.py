"""Runs collections of JSON Schemas with their instances on our engine and on llguidance and xgrammar.

    python -m benchmarks.grammar.corpus PATH... [--engines NAME ...] [--every N] [--sample N [--seed S]]
                                       [--out FOLDER] [--again]

PATH is a folder or a file that holds schemas as they are published (see `collections`): JSONSchemaBench's,
MaskBench's `data`, the `tests` of JSON-Schema-Test-Suite, whose drafts are reported one by one. Nothing is
downloaded. Every engine that is installed runs in a process of its own, one after the other, with the tokens
of mistral-common's tekken. Results are kept in FOLDER, one file for each collection and engine, and read from
there unless --again is given; the tables are printed, and written to FOLDER/tables.md.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from .collections import Task, read_tasks
from .engines import ENGINES, installed
from .report import Summary, tables
from .running import Worker, read_results, run


def main() -> None:
    """Measure what the command line asks for, and print the tables."""
    given = _arguments()
    given.out.mkdir(parents=True, exist_ok=True)
    collections = {path.name or str(path): path for path in given.paths}
    for name, path in collections.items():
        tasks: list[Task] = []
        for engine in given.engines:
            file = _file(given.out, name, engine)
            if given.again or not file.exists():
                tasks = tasks or _chosen(read_tasks(path), given)
                clock = "process_time_ns" if given.processor_time else "perf_counter_ns"
                run(tasks, Worker(engine, clock, given.seconds, given.memory), file)
    summaries = {}
    for name in collections:
        files = {engine: _file(given.out, name, engine) for engine in given.engines}
        summaries |= _summaries(name, {engine: file for engine, file in files.items() if file.exists()})
    text = tables(summaries)
    (given.out / "tables.md").write_text(text + "\n", "utf-8")
    print(text)


def _chosen(tasks: Iterable[Task], given: argparse.Namespace) -> list[Task]:
    """What the command line takes of a collection, in its order."""
    chosen = list(islice(tasks, 0, None, given.every))
    if given.sample is None or given.sample >= len(chosen):
        return chosen
    numbers = random.Random(given.seed).sample(range(len(chosen)), given.sample)
    return [chosen[number] for number in sorted(numbers)]


def _summaries(name: str, files: dict[str, Path]) -> dict[str, dict[str, Summary]]:
    """Summaries by group and engine: the groups of a collection are reported one by one."""
    groups: dict[str, None] = {}
    for file in files.values():
        groups |= dict.fromkeys(one["group"] for one in read_results(file))
    return {
        " ".join(filter(None, (name, group))): {
            engine: Summary(one for one in read_results(file) if one["group"] == group)
            for engine, file in files.items()
        }
        for group in groups
    }


def _file(folder: Path, name: str, engine: str) -> Path:
    return folder / f"{name}.{engine}.jsonl"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.grammar.corpus", description="Run whole collections."
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a folder or file of schemas")
    parser.add_argument("--engines", nargs="+", default=installed(), choices=ENGINES)
    parser.add_argument("--every", type=int, default=1, help="take every N-th schema only")
    parser.add_argument("--sample", type=int, help="take so many schemas at random")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--out", type=Path, default=Path("build/corpus"), help="the folder of the results")
    parser.add_argument("--again", action="store_true", help="measure again what has been measured")
    parser.add_argument("--processor-time", action="store_true", help="measure it, for a busy machine")
    parser.add_argument("--seconds", type=float, default=60, help="seconds per schema")
    parser.add_argument("--memory", type=int, default=16, help="GiB of address space per engine")
    return parser.parse_args()


if __name__ == "__main__":
    main()
