"""The effect of each step of a chain on one row: as data (`trace`), in the terminal, and as a picture; the parts
that a chain may have (`chain_parts`); and what a grammar allows (`explain_mask`)."""

from typing import TYPE_CHECKING

from ..base.cached import lazy_names
from .parts import ChainPart, chain_parts
from .tracing import TopToken, TraceStep, notable_tokens, probabilities, trace

if TYPE_CHECKING:
    from .mask_lines import mask_lines
    from .masks import MaskExplanation, explain_mask
    from .plots import picture

__all__ = [
    "ChainPart",
    "MaskExplanation",
    "TopToken",
    "TraceStep",
    "chain_parts",
    "explain_mask",
    "mask_lines",
    "notable_tokens",
    "picture",
    "probabilities",
    "trace",
]

# What loads grammars, and matplotlib.
__getattr__ = lazy_names(
    __name__,
    {".masks": "MaskExplanation explain_mask", ".mask_lines": "mask_lines", ".plots": "picture"},
)
