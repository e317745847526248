"""Verify the torch backend on a device: equality with the host, data movement, compute-sanitizer, timings.

Takes less than ten minutes, writes one JSON, and prints a summary with the tables of timings. It compares as
many rows as its time allows, and passes if these were enough and equal. `--device cpu --rows 2000` tries the
command itself.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import torch
from engine_sampler_torch.arithmetic import shortcoming

from .availability import absence_of
from .equality import compare
from .host_time import BAR, host_times
from .markdown import markdown
from .movement import measure

ROWS, SECONDS, SANITIZER_SECONDS = 1_000_000, 240, 90
LEAST_ROWS = 20_000
"""With fewer rows compared, nothing is proven; one core of a host does that in half a minute."""
MOST_WORKERS = 8
UNFINISHED = "not finished in time"
"""What compute-sanitizer, which slows everything down, may end with without a fault."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything, write one JSON, print a summary and the table; 1 if anything differs."""
    options = _parser().parse_args(arguments)
    report = run(
        options.device,
        options.rows,
        options.seconds,
        extras=not options.quick,
        workers=options.workers or _cores(),
    )
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=2)
    print(summary(report))
    return 0 if report["passed"] else 1


def run(device: str, rows: int, seconds: float, *, extras: bool = True, workers: int = 1) -> dict[str, Any]:
    """The report. `extras`: compute-sanitizer and timings too; `workers`: processes that compare."""
    absence = absence_of(device)
    report = _machine(device, is_there=absence is None)
    report["absent"] = absence
    if absence is not None:
        return {**report, "passed": False}
    report["shortcoming"] = shortcoming(device)
    if report["shortcoming"] is not None:
        return {**report, "passed": False}
    equality = compare(device, rows, seconds, workers=workers)
    least = min(rows, LEAST_ROWS)
    report["equality"] = {**vars(equality), "asked": rows, "least": least}
    is_host = torch.device(device).type == "cpu"
    report["movement"] = measure(device, 4, 32_000) if is_host else measure(device)
    is_cuda = torch.device(device).type == "cuda"
    report["sanitizer"] = _sanitized(device) if extras and is_cuda else None
    report["timings"] = _table_of("timings", device) if extras and is_cuda else []
    report["step_times"] = _table_of("step_times", device) if extras and not is_host else []
    report["host_time"] = host_times(device) if extras and not is_host else {}
    unannounced = report["movement"].get("implicit_synchronisations", 0)
    report["passed"] = (
        equality.difference is None
        and equality.rows >= least
        and unannounced == 0
        and report["sanitizer"] in (None, "clean", UNFINISHED)
    )
    return report


def summary(report: dict[str, Any]) -> str:
    """The report for people: a few lines, and the tables of timings in Markdown."""
    if report["absent"] is not None:
        return str(report["absent"])
    lines = [f"{report['date']}, {report['name']} ({report['device']}), torch {report['torch']}"]
    if report["shortcoming"] is not None:
        return "\n".join([*lines, f"not exact here: {report['shortcoming']}; rows go to the host"])
    equality = report["equality"]
    verdict = "equal" if equality["difference"] is None else f"NOT EQUAL: {equality['difference']}"
    lines.append(f"{equality['rows']:,} rows beside the host: {verdict}")
    if equality["difference"] is None and equality["rows"] < equality["least"]:
        lines.append(f"too few: at least {equality['least']:,} are needed; --seconds gives it more time")
    lines += [f"{name.replace('_', ' ')}: {value:,}" for name, value in report["movement"].items()]
    for name, microseconds in report["host_time"].items():
        bar = f" (bar {BAR})" if name == "default chain" else ""
        lines.append(f"the host's part of a step, 64 requests, {name}: {microseconds:.0f} µs{bar}")
    if report["sanitizer"] is not None:
        lines.append(f"compute-sanitizer: {report['sanitizer']}")
    return "\n".join([*lines, *markdown(report["timings"]), *markdown(report["step_times"])])


def _cores() -> int:
    """How many processes compare: one for each core that this one may use, up to a bound, since each has its
    own context on the card."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return min(cores, MOST_WORKERS)


def _machine(device: str, *, is_there: bool) -> dict[str, Any]:
    is_cuda = is_there and torch.device(device).type == "cuda"
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "device": device,
        "name": torch.cuda.get_device_name(device) if is_cuda else platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def _sanitized(device: str) -> str | None:
    """What compute-sanitizer says of some steps: "clean", or the end of its report; None without it."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        return None
    module = [sys.executable, "-m", __spec__.name if __spec__ else __name__]
    command = [tool, "--tool", "memcheck", "--error-exitcode", "9", *module, "--device", device]
    options = ["--rows", "500", "--seconds", "45", "--quick", "--workers", "1", "--json", "/dev/null"]
    try:
        done = subprocess.run(
            [*command, *options], capture_output=True, text=True, timeout=SANITIZER_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return UNFINISHED
    return "clean" if done.returncode == 0 else (done.stdout + done.stderr)[-2000:]


def _table_of(name: str, device: str) -> list[dict[str, Any]]:
    """The table of the module of this name; nothing without Triton."""
    try:
        module = importlib.import_module(f".{name}", __package__)
    except ImportError:
        return []
    return list(module.table(device))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m on_device", description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda:0", help="as torch names it (cuda:0)")
    parser.add_argument("--rows", type=int, default=ROWS, help="the most rows to compare (%(default)s)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="the most time for that (%(default)s)")
    parser.add_argument(
        "--workers", type=int, default=0, help=f"processes that compare (one a core, at most {MOST_WORKERS})"
    )
    parser.add_argument("--quick", action="store_true", help="neither compute-sanitizer nor timings")
    parser.add_argument("--json", default="on_device.json", help="where to write the report (%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
