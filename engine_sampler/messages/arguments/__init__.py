"""Readers of a call's arguments: each follows one way to write them, and gives them as JSON text.

A reader is fed a text that is still growing, and takes from it what is certain.
"""

from collections.abc import Collection

from ...grammar.structural_tag.elements import NOTATIONS
from ...grammar.structural_tag.parameters import STYLES
from ..alphabet import MarkerAlphabet
from .dialects import DialectReader, gemma_dialect, python_dialect
from .elements import ElementsReader, marks_of_elements
from .json_text import JSON_BEGINS, JsonReader, completion
from .parameters import ParametersReader, marks_of_parameters
from .reader import ArgumentsReader, ReaderMaker, skip_space
from .text import TextReader

__all__ = [
    "ArgumentsReader",
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
    """Whether the types of values in a style depend on their schemas."""
    return style not in ("json", "pythonic", "gemma")


def argument_begins(style: str, alphabet: MarkerAlphabet, end: str) -> Collection[str]:
    """With what the arguments of a call begin in a style, or its end where there are none: texts of which one
    must follow what precedes them. Nothing if that can be anything."""
    if style == "json":
        return JSON_BEGINS
    if style == "pythonic":
        return ()
    if style == "gemma":
        return "{"
    mark = STYLES[style].before if style in STYLES else NOTATIONS[style].member
    return "{" + alphabet.encode(mark)[0] + (alphabet.encode(end.lstrip())[:1] or "<")


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
