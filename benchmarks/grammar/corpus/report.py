"""The results of all engines as tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

Result = Mapping[str, Any]

_KEYWORD = re.compile(r"UnsupportedKeywordError: (\$?\w+)")
_PLACE = re.compile(r" \((?:#|line )[^()]*\)?$")
_LIMIT = re.compile(r"\d[\d,.]*")
SHARES = (50, 99, 99.9)


class Summary:
    """What the results of one engine on one collection come to.

    passing   schemas that it compiles, and all whose instances it judges rightly
    times are in nanoseconds
    """

    def __init__(self, results: Iterable[Result]) -> None:
        self.schemas = self.compiled = self.passing = self.rejecting = self.accepting = 0
        self.rejected = self.accepted = self.instances = self.failed = 0
        self.refusals: Counter[str] = Counter()
        self.peak = 0
        first: list[int] = []
        compiling: list[int] = []
        masks: list[np.ndarray[Any, Any]] = []
        for one in results:
            self.schemas += 1
            self.instances += len(one["expected"])
            if "error" in one:
                self.refusals[reason(one["error"])] += 1
                continue
            self.compiled += 1
            first.append(one["first"])
            compiling.append(one["compile"])
            masks.append(np.asarray(one["masks"], np.int64))
            self.peak = max(self.peak, one["peak"])
            self._judge(one["expected"], one["verdicts"])
        self.first, self.compiling = np.asarray(first), np.asarray(compiling)
        self.masks = np.concatenate(masks) if masks else np.zeros(0, np.int64)

    def _judge(self, expected: Sequence[bool], verdicts: Sequence[Any]) -> None:
        rejected = sum(valid and verdict is False for valid, verdict in zip(expected, verdicts, strict=True))
        accepted = sum(
            not valid and verdict is True for valid, verdict in zip(expected, verdicts, strict=True)
        )
        failed = sum(isinstance(verdict, str) for verdict in verdicts)
        self.rejected, self.accepted, self.failed = (
            self.rejected + rejected,
            self.accepted + accepted,
            self.failed + failed,
        )
        self.rejecting += rejected > 0
        self.accepting += accepted > 0
        self.passing += not rejected and not accepted and not failed


def reason(error: str) -> str:
    """Why a schema is refused: the keyword that is not supported, or the message without its numbers and
    what it quotes."""
    found = _KEYWORD.match(error)
    if found is not None:
        return found[1]
    line = _LIMIT.sub("N", _PLACE.sub("", error.partition("\n")[0]))
    return re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "…", line)[:90].replace("|", "/")


def tables(summaries: Mapping[str, Mapping[str, Summary]]) -> str:
    """Markdown of all collections: engine by engine in columns, then what each refuses."""
    parts = []
    for name, by_engine in summaries.items():
        parts.append(f"### {name}\n\n{_numbers(by_engine)}")
        refusals = [f"**{engine}** refuses {_listed(one.refusals)}" for engine, one in by_engine.items()]
        parts.append("\n\n".join(refusals))
    return "\n\n".join(parts)


def _numbers(by_engine: Mapping[str, Summary]) -> str:
    rows: list[tuple[str, list[str]]] = []

    def add(label: str, values: Iterable[Any]) -> None:
        rows.append((label, [f"{value:,}" if isinstance(value, int) else str(value) for value in values]))

    every = list(by_engine.values())
    add("schemas", (one.schemas for one in every))
    add("compiled", (one.compiled for one in every))
    add("passing: all instances judged rightly", (one.passing for one in every))
    add("schemas with a valid instance rejected", (one.rejecting for one in every))
    add("schemas with an invalid instance accepted", (one.accepting for one in every))
    add("instances", (one.instances for one in every))
    add("valid ones rejected", (one.rejected for one in every))
    add("invalid ones accepted", (one.accepted for one in every))
    add("instances that end in an error", (one.failed for one in every))
    for label, name, unit in (
        ("time to first mask, ms", "first", 1e6),
        ("compile, ms", "compiling", 1e6),
        ("mask, µs", "masks", 1e3),
    ):
        add(f"{label}: average", (_average(getattr(one, name), unit) for one in every))
        for share in SHARES:
            add(f"p{share:g}", (_share(getattr(one, name), share, unit) for one in every))
        add("maximum", (_share(getattr(one, name), 100, unit) for one in every))
    add("masks", (len(one.masks) for one in every))
    add("memory of the process at most, MiB", (one.peak >> 20 for one in every))
    head = ["", *by_engine]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * len(by_engine)]
    lines += [f"| {label} | " + " | ".join(values) + " |" for label, values in rows]
    return "\n".join(lines)


def _listed(refusals: Counter[str]) -> str:
    if not refusals:
        return "nothing."
    total = sum(refusals.values())
    named = "; ".join(f"{reason} {count:,}" for reason, count in refusals.most_common(20))
    return f"{total:,}: {named}."


def _average(times: Any, unit: float) -> str:
    return _number(float(times.mean()) / unit) if len(times) else "–"


def _share(times: Any, share: float, unit: float) -> str:
    return _number(float(np.percentile(times, share)) / unit) if len(times) else "–"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
