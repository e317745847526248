"""Readers of a call's arguments: each follows one way to write them, and gives them as JSON text.

A reader is fed a text that is still growing, and takes from it what is certain.
"""

from collections.abc import Collection

from ...grammar.structural_tag.elements import NOTATIONS
from ...grammar.structural_tag.parameters import STYLES
from ..alphabet import MarkerAlphabet
from .dialects import KEYWORDS, DialectReader, gemma_dialect
from .elements import ElementsReader, marks_of_elements
from .json_text import JSON_BEGINS, CertainJson, JsonReader, completion
from .parameters import ParametersReader, marks_of_parameters
from .reader import ArgumentsReader, ReaderMaker, skip_space
from .text import TextReader

__all__ = [
    "ArgumentsReader",
    "CertainJson",
    "JsonReader",
    "ReaderMaker",
    "TextReader",
    "argument_begins",
    "completion",
    "reader_maker",
    "reads_types",
    "skip_space",
]


def reads_types(style: str) -> bool:
    """Whether values in a style are read by their schemas."""
    return style != "json"


def _quote_of(style: str) -> str:
    """What surrounds the strings of a style that is much like JSON."""
    return NOTATIONS[style].quote if style in NOTATIONS else ""


def argument_begins(style: str, alphabet: MarkerAlphabet, end: str) -> Collection[str]:
    """With what the arguments of a call begin in a style, or its end where there are none: texts of which one
    must follow what precedes them. Nothing if that can be anything."""
    if style == "json":
        return JSON_BEGINS
    if style == "pythonic":
        return ()
    if _quote_of(style):
        return "{"
    mark = STYLES[style].before if style in STYLES else NOTATIONS[style].member
    return "{" + alphabet.encode(mark)[0] + (alphabet.encode(end.lstrip())[:1] or "<")


def reader_maker(style: str, alphabet: MarkerAlphabet) -> ReaderMaker:
    """What makes readers of arguments in a style of the structural tag's json_schema."""
    if style == "json":
        return lambda view: JsonReader("{")
    quote = _quote_of(style)
    if quote or style == "pythonic":
        dialect = gemma_dialect(quote, alphabet) if quote else KEYWORDS
        return lambda view: DialectReader(dialect, view)
    if style in STYLES:
        parameters = marks_of_parameters(STYLES[style], alphabet)
        return lambda view: ParametersReader(parameters, view)
    elements = marks_of_elements(NOTATIONS[style], alphabet)
    return lambda view: ElementsReader(elements, view)
