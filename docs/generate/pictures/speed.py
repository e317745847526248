"""The figure of speed: the time of one token, from the table in docs/benchmarks/samplers.md."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from ..svg import FAINT, ORANGE, PURPLE, TEAL, Drawing

RESULTS = Path(__file__).resolve().parents[3] / "docs" / "benchmarks" / "samplers.md"
SIDES = {"native": ORANGE, "llama.cpp": TEAL, "transformers": PURPLE}
NAMES = {"native": "engine-sampler"}

MARGIN, TOP, FOOT = 6.0, 34.0, 26.0


@dataclass(frozen=True)
class Layout:
    """Where things are: the axis from `left` to `right`, lines and columns of ratios so far apart."""

    width: float
    left: float
    right: float
    line: float
    column: float
    ratios: str


WIDE = Layout(720.0, 190.0, 560.0, 24.0, 62.0, "times faster than")
NARROW = Layout(360.0, MARGIN + 4, 252.0, 36.0, 48.0, "faster than")
DECADES = (3.0, 30_000.0)
"""The range of the axis, in microseconds."""


def draw(layout: Layout = WIDE) -> str:
    """The figure, as SVG."""
    rows = sorted(results().items(), key=lambda item: item[1]["native"])
    bottom = TOP + layout.line * len(rows)
    picture = Drawing(layout.width, bottom + FOOT, "Microseconds from logits to a token")
    for time, label in ((10, "10 µs"), (100, "100 µs"), (1000, "1 ms"), (10_000, "10 ms")):
        x = _x(layout, time)
        picture.line(x, TOP - 6, x, bottom, dashed=True)
        picture.text(x, TOP - 12, label, 10.5, anchor="middle")
    picture.text(layout.right + 24, TOP - 12, layout.ratios, 10.5)
    for number, (name, times) in enumerate(rows):
        _line(picture, layout, TOP + layout.line * (number + 0.5), name, times)
    x = layout.left
    for side, colour in SIDES.items():
        picture.dot(x, bottom + 16, 5, colour)
        picture.text(x + 10, bottom + 20, NAMES.get(side, side), 11)
        x += 46 + 7 * len(NAMES.get(side, side))
    return picture.svg()


def results() -> dict[str, dict[str, float]]:
    """Microseconds by settings and side, and our ratio to each side as "than llama.cpp", from the first table
    under "One row, microseconds"."""
    text = (
        RESULTS.read_text(encoding="utf-8").split("### One row, microseconds", 1)[1].strip().split("\n\n")[0]
    )
    heading, _, *lines = (_cells(line) for line in text.splitlines())
    columns = (*SIDES, *(f"than {side}" for side in SIDES if side != "native"))
    return {line[0]: {c: x for c in columns if (x := _number(line[heading.index(c)]))} for line in lines}


def _line(picture: Drawing, layout: Layout, y: float, name: str, times: dict[str, float]) -> None:
    if layout is NARROW:
        picture.text(MARGIN, y - 6, name, 11.5)
        y += 8
    else:
        picture.text(layout.left - 12, y + 4, name, 11.5, anchor="end")
    shown = {side: times[side] for side in SIDES if side in times}
    picture.line(_x(layout, min(shown.values())), y, _x(layout, max(shown.values())), y, FAINT, width=2)
    for side, time in reversed(shown.items()):
        picture.dot(_x(layout, time), y, 5, SIDES[side])
    for column, side in enumerate(list(SIDES)[1:]):
        if gain := times.get(f"than {side}"):
            x = layout.right + 24 + layout.column * column
            picture.text(x, y + 4, f"{gain:,.0f}×", 11.5, SIDES[side])


def _x(layout: Layout, time: float) -> float:
    low, high = map(math.log10, DECADES)
    return layout.left + (layout.right - layout.left) * (math.log10(time) - low) / (high - low)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("| ").split("|")]


def _number(text: str) -> float | None:
    digits = re.sub(r"[^\d.]", "", text)
    return float(digits) if digits else None
