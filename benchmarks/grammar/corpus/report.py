"""The results of all engines as tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...render import table
from .kept import CRASHED, NO_MEMORY, TIMED_OUT, read_results
from .summary import Result, Summary

SHARES = (50, 99, 99.9, 100)
_NAMED = 12
"""Names of schemas that are listed at most."""
_REASONS = 8
"""Reasons of refusals that are listed at most."""

Count = tuple[str, Callable[[Summary], int]]

COUNTS: tuple[Count, ...] = (
    ("schemas", lambda one: one.schemas),
    ("compiled", lambda one: len(one.compiled)),
    ("passing: all instances judged rightly", lambda one: one.passing),
    ("refused", lambda one: one.refusals.total()),
    (TIMED_OUT, lambda one: len(one.ended[TIMED_OUT])),
    (NO_MEMORY, lambda one: len(one.ended[NO_MEMORY])),
    (CRASHED, lambda one: len(one.ended[CRASHED])),
    ("schemas with a valid instance rejected", lambda one: one.rejecting),
    ("schemas with an invalid instance accepted", lambda one: one.accepting),
    ("instances", lambda one: one.instances),
    ("valid ones rejected", lambda one: one.rejected),
    ("invalid ones accepted", lambda one: one.accepted),
    ("instances that end in an error", lambda one: one.failed),
    ("masks", lambda one: len(one.masks)),
    ("memory of the process at most, MiB", lambda one: one.peak >> 20),
)
TIMES = (
    ("time to first mask, ms", "first", 1e6),
    ("compile, ms", "compiling", 1e6),
    ("mask, µs", "masks", 1e3),
)
OF_GROUPS = ("schemas", "compiled", "passing", "valid rejected", "invalid accepted")


class Selection(NamedTuple):
    """What an engine was given of a collection.

    names  of the schemas; the file may have results of more
    """

    file: Path
    version: str
    names: Collection[str]


def report(name: str, selections: Mapping[str, Selection], conditions: str) -> str:
    """Markdown of a collection: engine by engine in columns, and what each refuses.

    Where engines were given samples of different sizes, there is a table for each size, of all engines that
    were given as many schemas. A collection of groups, as the official suite, has a line for each group.
    """
    versions = ", ".join(f"{engine} {selection.version}" for engine, selection in selections.items())
    parts = [f"### {name}", f"{conditions} {versions}."]
    sizes = sorted({len(selection.names) for selection in selections.values()}, reverse=True)
    for size in sizes:
        names = next(selection.names for selection in selections.values() if len(selection.names) == size)
        results = {
            engine: [result for result in read_results(selection.file) if result["name"] in names]
            for engine, selection in selections.items()
            if len(selection.names) >= size
        }
        explained = [engine for engine in results if len(selections[engine].names) == size]
        parts += [f"{size:,} schemas:"] if len(sizes) > 1 else []
        parts.append(_part(results, explained))
    return "\n\n".join(parts)


def _part(results: Mapping[str, Sequence[Result]], explained: Iterable[str]) -> str:
    """The tables of some schemas, and why engines refuse theirs where no larger table says so."""
    by_engine = {engine: Summary(ones) for engine, ones in results.items()}
    groups = list(dict.fromkeys(result["group"] for ones in results.values() for result in ones))
    reasons = [sentence for engine in explained for sentence in _reasons(engine, by_engine[engine])]
    if len(groups) > 1:
        return "\n\n".join([_by_group(results, sorted(groups)), *reasons])
    parts = [_table(by_engine, COUNTS)]
    common = set[str].intersection(*(set(summary.compiled) for summary in by_engine.values()))
    if len(by_engine) > 1 and common:
        shared = {
            engine: Summary(result for result in ones if result["name"] in common)
            for engine, ones in results.items()
        }
        parts += ["Of those that all of them compile:", _table(shared, COUNTS[:1])]
    return "\n\n".join([*parts, *reasons])


def _table(by_engine: Mapping[str, Summary], counts: Iterable[Count]) -> str:
    every = list(by_engine.values())
    rows = [[label, *(f"{count(one):,}" for one in every)] for label, count in counts]
    return table(["", *by_engine], [*rows, *_times(every)])


def _times(every: Sequence[Summary]) -> Iterator[list[str]]:
    for label, name, unit in TIMES:
        times = [getattr(one, name) / unit for one in every]
        yield [f"{label}: average", *(_number(one.mean()) if len(one) else "–" for one in times)]
        for share in SHARES:
            words = "maximum" if share == 100 else f"p{share:g}"
            yield [words, *(_number(np.percentile(one, share)) if len(one) else "–" for one in times)]


def _by_group(results: Mapping[str, Sequence[Result]], groups: Iterable[str]) -> str:
    rows = []
    for group in groups:
        row = [group]
        for ones in results.values():
            one = Summary(result for result in ones if result["group"] == group)
            counts = (one.schemas, len(one.compiled), one.passing, one.rejected, one.accepted)
            row += [f"{count:,}" for count in (counts if len(row) == 1 else counts[1:])]
        rows.append(row)
    first, *others = results
    heads = ["", *OF_GROUPS]
    heads[2] = f"{first}: {heads[2]}"
    for engine in others:
        heads += [f"{engine}: {OF_GROUPS[1]}", *OF_GROUPS[2:]]
    return table(heads, rows)


def _reasons(engine: str, summary: Summary) -> Iterable[str]:
    """What an engine refuses, by reason, and at which schemas its process ended."""
    if summary.refusals:
        rows = [[reason, f"{count:,}"] for reason, count in summary.refusals.most_common(_REASONS)]
        yield f"**{engine}** refuses {summary.refusals.total():,}, most often for:"
        yield table(["reason", "schemas"], rows)
    else:
        yield f"**{engine}** refuses nothing."
    for kind, names in summary.ended.items():
        if names:
            listed = ", ".join(names[:_NAMED]) + (" and others" if len(names) > _NAMED else "")
            yield f"**{engine}**, {kind}, {len(names):,}: {listed}."


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
