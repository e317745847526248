"""The numbers of the grammar engines by name, from the files that the harness writes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .tasks import LARK, SHORT_LARK, WARM_UP

Row = dict[str, Any]


@dataclass
class Numbers:
    """One engine's numbers by name: microseconds, milliseconds, percentages; missing if not measured."""

    engine: str
    version: str = ""
    values: dict[str, float] = field(default_factory=dict)
    compiled: dict[str, int] = field(default_factory=dict)
    """The nanoseconds that each MaskBench schema took to compile."""

    def __getitem__(self, name: str) -> float | None:
        return self.values.get(name)

    def put(self, name: str, value: float | None) -> None:
        if value is not None:
            self.values[name] = float(value)

    def percentiles(self, name: str, nanoseconds: Iterable[int], unit: float = 1e3) -> None:
        """Put p50, p99 and the maximum, if there are any times."""
        if found := list(nanoseconds):
            for label, share in (("p50", 50), ("p99", 99), ("max", 100)):
                self.put(f"{name} {label}", np.percentile(found, share) / unit)


def collect_all(engines: Iterable[str], folder: Path) -> list[Numbers]:
    """All numbers of some engines, and those of the schemas that all of them compile."""
    collected = [collect(engine, folder) for engine in engines]
    tried = [one for one in collected if one.compiled]
    common = set.intersection(*(set(one.compiled) for one in tried)) if tried else ()
    for one in tried:
        one.put("common", len(common))
        one.percentiles("common compile", (one.compiled[name] for name in common), 1e6)
    return collected


def collect(engine: str, folder: Path) -> Numbers:
    """All numbers of an engine from the files in `folder`."""
    numbers = Numbers(engine)
    _schemas(numbers, _rows(numbers, folder / f"schemas.{engine}.jsonl"))
    _free_json(numbers, _rows(numbers, folder / f"json.{engine}.jsonl"))
    _lark(numbers, _rows(numbers, folder / f"lark.{engine}.jsonl"))
    for name in ("maskbench", "suite"):
        _judged(numbers, name, _rows(numbers, folder / f"{name}.{engine}.jsonl"))
    rows = _rows(numbers, folder / f"real_lark.{engine}.jsonl")
    if rows:
        numbers.put("real lark missing", sum("compile_ns" not in row for row in rows))
        numbers.put("real lark", len(rows))
    _hostile(numbers, _rows(numbers, folder / f"hostile.{engine}.jsonl", keep_all=True))
    for name, value in _object(folder / f"extra.{engine}.json").items():
        numbers.put(name, value)
    if found := _object(folder / f"exact.{engine}.json"):
        numbers.put("checks", found["checks"])
        wrong = found["mask_allows_but_accept_rejects"] + found["mask_denies_but_accept_accepts"]
        numbers.put("wrong bits", wrong)
    return numbers


def _object(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def _rows(numbers: Numbers, path: Path, keep_all: bool = False) -> list[Row]:
    """The rows of a file of the harness, without those of warm-up tasks."""
    rows = []
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        row = json.loads(line)
        if "hello" in row:
            numbers.version = row["version"]
        if keep_all or ("hello" not in row and not row["id"].startswith(WARM_UP)):
            rows.append(row)
    return rows


def _masks(row: Row, number: int) -> list[int]:
    passes = row.get("pass", [])
    return passes[number]["mask_ns"] if number < len(passes) else []


def _by_document(row: Row) -> list[list[int]]:
    """The first pass's times of each valid document; an engine fills one mask more than it accepts tokens."""
    times, start, documents = _masks(row, 0), 0, []
    for test in row.get("tests", []):
        if not test["valid"]:
            continue
        if "n" not in test:  # it failed at an unknown token
            break
        end = start + test["n"] + 1
        documents.append(times[start:end])
        start = end
    return documents


def _schemas(numbers: Numbers, rows: list[Row]) -> None:
    documents = [_by_document(row) for row in rows]
    firsts = [time for each in documents for time in (each[0] if each else [])]
    firsts += [row["first_mask_ns"] for row in rows if "first_mask_ns" in row]
    numbers.percentiles("first document", firsts)
    numbers.percentiles("later documents", (t for each in documents for one in each[1:] for t in one))
    numbers.percentiles("again", (time for row in rows for time in _masks(row, 1)))
    numbers.percentiles("all", (time for row in rows for p in (0, 1) for time in _masks(row, p)))
    accepts = [time for row in rows for one in row.get("pass", []) for time in one["accept_ns"]]
    numbers.percentiles("accept", accepts)


def _free_json(numbers: Numbers, rows: list[Row]) -> None:
    numbers.percentiles("free JSON", (time for row in rows for time in _masks(row, 0)))


def _lark(numbers: Numbers, rows: list[Row]) -> None:
    for row in rows:
        for name, task in LARK.items():
            if row["id"] == task:
                numbers.percentiles(f"{name}, first pass", _masks(row, 0))
                later = [time for p in range(1, len(row.get("pass", []))) for time in _masks(row, p)]
                numbers.percentiles(f"{name}, later passes", later)
        if "compile_ns" in row and row["id"] == SHORT_LARK:
            numbers.put("compile lark", row["compile_ns"] / 1e6)


def _judged(numbers: Numbers, name: str, rows: list[Row]) -> None:
    if not rows:
        return
    tests = [test for row in rows for test in row.get("tests", [])]
    right = [
        "compile_ns" in row and all(test["full"] == test["valid"] for test in row["tests"]) for row in rows
    ]
    numbers.put(f"{name} compiled", 100 * np.mean(["compile_ns" in row for row in rows]))
    numbers.put(f"{name} right", 100 * np.mean(right))
    numbers.put(f"{name} groups", len(rows))
    numbers.put(f"{name} wrong accepts", sum(bool(test["full"]) and not test["valid"] for test in tests))
    numbers.put(f"{name} wrong rejects", sum(not test["full"] and test["valid"] for test in tests))
    compiled = {row["id"]: row["compile_ns"] for row in rows if "compile_ns" in row}
    numbers.percentiles(f"{name} compile", compiled.values(), 1e6)
    if name == "maskbench":
        numbers.compiled = compiled


def _hostile(numbers: Numbers, rows: list[Row]) -> None:
    """The longest call of any task, the largest growth of memory, and the number of crashes and timeouts."""
    slowest: list[tuple[float, str]] = []
    growth, before = [], None
    for row in rows:
        if "hello" in row or "crash" in row:
            before = None
        else:
            if before is not None:
                growth.append((row["maxrss"] - before, row["id"]))
            before = row["maxrss"]
            calls = [row.get("compile_ns"), row.get("compile_err_ns"), row.get("first_mask_ns")]
            calls += [
                t for one in row.get("pass", []) for part in ("mask_ns", "accept_ns") for t in one[part]
            ]
            slowest.append((max(t for t in calls if t is not None), row["id"]))
    judged = [(time, name) for time, name in slowest if not name.startswith(WARM_UP)]
    if judged:
        numbers.put("hostile seconds", max(judged)[0] / 1e9)
        numbers.put("hostile megabytes", max(growth, default=(0, ""))[0] / 2**20)
        numbers.put("hostile lost", sum("crash" in row for row in rows))
        numbers.put("hostile", len(judged) + sum("crash" in row for row in rows))
