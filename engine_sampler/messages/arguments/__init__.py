"""Readers of a call's arguments: each follows one way to write them, and gives them as JSON text.

A reader is fed a text that is still growing, and takes from it what is certain.
"""

from ...grammar.structural_tag.elements import NOTATIONS
from ...grammar.structural_tag.parameters import STYLES
from ..alphabet import MarkerAlphabet
from .dialects import DialectReader, gemma_dialect, python_dialect
from .elements import ElementsReader, marks_of_elements
from .json_text import JsonReader
from .parameters import ParametersReader, marks_of_parameters
from .reader import ArgumentsReader, ReaderMaker, skip_space
from .text import TextReader

__all__ = ["ArgumentsReader", "ReaderMaker", "TextReader", "reader_maker", "reads_types", "skip_space"]


def reads_types(style: str) -> bool:
    """Whether the types of values in a style depend on their schemas."""
    return style not in ("json", "pythonic", "gemma")


def reader_maker(style: str, alphabet: MarkerAlphabet, before: str) -> ReaderMaker:
    """What makes readers of arguments in a style of the structural tag's json_schema.

    before  what precedes the arguments: with a line break at its end, each value of Qwen's parameters stands
            in lines of its own
    """
    if style == "json":
        return lambda view: JsonReader("{")
    if style == "pythonic":
        dialect = python_dialect()
        return lambda view: DialectReader(dialect)
    if style == "gemma":
        dialect = gemma_dialect(alphabet)
        return lambda view: DialectReader(dialect)
    if style in STYLES:
        parameters = marks_of_parameters(
            STYLES[style], alphabet, style == "qwen_xml" and before.endswith("\n")
        )
        return lambda view: ParametersReader(parameters, view)
    elements = marks_of_elements(NOTATIONS[style], alphabet)
    return lambda view: ElementsReader(elements, view)
