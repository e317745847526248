"""The grammar engines' numbers as one table, with the performance bars of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..bars import Bar
from ..render import precise, table
from .results import Numbers

NAMES = {"engine_sampler": "engine-sampler", "llg": "llguidance", "xgr": "xgrammar"}


class Line(NamedTuple):
    """A row of the table: a number by its name in `Numbers`, and our bound on it."""

    label: str
    name: str
    bound: float
    unit: str = "µs"
    at_most: bool = True
    total: str = ""
    """The name of the number that this one is a part of."""


LINES = (
    Line("50 schemas, masks of the first document, p50", "first document p50", 2),
    Line("p99", "first document p99", 110),
    Line("masks of later documents, p50", "later documents p50", 0.8),
    Line("p99", "later documents p99", 40),
    Line("the same documents again, p50", "again p50", 0.8),
    Line("p99", "again p99", 3),
    Line("maximum over all", "all max", 2000),
    Line("free JSON, masks, p50", "free JSON p50", 0.6),
    Line("SQL-like grammar, masks, first pass, p50", "SQL-like, first pass p50", 60),
    Line("later passes, p50", "SQL-like, later passes p50", 0.8),
    Line("C-like grammar, masks, first pass, p50", "C-like, first pass p50", 60),
    Line("later passes, p50", "C-like, later passes p50", 0.8),
    Line("accept a token, p50", "accept p50", 0.5),
    Line("64 requests, 16 grammars: masks of a step, p50", "step_p50_us", 100),
    Line("compile a JSON Schema, p50", "maskbench compile p50", 2, "ms"),
    Line("p99", "maskbench compile p99", 30, "ms"),
    Line("one that all engines compile, p50", "common compile p50", 2, "ms", total="common"),
    Line("compile 1.5 KB of Lark", "compile lark", 15, "ms"),
    Line("compile a cached grammar", "cached_ms", 0.05, "ms"),
    Line("prepare a tokenizer", "prepare_s", 0.5, "s"),
    Line("memory for it", "prepare_megabytes", 60, "MB"),
    Line("wrong mask bits", "wrong bits", 0, "", total="checks"),
    Line("MaskBench schemas compiled", "maskbench compiled", 95, "%", False, total="maskbench groups"),
    Line("with every instance judged correctly", "maskbench right", 95, "%", False, total="maskbench groups"),
    Line("invalid instances accepted", "maskbench wrong accepts", 0, ""),
    Line(
        "JSON-Schema-Test-Suite groups judged correctly", "suite right", 65, "%", False, total="suite groups"
    ),
    Line("invalid instances accepted", "suite wrong accepts", 0, ""),
    Line("Lark grammars that lark loads: failures to compile", "real lark missing", 0, "", total="real lark"),
    Line("hostile set: longest call", "hostile seconds", 1, "s", total="hostile"),
    Line("maximum memory", "hostile megabytes", 256, "MB"),
    Line("crashes and timeouts", "hostile lost", 0, ""),
)


def bars(ours: Numbers) -> list[Bar]:
    """Our numbers with their bounds."""
    return [Bar(line.label, line.bound, ours[line.name], line.at_most, f" {line.unit}") for line in LINES]


def report(numbers: Sequence[Numbers]) -> str:
    """One Markdown table; the first engine is ours."""
    ours, *peers = numbers
    bounds = bars(ours)
    met = [bar.met for bar in bounds if bar.met is not None]
    heads = [
        "",
        "bar",
        *(f"{NAMES.get(measured.engine, measured.engine)} {measured.version}" for measured in numbers),
        "met",
    ]
    heads += [f"{NAMES.get(measured.engine, measured.engine)} / ours" for measured in peers]
    rows = []
    for line, bar in zip(LINES, bounds, strict=True):
        verdict = {True: "yes", False: "**no**", None: "–"}[bar.met]
        bound = f"{'≤' if line.at_most else '≥'} {line.bound:g} {line.unit}".rstrip()
        cells = [_cell(line, measured) for measured in numbers]
        rows.append(
            [line.label, bound, *cells, verdict, *(_gain(line, ours, measured) for measured in peers)]
        )
    return f"{sum(met)} of {len(met)} bars are met.\n\n{table(heads, rows)}"


def _cell(line: Line, numbers: Numbers) -> str:
    value = numbers[line.name]
    if value is None:
        return "–"
    total = numbers[line.total] if line.total else None
    text = f"{value:.0f}" if not line.unit and value == int(value) else precise(value)
    return text + (f" of {total:,.0f}" if total is not None else "")


def _gain(line: Line, ours: Numbers, peer: Numbers) -> str:
    """The peer's number as a multiple of ours."""
    mine, other = ours[line.name], peer[line.name]
    if mine is None or other is None or not line.unit or line.unit == "%" or mine <= 0:
        return ""
    return f"{precise(other / mine)}×"
