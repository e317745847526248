"""The figure of speed: the time of one token, from the table in docs/benchmarks/samplers.md."""

from __future__ import annotations

import math
import re
from pathlib import Path

from ..svg import FAINT, ORANGE, PURPLE, TEAL, Drawing

RESULTS = Path(__file__).resolve().parents[3] / "docs" / "benchmarks" / "samplers.md"
SIDES = {"native": ORANGE, "llama.cpp": TEAL, "transformers": PURPLE}
NAMES = {"native": "engine-sampler"}

WIDTH, MARGIN, LABELS, LINE, TOP, FOOT = 720.0, 6.0, 190.0, 24.0, 34.0, 26.0
LEFT, RIGHT = LABELS, 560.0
DECADES = (3.0, 30_000.0)
"""The range of the axis, in microseconds."""


def draw() -> str:
    """The figure, as SVG."""
    rows = sorted(results().items(), key=lambda item: item[1]["native"])
    picture = Drawing(WIDTH, TOP + LINE * len(rows) + FOOT, "Microseconds from logits to a token")
    bottom = TOP + LINE * len(rows)
    for time, label in ((10, "10 µs"), (100, "100 µs"), (1000, "1 ms"), (10_000, "10 ms")):
        picture.line(_x(time), TOP - 6, _x(time), bottom, dashed=True)
        picture.text(_x(time), TOP - 12, label, 10.5, anchor="middle")
    picture.text(RIGHT + 24, TOP - 12, "times faster than", 10.5)
    for number, (name, times) in enumerate(rows):
        _line(picture, TOP + LINE * number + LINE / 2, name, times)
    x = LABELS
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


def _line(picture: Drawing, y: float, name: str, times: dict[str, float]) -> None:
    picture.text(LABELS - 12, y + 4, name, 11.5, anchor="end")
    shown = {side: times[side] for side in SIDES if side in times}
    picture.line(_x(min(shown.values())), y, _x(max(shown.values())), y, FAINT, width=2)
    for side, time in reversed(shown.items()):
        picture.dot(_x(time), y, 5, SIDES[side])
    for column, side in enumerate(list(SIDES)[1:]):
        if gain := times.get(f"than {side}"):
            picture.text(RIGHT + 24 + 62 * column, y + 4, f"{gain:,.0f}×", 11.5, SIDES[side])


def _x(time: float) -> float:
    low, high = map(math.log10, DECADES)
    return LEFT + (RIGHT - LEFT) * (math.log10(time) - low) / (high - low)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("| ").split("|")]


def _number(text: str) -> float | None:
    digits = re.sub(r"[^\d.]", "", text)
    return float(digits) if digits else None
