"""Grammar engines side by side: ours, llguidance and xgrammar, one core, the same tasks, one session.

python -m benchmarks.grammar --harness HARNESS --data DATA [--out FOLDER] [--only PART ...] [--readme]

HARNESS is the program that runs an engine over a file of tasks and times every call (`run`, `exact`);
DATA the folder of maskbench_dev.jsonl and json_schema_test_suite_2020-12.jsonl. Both may also be given by
the variables GRAMMAR_HARNESS and GRAMMAR_DATA. Prints a Markdown table; with --readme it is written into
README.md too. Parts that have been measured already are read from FOLDER, unless --only names them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from engine_sampler.grammar.engines import native

from . import tasks as grammar_tasks
from .report import report
from .results import collect

HERE = Path(__file__).parent.parent
START, END = "<!-- grammars -->", "<!-- end of grammars -->"
ENGINES = {"engine_sampler": "grammar_adapter:EngineSampler", "llg": "llg", "xgr": "xgr"}
"""Their names in the harness; ours comes first."""

PASSES = {"schemas": 2, "json": 2, "lark": 3, "maskbench": 1, "suite": 1, "real_lark": 1, "hostile": 1}
"""The parts that the harness runs, and how often each walks its documents."""
EXTRA, EXACT = "extra", "exact"
OURS_ONLY = ("real_lark", EXACT)
CHECKED = 0.25
"""The share of the masks whose bits are checked."""


def main() -> None:
    given = _arguments()
    if "engine_sampler" in given.engines and native.load_library() is None:
        sys.exit("this installation lacks the grammar engine in C: there is nothing to compare")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {given.core})  # for all that is started from here
    given.out.mkdir(parents=True, exist_ok=True)
    tasks = _write_tasks(given.data, given.out, given.limit)
    for engine in given.engines:
        for part in (*PASSES, EXTRA, EXACT):
            if engine == "engine_sampler" or part not in OURS_ONLY or part in given.only:
                _measure(given, engine, part, tasks)
    text = report([collect(engine, given.out) for engine in given.engines])
    print(text)
    if given.readme:
        _into_readme(text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Grammar engines side by side.")
    parser.add_argument("--harness", default=os.environ.get("GRAMMAR_HARNESS"), help="the harness's program")
    parser.add_argument("--data", default=os.environ.get("GRAMMAR_DATA"), help="the folder of the two suites")
    parser.add_argument("--out", type=Path, default=Path("build/grammar"), help="where results are kept")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument(
        "--only", nargs="+", default=[], choices=(*PASSES, EXTRA, EXACT), help="measure these anew"
    )
    parser.add_argument("--limit", type=int, help="at most so many tasks of each file, to try things out")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one task")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0), default=0))
    parser.add_argument("--readme", action="store_true", help="write the table into README.md")
    given = parser.parse_args()
    for name in ("harness", "data"):
        if getattr(given, name) is None:
            parser.error(f"--{name} is needed, or the variable GRAMMAR_{name.upper()}")
    given.harness, given.data = Path(given.harness).resolve(), Path(given.data).resolve()
    return given


def _write_tasks(data: Path, out: Path, limit: int | None) -> dict[str, Path]:
    """The files of all parts."""
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


def _measure(given: argparse.Namespace, engine: str, part: str, tasks: dict[str, Path]) -> None:
    out = given.out / f"{part}.{engine}.{'json' if part in (EXTRA, EXACT) else 'jsonl'}"
    if out.exists() and part not in given.only:
        return
    if given.only and part not in given.only:
        return
    name = ENGINES[engine]
    if part == EXTRA:
        command = ["-m", "benchmarks.grammar.extra", given.harness, name, tasks[part], out]
    else:
        walk = ["--passes", PASSES.get(part, 1), "--timeout", given.timeout]
        walk = ["--rate", CHECKED] if part == EXACT else walk
        what = EXACT if part == EXACT else "run"
        command = [given.harness, what, "--engine", name, "--tasks", tasks[part], "--out", out, *walk]
    print(f"{engine}: {part}", file=sys.stderr, flush=True)
    if not _run([sys.executable, *map(str, command)], given.harness.parent):
        out.unlink(missing_ok=True)


def _run(command: Sequence[str], folder: Path) -> bool:
    """Whether a program that finds the harness's adapters in `folder` ran to its end."""
    path = os.pathsep.join([str(folder), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        print(f"it failed with {done.returncode}, and is left out", file=sys.stderr, flush=True)
    return done.returncode == 0


def _into_readme(text: str) -> None:
    readme = HERE / "README.md"
    before, _, rest = readme.read_text("utf-8").partition(START)
    _, _, after = rest.partition(END)
    readme.write_text(f"{before}{START}\n\n{text}\n\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
