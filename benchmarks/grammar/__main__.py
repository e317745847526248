"""Compares grammar engines: ours, llguidance and xgrammar, on one core, with the same tasks, in one session.

python -m benchmarks.grammar --harness HARNESS --data DATA [--out FOLDER] [--only PART ...] [--write]

HARNESS is a program that runs an engine over a file of tasks and times every call (`run`, `exact`). DATA is
the folder that contains maskbench_dev.jsonl and json_schema_test_suite_2020-12.jsonl. The environment
variables GRAMMAR_HARNESS and GRAMMAR_DATA are their defaults. Prints a Markdown table; --write also writes
it into docs/benchmarks. Parts that have already been measured are read from FOLDER unless --only names
them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from engine_sampler.grammar.engines import native

from ..render import write_between
from . import tasks as grammar_tasks
from .report import report
from .results import collect_all

BENCHMARKS = Path(__file__).parents[1]
START, END = "<!-- grammars -->", "<!-- end of grammars -->"
ENGINES = {"engine_sampler": "grammar_adapter:EngineSampler", "llg": "llg", "xgr": "xgr"}
"""Engine → the name of its adapter in the harness; ours comes first."""

PASSES = {"schemas": 2, "json": 2, "lark": 3, "maskbench": 1, "suite": 1, "real_lark": 1, "hostile": 1}
"""The parts that the harness runs → the number of passes over their documents."""
EXTRA, EXACT = "extra", "exact"
OURS_ONLY = ("real_lark", EXACT)
CHECKED = 0.25
"""The share of the masks whose bits are checked."""


def main() -> None:
    args = _arguments()
    if "engine_sampler" in args.engines and native.load_library() is None:
        sys.exit("this installation lacks the native grammar engine: there is nothing to compare")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {args.core})  # inherited by every child process
    args.out.mkdir(parents=True, exist_ok=True)
    tasks = _write_tasks(args.data, args.out, args.limit)
    for engine in args.engines:
        for part in (*PASSES, EXTRA, EXACT):
            if engine == "engine_sampler" or part not in OURS_ONLY or part in args.only:
                _measure(args, engine, part, tasks)
    text = report(collect_all(args.engines, args.out))
    print(text)
    if args.write:
        write_between(START, END, text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.grammar", description="Compare grammar engines.")
    parser.add_argument(
        "--harness", default=os.environ.get("GRAMMAR_HARNESS"), help="the program of the harness"
    )
    parser.add_argument(
        "--data", default=os.environ.get("GRAMMAR_DATA"), help="the folder of the two test suites"
    )
    parser.add_argument("--out", type=Path, default=Path("build/grammar"), help="the folder of the results")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument(
        "--only", nargs="+", default=[], choices=(*PASSES, EXTRA, EXACT), help="measure these parts again"
    )
    parser.add_argument("--limit", type=int, help="maximum tasks per file, for a quick try")
    parser.add_argument("--timeout", type=float, default=60, help="seconds per task")
    parser.add_argument(
        "--core", type=int, default=max(os.sched_getaffinity(0), default=0), help="the core to run on"
    )
    parser.add_argument("--write", action="store_true", help="write the table into docs/benchmarks")
    given = parser.parse_args()
    for name in ("harness", "data"):
        if getattr(given, name) is None:
            parser.error(f"--{name} or the environment variable GRAMMAR_{name.upper()} is required")
    given.harness, given.data = Path(given.harness).resolve(), Path(given.data).resolve()
    return given


def _write_tasks(data: Path, out: Path, limit: int | None) -> dict[str, Path]:
    """Write the task files of all parts; part → file."""
    maskbench = grammar_tasks.read(data / "maskbench_dev.jsonl")
    parts = {
        "schemas": grammar_tasks.schemas(maskbench)[:limit],
        "json": grammar_tasks.free_json(maskbench),
        "lark": grammar_tasks.lark(limit),
        "maskbench": maskbench[:limit],
        "suite": grammar_tasks.read(data / "json_schema_test_suite_2020-12.jsonl")[:limit],
        "real_lark": grammar_tasks.real_lark()[:limit],
        "hostile": grammar_tasks.hostile()[:limit],
    }
    files = {part: grammar_tasks.write(tasks, out / f"{part}.tasks.jsonl") for part, tasks in parts.items()}
    both = [*parts["schemas"], *parts["json"], *parts["lark"]]
    return files | {EXTRA: files["schemas"], EXACT: grammar_tasks.write(both, out / "exact.tasks.jsonl")}


def _measure(args: argparse.Namespace, engine: str, part: str, tasks: dict[str, Path]) -> None:
    out = args.out / f"{part}.{engine}.{'json' if part in (EXTRA, EXACT) else 'jsonl'}"
    if out.exists() and part not in args.only:
        return
    if args.only and part not in args.only:
        return
    name = ENGINES[engine]
    if part == EXTRA:
        command = ["-m", "benchmarks.grammar.extra", args.harness, name, tasks[part], out]
    else:
        options = ["--passes", PASSES.get(part, 1), "--timeout", args.timeout]
        options = ["--rate", CHECKED] if part == EXACT else options
        action = EXACT if part == EXACT else "run"
        command = [args.harness, action, "--engine", name, "--tasks", tasks[part], "--out", out, *options]
    print(f"{engine}: {part}", file=sys.stderr, flush=True)
    if not _run([sys.executable, *map(str, command)], args.harness.parent):
        out.unlink(missing_ok=True)


def _run(command: Sequence[str], folder: Path) -> bool:
    """Run a program with the harness's adapters, which are in `folder`; whether it succeeded."""
    path = os.pathsep.join([str(folder), str(BENCHMARKS.parent), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        print(f"failed with status {done.returncode}; skipped", file=sys.stderr, flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    main()
