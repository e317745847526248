"""The costs of samplers as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from ..render import precise, table, times
from .cases import CASES, ROWS, Cost

Costs = Mapping[str, Mapping[tuple[str, int], Cost]]
"""Engine → (case, rows) → what a step costs."""

SHOWN_ROWS = 64
FORWARD = 0.02
"""Seconds of the forward pass that shares are shown of."""


def report(costs: Costs) -> str:
    """A table for each engine, the shares of a step, and how much the rounds differ."""
    parts = [part for engine, found in costs.items() for part in (f"### Beside {engine}", _table(found))]
    spreads = [cost.spread for found in costs.values() for cost in found.values()]
    noise = (
        f"The interquartile range of our rounds is {median(spreads):.0%} of the median in the middle of the "
        f"{len(spreads)} numbers, and {max(spreads):.0%} in the worst case."
    )
    share = f"### Share of a step, {SHOWN_ROWS} rows beside a forward pass of {1e3 * FORWARD:.0f} ms"
    return "\n\n".join([*parts, share, _shares(costs), noise])


def _table(found: Mapping[tuple[str, int], Cost]) -> str:
    measured = [n for n in ROWS if any(rows == n for _, rows in found)]
    heads = [head for n in measured for head in (f"{n} row{'s' * (n > 1)}: its own", "ours", "faster")]
    rows = [[case, *(cell for n in measured for cell in _cells(found.get((case, n))))] for case in CASES]
    return table(["milliseconds per step", *heads], rows)


def _cells(cost: Cost | None) -> list[str]:
    if cost is None:
        return ["–"] * 3
    if cost.own is None:
        return ["–", precise(1e3 * cost.ours), "–"]
    return [precise(1e3 * cost.own), precise(1e3 * cost.ours), times(cost.own / cost.ours)]


def _shares(costs: Costs) -> str:
    heads = [head for engine in costs for head in (f"{engine}'s", "ours")]
    rows = []
    for case in CASES:
        found = [costs[engine].get((case, SHOWN_ROWS)) for engine in costs]
        rows.append([case, *(cell for cost in found for cell in _share_cells(cost))])
    return table(["settings", *heads], rows)


def _share_cells(cost: Cost | None) -> list[str]:
    seconds = (None, None) if cost is None else (cost.own, cost.ours)
    return ["–" if taken is None else f"{taken / (taken + FORWARD):.0%}" for taken in seconds]
