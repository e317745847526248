"""The effect of each step of a chain on one row: as data (`trace`), for one token (`why_not`), in the
terminal, and as a picture (`plot`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .fates import TokenFate, why_not
from .tracing import TopToken, TraceStep, notable_tokens, probabilities, trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "TokenFate",
    "TopToken",
    "TraceStep",
    "notable_tokens",
    "plot",
    "probabilities",
    "trace",
    "why_not",
]


def plot(
    steps: Sequence[TraceStep], path: str | Path | None = None, *, title: str = "", top: int = 12
) -> Figure:
    """The steps of a `trace` as a matplotlib figure, one panel for each.

    path   a file to write it to as well, PNG or SVG by its suffix.
    title  what stands above it.
    top    how many tokens are followed; all others share one row.

        plot(trace(row, SamplingParams(top_k=40, min_p=0.05)), "steps.png")

    Needs matplotlib. Raises ValueError for another suffix, OSError if the file cannot be written.
    """
    from .plots import draw, picture

    return picture(steps, title=title, top=top) if path is None else draw(steps, path, title=title, top=top)
