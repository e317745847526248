"""Readers of a call's arguments: each follows one way to write them, and gives them as JSON text.

A reader is fed a text that is still growing, and takes from it what is certain.
"""

from ...grammar.structural_tag.elements import NOTATIONS
from ...grammar.structural_tag.parameters import STYLES
from ..alphabet import MarkerAlphabet
from .dialects import KEYWORDS, DialectReader, gemma_dialect
from .elements import ElementsReader, marks_of_elements
from .json_text import JsonReader
from .parameters import ParametersReader, marks_of_parameters
from .reader import ArgumentsReader, ReaderMaker, skip_space

__all__ = ["ArgumentsReader", "ReaderMaker", "reader_maker", "reads_types", "skip_space"]


def reads_types(style: str) -> bool:
    """Whether values in a style are read by their schemas."""
    return style != "json"


def reader_maker(style: str, alphabet: MarkerAlphabet) -> ReaderMaker:
    """What makes readers of arguments in a style of the structural tag's json_schema."""
    if style == "json":
        return lambda view: JsonReader("{")
    if style in ("pythonic", "gemma"):
        dialect = KEYWORDS if style == "pythonic" else gemma_dialect(alphabet)
        return lambda view: DialectReader(dialect, view)
    if style in STYLES:
        parameters = marks_of_parameters(STYLES[style], alphabet)
        return lambda view: ParametersReader(parameters, view)
    elements = marks_of_elements(NOTATIONS[style], alphabet)
    return lambda view: ElementsReader(elements, view)
