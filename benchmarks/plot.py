"""The plot: microseconds per row for each case, ours and the peers', on one line per case."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .cases import CASES, MAIN, Shape
from .results import FILLED, FLOOR, NUMPY_RUN, RUN, TRANSFORMERS, Results

INK, MUTED, LINE, FAINT, PAPER = "#1f2933", "#7b8794", "#cbd2d9", "#e4e7eb", "#ffffff"
MARKS = {
    RUN: ("o", "#e8590c", 95),
    NUMPY_RUN: ("o", "#f4a261", 45),
    FILLED: ("D", "#0c8599", 48),
    TRANSFORMERS: ("s", "#7048e8", 52),
}
NAMES = {
    RUN: "engine-sampler",
    NUMPY_RUN: "its NumPy backend",
    FILLED: "llama.cpp (C++)",
    TRANSFORMERS: "transformers",
}
SETTINGS = {"svg.fonttype": "path", "svg.hashsalt": "speed", "font.family": "DejaVu Sans"}
GAINS = {FILLED: 1.05, TRANSFORMERS: 1.175}
"""Positions of the columns of ratios, in widths of the axes."""


def draw(results: Results, path: Path) -> None:
    """Draw one row of the main vocabulary size to the SVG file `path`."""
    with matplotlib.rc_context(SETTINGS):
        picture(results).savefig(path, facecolor=PAPER, metadata={"Date": None})


def picture(results: Results) -> Figure:
    """The plot as a matplotlib figure."""
    ours = {case: value for case in CASES if (value := results.per_row(RUN, Shape(case)))}
    cases = sorted(ours, key=ours.__getitem__)
    figure = Figure(figsize=(10.4, 1.75 + 0.42 * len(cases)))
    axes = figure.add_axes((0.235, 0.13, 0.56, 0.68))
    _frame(axes, cases)
    _floor(axes, results)
    for line, case in enumerate(cases):
        _case(axes, results, line, case)
    _title(figure, axes)
    return figure


def _frame(axes: Axes, cases: list[str]) -> None:
    axes.set(xscale="log", xlim=(3, 30_000), ylim=(len(cases) - 0.4, -0.6))
    axes.set_yticks(range(len(cases)), cases, color=INK, fontsize=10.5)
    ticks = (10, 100, 1_000, 10_000)
    axes.set_xticks(ticks, ["10 µs", "100 µs", "1 ms", "10 ms"], color=MUTED, fontsize=9.5)
    axes.minorticks_off()
    axes.tick_params(length=0)
    axes.grid(axis="x", color=FAINT, linewidth=1)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)


def _floor(axes: Axes, results: Results) -> None:
    if entry := results.find(FLOOR, Shape("floor")):
        floor = 1e6 * entry.yardsticks["pass"]
        axes.axvspan(axes.get_xlim()[0], floor, color=FAINT, linewidth=0)
        position = {"xy": (floor, 1), "xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        axes.annotate(
            "reading the\nlogits once", **position, xytext=(0, 4), ha="center", fontsize=8.5, color=MUTED
        )


def _case(axes: Axes, results: Results, line: int, case: str) -> None:
    found = {series: value for series in MARKS if (value := results.per_row(series, Shape(case)))}
    ours, fastest, slowest = found[RUN], min(found.values()), max(found.values())
    axes.plot([fastest, slowest], [line, line], color=LINE, linewidth=2.2, zorder=1)
    for series, value in found.items():
        shape, colour, size = MARKS[series]
        axes.scatter([value], [line], size, colour, shape, zorder=3 if series == RUN else 2, linewidths=0)
    _number(axes, line, ours, leftmost=ours == fastest)
    for series, at in GAINS.items():
        if gain := results.times(series, Shape(case), "ours"):
            text = f"{gain:.2g}×" if gain < 10 else f"{gain:.0f}×"
            style = {"color": MARKS[series][1] if gain >= 1 else MUTED, "fontsize": 10.5, "va": "center"}
            axes.text(at, line, text, transform=axes.get_yaxis_transform(), **style)


def _number(axes: Axes, line: int, value: float, *, leftmost: bool) -> None:
    """Our number, left of its mark, or above it if the line continues to the left."""
    at = {"xytext": (-9, 0), "ha": "right"} if leftmost else {"xytext": (0, 12), "ha": "center"}
    style = {"textcoords": "offset points", "va": "center", "fontsize": 9, "color": MARKS[RUN][1]}
    axes.annotate(f"{value:.1f}" if value < 10 else f"{value:,.0f}", (value, line), **at, **style)


def _title(figure: Figure, axes: Axes) -> None:
    title = "One token: microseconds from logits to token"
    figure.text(0.02, 0.955, title, fontsize=14, weight="bold", color=INK, va="top")
    subtitle = f"Vocabulary {MAIN:,}, one request, one core; further left is faster."
    figure.text(0.02, 0.9, subtitle, fontsize=10, color=MUTED, va="top")
    heading = {"transform": axes.transAxes, "fontsize": 8.5, "va": "bottom"}
    axes.text(GAINS[FILLED], 1.06, "times faster than", color=MUTED, **heading)
    for series, at in GAINS.items():
        axes.text(at, 1.015, NAMES[series].split(" ")[0], color=MARKS[series][1], **heading)
    figure.legend(
        handles=[axes.scatter([], [], size, colour, shape, label=NAMES[series])
                 for series, (shape, colour, size) in MARKS.items()],
        loc="lower left", bbox_to_anchor=(0.12, 0.005), ncols=4, frameon=False,
        fontsize=10, labelcolor=INK, handletextpad=0.3, columnspacing=2,
    )  # fmt: skip
