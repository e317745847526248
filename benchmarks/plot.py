"""The picture: microseconds for one row for each settings, ours and the peers', on one line each."""

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
"""Where the columns of ratios stand, in widths of the axes."""


def draw(results: Results, path: Path) -> None:
    """Draw the main vocabulary with one row to the SVG file `path`."""
    with matplotlib.rc_context(SETTINGS):
        picture(results).savefig(path, facecolor=PAPER, metadata={"Date": None})


def picture(results: Results) -> Figure:
    """The same as a matplotlib figure."""
    ours = {case: value for case in CASES if (value := results.per_row(RUN, Shape(case)))}
    cases = sorted(ours, key=ours.__getitem__)
    figure = Figure(figsize=(10.4, 1.75 + 0.42 * len(cases)))
    axes = figure.add_axes((0.235, 0.13, 0.56, 0.68))
    _frame(axes, cases)
    _floor(axes, results)
    for place, case in enumerate(cases):
        _case(axes, results, place, case)
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
        floor = 1e6 * entry.beside["pass"]
        axes.axvspan(axes.get_xlim()[0], floor, color=FAINT, linewidth=0)
        where = {"xy": (floor, 1), "xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        axes.annotate(
            "reading the\nlogits once", **where, xytext=(0, 4), ha="center", fontsize=8.5, color=MUTED
        )


def _case(axes: Axes, results: Results, place: int, case: str) -> None:
    found = {who: value for who in MARKS if (value := results.per_row(who, Shape(case)))}
    ours, fastest, slowest = found[RUN], min(found.values()), max(found.values())
    axes.plot([fastest, slowest], [place, place], color=LINE, linewidth=2.2, zorder=1)
    for who, value in found.items():
        shape, colour, size = MARKS[who]
        axes.scatter([value], [place], size, colour, shape, zorder=3 if who == RUN else 2, linewidths=0)
    _number(axes, place, ours, leftmost=ours == fastest)
    for who, at in GAINS.items():
        if gain := results.times(who, Shape(case), "ours"):
            text = f"{gain:.2g}×" if gain < 10 else f"{gain:.0f}×"
            style = {"color": MARKS[who][1] if gain >= 1 else MUTED, "fontsize": 10.5, "va": "center"}
            axes.text(at, place, text, transform=axes.get_yaxis_transform(), **style)


def _number(axes: Axes, place: int, value: float, *, leftmost: bool) -> None:
    """Our number, on the left of its mark, or above it where a line leads on."""
    at = {"xytext": (-9, 0), "ha": "right"} if leftmost else {"xytext": (0, 12), "ha": "center"}
    style = {"textcoords": "offset points", "va": "center", "fontsize": 9, "color": MARKS[RUN][1]}
    axes.annotate(f"{value:.1f}" if value < 10 else f"{value:,.0f}", (value, place), **at, **style)


def _title(figure: Figure, axes: Axes) -> None:
    title = "One token: microseconds from logits to token"
    figure.text(0.02, 0.955, title, fontsize=14, weight="bold", color=INK, va="top")
    subtitle = f"Vocabulary {MAIN:,}, one request, one core; further left is faster."
    figure.text(0.02, 0.9, subtitle, fontsize=10, color=MUTED, va="top")
    heading = {"transform": axes.transAxes, "fontsize": 8.5, "va": "bottom"}
    axes.text(GAINS[FILLED], 1.06, "times faster than", color=MUTED, **heading)
    for who, at in GAINS.items():
        axes.text(at, 1.015, NAMES[who].split(" ")[0], color=MARKS[who][1], **heading)
    figure.legend(
        handles=[axes.scatter([], [], size, colour, shape, label=NAMES[who])
                 for who, (shape, colour, size) in MARKS.items()],
        loc="lower left", bbox_to_anchor=(0.12, 0.005), ncols=4, frameon=False,
        fontsize=10, labelcolor=INK, handletextpad=0.3, columnspacing=2,
    )  # fmt: skip
