"""Verify the library on an NPU: tokens beside the host, draws, times.

Writes one JSON and prints a summary. Status 1 if something differs, 2 if there is no NPU to run on.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from engine_sampler import BackendError
from engine_sampler.contract import Backend

from ..backend import AscendBackend
from ..presence import missing
from .arrays import BFLOAT16, Place, tensors_on
from .draws import draw
from .equality import compare
from .timings import table

ROWS, SECONDS, DRAWS = 100_000, 180.0, 4096


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything on the NPU that is named, write the report, print a summary."""
    options = _parser().parse_args(arguments)
    place, why = _place_on(options.device)
    if place is None:
        print(f"no NPU to run on: {why}")
        return 2
    found = report(AscendBackend("ascend"), AscendBackend("ascend_operators"), place, rows=options.rows,
                   seconds=options.seconds)  # fmt: skip
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=2)
    print(summary(found))
    return 0 if found["passed"] else 1


def _place_on(device: str) -> tuple[Place | None, str]:
    """(what places logits there, why there is nothing)."""
    if why := missing():
        return None, why
    try:
        return tensors_on(device), ""
    except (ImportError, RuntimeError) as error:
        return None, str(error).partition("\n")[0]


def report(
    exact: Backend,
    operators: Backend | None,
    place: Place,
    *,
    rows: int = ROWS,
    seconds: float = SECONDS,
    draws: int = DRAWS,
    vocab_size: int = 151_936,
    timed_rows: Sequence[int] = (1, 16, 64, 256),
    repeats: int = 30,
    form: str = BFLOAT16,
) -> dict[str, Any]:
    """Everything that is found out about the two backends; `place` puts logits on the NPU. `form` is the type
    of those that times are taken with."""
    reads = exact.reads_from("npu:0")
    equality = compare(exact, place, rows, seconds, (1024, vocab_size))
    drawn = None if operators is None else _drawn(operators, place, draws)
    backends: list[tuple[str, Any]] = [("ascend", exact), ("host", "auto")]
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "target": getattr(exact, "target", ""),
        "equality": {**vars(equality), "asked": rows},
        "draws": drawn,
        "timings": table(backends, place, timed_rows, vocab_size, repeats, form),
        "passed": reads and equality.difference is None and (drawn is None or drawn["passed"]),
    }


def _drawn(operators: Backend, place: Place, draws: int) -> dict[str, Any]:
    try:
        return draw(operators, place, draws)
    except BackendError as error:
        return {"passed": False, "error": str(error)}


def summary(results: dict[str, Any]) -> str:
    """The report for people: a few lines, and the table of times in Markdown."""
    equality = results["equality"]
    verdict = "equal" if equality["difference"] is None else f"NOT EQUAL: {equality['difference']}"
    lines = [
        f"{results['date']}, {results['target']}",
        f"{equality['rows']:,} rows beside the host: {verdict}",
    ]
    if results["draws"] is not None:
        lines.append("draws of the operators: " + ", ".join(f"{k} {v}" for k, v in results["draws"].items()))
    lines.append("passed" if results["passed"] else "FAILED")
    names = list(results["timings"][0])
    lines += ["", "| " + " | ".join(names) + " |", "| " + " | ".join("---" for _ in names) + " |"]
    return "\n".join(lines + ["| " + " | ".join(map(str, row.values())) + " |" for row in results["timings"]])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m engine_sampler_ascend", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--device", default="npu:0", help="as torch names it (%(default)s)")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows to compare (%(default)s)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="the most time for that (%(default)s)")
    parser.add_argument("--json", default="ascend.json", help="where to write the report (%(default)s)")
    return parser
