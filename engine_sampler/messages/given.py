"""What the arguments of a parser name: its automaton, and what tools and marks there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from ..base.arguments import not_allowed
from ..contract import ParameterError
from ..grammar.bodies.tools.requests import functions_of
from ..params.families import THINK, TOOL_FAMILIES
from ..params.families.templates import family_named
from .alphabet import MarkerAlphabet
from .definition import AnswerDefinition, CallReading, family_definition, thinking_definition
from .reading import MessageAutomaton, SharedAutomata
from .schemas import CUSTOM_INPUT
from .tags import tag_definition
from .templates import MAX_MARK

_Given: TypeAlias = tuple[Any, Any, Any, str, Any, Any, Any]
"""What `_definition` takes, but for the alphabet."""


def automaton_of(
    alphabet: MarkerAlphabet,
    stops: Sequence[str],
    switches: tuple[bool, bool, bool, bool | None, bool],
    arguments: _Given,
) -> MessageAutomaton:
    """The automaton of a parser with these arguments, shared by those for which all of it is the same."""

    def make(copies: _Given) -> MessageAutomaton:
        includes_stop, drops, only_known, end_thoughts, is_separate = switches
        family = TOOL_FAMILIES.get(copies[0] or "")
        definition = _definition(*copies, only_known, alphabet)
        if end_thoughts or (end_thoughts is None and family is not None and family.calls_end_thoughts):
            definition = definition.interrupted()
        definition = replace(
            definition,
            includes_stop=includes_stop,
            drops_malformed=drops,
            after_thinking=definition.after_thinking if is_separate else "",
        )
        return MessageAutomaton(definition.stopping_at(stops), alphabet)

    options = (alphabet.skips, switches, tuple(stops))
    return SharedAutomata.of(alphabet.tokenizer).find(options, arguments, make)


def _definition(
    family: str | None,
    tools: Sequence[Mapping[str, Any]] | None,
    tool_choice: Any,
    reasoning: str,
    starts_inside: bool | None,
    structural_tag: Mapping[str, Any] | str | None,
    marks: tuple[str, str] | None,
    only_known: bool,
    alphabet: MarkerAlphabet,
) -> AnswerDefinition:
    """The definition of the answers that a parser with some arguments reads."""
    schemas = None if tools is None else _schemas(tools)
    if family is not None:
        family = family_named("family", family)
        if structural_tag is not None or marks is not None:
            raise ParameterError("family is not allowed beside structural_tag or reasoning_marks")
        entry = TOOL_FAMILIES[family]
        opens = reasoning == "enabled" and entry.starts_inside and entry.thinking is not None
        calls = CallReading(schemas, bool(schemas) if tool_choice == "none" else schemas != {}, only_known)
        inside = opens if starts_inside is None else starts_inside
        return family_definition(entry, calls, reasoning, inside, alphabet)
    if marks is not None and (
        not isinstance(marks, tuple | list)
        or len(marks) != 2
        or not all(isinstance(one, str) and 0 < len(one) <= MAX_MARK for one in marks)
    ):
        allowed = f"what begins thoughts, and what ends them, two strings of up to {MAX_MARK:,} characters"
        raise not_allowed("reasoning_marks", marks, allowed)
    if reasoning == "disabled":
        marks = None
    inside = bool(starts_inside) if starts_inside is not None else reasoning == "enabled"
    if structural_tag is not None:
        return tag_definition(structural_tag, schemas, marks, inside, alphabet)
    if marks is None:
        return AnswerDefinition()
    return thinking_definition(marks[0], marks[1], inside, alphabet)


def _schemas(tools: Any) -> dict[str, Any]:
    return {
        name: CUSTOM_INPUT if one.get("type") == "custom" else one.get("parameters", True)
        for name, one in functions_of(tools).items()
    }


def custom_tools(tools: Iterable[Any] | None) -> frozenset[str]:
    """The names of the custom tools."""
    customs = [one for one in tools or () if isinstance(one, Mapping) and one.get("type") == "custom"]
    return frozenset(functions_of(customs))


def thinking_marks(family: str | None, marks: tuple[str, str] | None) -> tuple[str, str]:
    """The marks between which thoughts stay in the content."""
    return marks or (TOOL_FAMILIES[family].thinking if family in TOOL_FAMILIES else None) or THINK
