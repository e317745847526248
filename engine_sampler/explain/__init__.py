"""The effect of each step of a chain on one row: as data (`trace`), in sentences (`TraceReading`), in the
terminal, and as a picture.

Beside that, the parts that a chain may have (`chain_parts`), settings in the words of other systems
(`exports`), and what a grammar allows (`explain_mask`)."""

from typing import TYPE_CHECKING

from ..base.cached import lazy_names
from .files import read_rows
from .html import draw_html, row_html
from .parts import ChainPart, chain_parts
from .reading import Cut, Draw, TraceReading
from .systems import Export, exports
from .tracing import TopToken, TraceStep, notable_tokens, probabilities, trace

if TYPE_CHECKING:
    from .mask_text import mask_lines
    from .masks import MaskExplanation, explain_mask
    from .plots import picture

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
    "picture",
    "probabilities",
    "read_rows",
    "row_html",
    "trace",
]

# What loads grammars, and matplotlib.
__getattr__ = lazy_names(
    __name__,
    {".masks": "MaskExplanation explain_mask", ".mask_text": "mask_lines", ".plots": "picture"},
)
