"""The grammar engines' numbers as one table, beside the bars that ours has to clear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..bars import Bar
from ..render import precise, table
from .results import Numbers

NAMES = {"engine_sampler": "engine-sampler", "llg": "llguidance", "xgr": "xgrammar"}


class Line(NamedTuple):
    """A row of the table: a number by its name in `Numbers`, and our bound on it."""

    what: str
    name: str
    bound: float
    unit: str = "µs"
    at_most: bool = True
    of: str = ""
    """The name of the number of which this one is a part."""


LINES = (
    Line("50 schemas, masks of the first document, p50", "first document p50", 2),
    Line("p99", "first document p99", 110),
    Line("masks of later documents, p50", "later documents p50", 0.8),
    Line("p99", "later documents p99", 40),
    Line("the same documents again, p50", "again p50", 0.8),
    Line("p99", "again p99", 3),
    Line("the longest of all", "all max", 2000),
    Line("free JSON, masks, p50", "free JSON p50", 0.6),
    Line("SQL-like grammar, masks, first pass, p50", "SQL-like, first pass p50", 60),
    Line("later passes, p50", "SQL-like, later passes p50", 0.8),
    Line("C-like grammar, masks, first pass, p50", "C-like, first pass p50", 60),
    Line("later passes, p50", "C-like, later passes p50", 0.8),
    Line("accept a token, p50", "accept p50", 0.5),
    Line("64 requests, 16 grammars: masks of a step, p50", "step_p50_us", 100),
    Line("compile a JSON Schema, p50", "maskbench compile p50", 2, "ms"),
    Line("p99", "maskbench compile p99", 30, "ms"),
    Line("compile 1.5 KB of Lark", "compile lark", 15, "ms"),
    Line("compile what is known", "cached_ms", 0.05, "ms"),
    Line("prepare a tokenizer", "prepare_s", 0.5, "s"),
    Line("memory of that", "prepare_megabytes", 60, "MB"),
    Line("mask bits that are wrong", "wrong bits", 0, "", of="checks"),
    Line("MaskBench schemas compiled", "maskbench compiled", 95, "%", False, of="maskbench groups"),
    Line("with every instance right", "maskbench right", 95, "%", False, of="maskbench groups"),
    Line("wrong instances accepted", "maskbench wrong accepts", 0, ""),
    Line("JSON-Schema-Test-Suite groups all right", "suite right", 65, "%", False, of="suite groups"),
    Line("wrong instances accepted", "suite wrong accepts", 0, ""),
    Line("Lark grammars that lark loads: not compiled", "real lark missing", 0, "", of="real lark"),
    Line("hostile set: longest call", "hostile seconds", 1, "s", of="hostile"),
    Line("most memory", "hostile megabytes", 256, "MB"),
    Line("crashed, or without an answer in time", "hostile lost", 0, ""),
)


def bars(ours: Numbers) -> list[Bar]:
    """Our numbers and their bounds."""
    return [Bar(line.what, line.bound, ours[line.name], line.at_most, f" {line.unit}") for line in LINES]


def report(numbers: Sequence[Numbers]) -> str:
    """One Markdown table; the first engine is ours."""
    ours, *peers = numbers
    found = bars(ours)
    met = [bar.met for bar in found if bar.met is not None]
    heads = ["", "bar", *(f"{NAMES.get(one.engine, one.engine)} {one.version}" for one in numbers), "met"]
    heads += [f"than {NAMES.get(one.engine, one.engine)}" for one in peers]
    rows = []
    for line, bar in zip(LINES, found, strict=True):
        said = {True: "yes", False: "**no**", None: "–"}[bar.met]
        bound = f"{'≤' if line.at_most else '≥'} {line.bound:g} {line.unit}".rstrip()
        cells = [_cell(line, one) for one in numbers]
        rows.append([line.what, bound, *cells, said, *(_gain(line, ours, one) for one in peers)])
    return f"{sum(met)} of {len(met)} bars are met.\n\n{table(heads, rows)}"


def _cell(line: Line, numbers: Numbers) -> str:
    value = numbers[line.name]
    if value is None:
        return "–"
    whole = numbers[line.of] if line.of else None
    text = f"{value:.0f}" if not line.unit and value == int(value) else precise(value)
    return text + (f" of {whole:,.0f}" if whole is not None else "")


def _gain(line: Line, ours: Numbers, peer: Numbers) -> str:
    """How many times as little we take."""
    mine, other = ours[line.name], peer[line.name]
    if mine is None or other is None or not line.unit or line.unit == "%" or mine <= 0:
        return ""
    return f"{precise(other / mine)}×"
