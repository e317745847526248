"""The effect of each step of a chain on one row: as data (`trace`), in sentences (`TraceReading`), in the
terminal, and as a picture (`plot`).

Beside that, the parts that a chain may have (`chain_parts`), settings in the words of other systems
(`exports`), and what a grammar allows (`explain_mask`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..base.cached import lazy_names
from .files import read_rows
from .html import draw_html, row_html
from .parts import ChainPart, chain_parts
from .reading import Cut, Draw, TraceReading
from .systems import Export, exports
from .tracing import TopToken, TraceStep, notable_tokens, probabilities, trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .mask_text import mask_lines
    from .masks import MaskExplanation, explain_mask

__all__ = [
    "ChainPart",
    "Cut",
    "Draw",
    "Export",
    "MaskExplanation",
    "TopToken",
    "TraceReading",
    "TraceStep",
    "chain_parts",
    "draw_html",
    "explain_mask",
    "exports",
    "mask_lines",
    "notable_tokens",
    "plot",
    "probabilities",
    "read_rows",
    "row_html",
    "trace",
]

__getattr__ = lazy_names(  # what loads grammars
    __name__, {".masks": "MaskExplanation explain_mask", ".mask_text": "mask_lines"}
)


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
