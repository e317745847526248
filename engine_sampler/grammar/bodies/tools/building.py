"""Structural tags for calls of tools, put together from the entries of `params.families`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ....base.errors import quoted
from ....contract import ParameterError
from ....params.families import TOOL_FAMILIES, Family, Reasoning, check_reasoning
from .requests import Function, chosen_functions, json_schema_of

Format: TypeAlias = "dict[str, Any]"

_PLACEHOLDER = re.compile(r"(\{name\}|\{id\})")


def tool_calls(
    family: str,
    tools: Sequence[Mapping[str, Any]] | None,
    tool_choice: Any = "auto",
    *,
    parallel_tool_calls: bool = True,
    strict: bool | None = None,
    reasoning: Reasoning = "disabled",
    answer: Format | None = None,
) -> dict[str, Any]:
    """The structural tag of an answer of a model that may call tools.

    family       how the model writes calls: a name in `TOOL_FAMILIES`
    tools        functions in OpenAI's form or in Anthropic's; functions of Python, and classes such as
                 pydantic models (see `tool_of`); OpenAI's custom tools
    tool_choice  "auto": text with calls in it; "none": text without; "required": a call at once; a function,
                 `{"type": "function", "function": {"name": ...}}`: a call of it, and nothing else;
                 `{"type": "allowed_tools", ...}`: of some functions
    parallel_tool_calls  False: one call at most, after which the answer ends
    strict       True: the arguments follow the function's schema, and objects that name properties have no
                 others; False: they are any object; None: as the schema says, any if the function says
                 `"strict": false`
    reasoning    "enabled": thoughts come first, and the text begins within them where the chat template opens
                 them; "auto": thoughts, with both their marks, or none; "disabled": none, as in engines that
                 apply a grammar only after them
    answer       under "auto", a format of structural tags that the text has if it is not a call: it is either
                 this or calls then. None: text with calls in it

        Grammar.from_structural_tag(tool_calls("qwen_3", tools, "required"))

    Raises `ParameterError` for a family, tools or a choice that is not allowed.
    """
    if family not in TOOL_FAMILIES:
        raise ParameterError(f"family={quoted(family)} is not allowed: one of {', '.join(TOOL_FAMILIES)}")
    check_reasoning(reasoning)
    functions, choice = chosen_functions(tools, tool_choice, strict)
    asked = _Asked(TOOL_FAMILIES[family], functions, choice, parallel_tool_calls, reasoning, answer)
    return {"type": "structural_tag", "format": _LAYOUTS[asked.family.layout](asked)}


def formatted_answer(family: str, content: Format, reasoning: Reasoning) -> dict[str, Any]:
    """The structural tag of an answer that is of one format, after the thoughts of the family.

    family     a name in `TOOL_FAMILIES`
    content    a format of structural tags, without text around it
    reasoning  as in `tool_calls`

    Raises `ParameterError` for a family that is not one of them.
    """
    if family not in TOOL_FAMILIES:
        raise ParameterError(f"family={quoted(family)} is not allowed: one of {', '.join(TOOL_FAMILIES)}")
    asked = _Asked(TOOL_FAMILIES[family], (), "auto", True, reasoning)
    if asked.family.layout != "text":
        raise ParameterError(f"a response_format beside thoughts is not supported for family={family!r}")
    return {"type": "structural_tag", "format": _sequence([*_thoughts(asked), content])}


class _Asked(NamedTuple):
    """What one tag is built from; `choice` is "auto", "required" or "named", and `content` what an
    answer under "auto" is that is not a call, if it is not free."""

    family: Family
    functions: Sequence[Function]
    choice: str
    is_parallel: bool
    reasoning: str
    content: Format | None = None

    @property
    def excludes(self) -> list[str]:
        """What does not occur in free text."""
        marks = self.family.thinking or ()
        return list(dict.fromkeys((*marks, *self.family.excludes)))

    @property
    def ways(self) -> tuple[Family, ...]:
        """All ways in which the family writes calls."""
        return (self.family, *self.family.variants)

    @property
    def triggers(self) -> list[str]:
        """What can only be the beginning of a call in free text; none begins with another one."""
        texts = dict.fromkeys(way.trigger_text for way in self.ways)
        return [one for one in texts if not any(one != other and one.startswith(other) for other in texts)]

    @property
    def calls(self) -> list[Format]:
        """One call of each function, in each of the ways."""
        return [_call(way, function) for function in self.functions for way in self.ways]


# --- Free text with calls ---


def _text_with_calls(asked: _Asked) -> Format:
    return _sequence([*_thoughts(asked), _answer(asked)])


def _answer(asked: _Asked) -> Format:
    family, is_parallel = asked.family, asked.is_parallel
    if asked.content is not None and asked.choice == "auto":
        calls_alone = asked._replace(choice="required")
        return _either(_answer(calls_alone), asked.content) if asked.functions else asked.content
    if not asked.functions:
        return _text([*asked.excludes, *(one for one in asked.triggers if one[0] in "<[]")])
    if asked.choice == "auto":
        tags = asked.calls if family.section is None else [_section(way, asked) for way in asked.ways]
        return _triggered(asked, tags)
    space = [{"type": "regex", "pattern": family.before}] if family.before else []
    if family.section is not None:
        return _sequence([*space, _any_of([_section_at_once(way, asked) for way in asked.ways])])
    if asked.choice == "named":
        return _sequence([*space, _any_of(asked.calls)])
    if asked.triggers[0].startswith("{"):
        return _sequence([*space, _separated(asked.calls, "", is_parallel)])  # text would follow the braces
    return _sequence([*space, _triggered(asked, asked.calls)])


def _section(way: Family, asked: _Asked) -> Format:
    """The tag of all calls that are made at once."""
    begin, end = way.section or ("", "")
    calls = [_call(way, function) for function in asked.functions]
    return _tag(begin, _separated(calls, way.separator, asked.is_parallel), end)


def _section_at_once(way: Family, asked: _Asked) -> Format:
    """Such calls at the beginning of an answer."""
    begin, end = way.section or ("", "")
    calls = [_call(way, function) for function in asked.functions]
    inner = calls[0] if asked.choice == "named" else _separated(calls, way.separator, asked.is_parallel)
    return _sequence([_const(way.lead + begin), inner, _const(end)])


def _triggered(asked: _Asked, tags: list[Format]) -> Format:
    return {
        "type": "triggered_tags",
        "triggers": asked.triggers,
        "tags": tags,
        "excludes": asked.excludes,
        "at_least_one": asked.choice == "required",
        "stop_after_first": not asked.is_parallel,
    }


def _thoughts(asked: _Asked) -> list[Format]:
    family = asked.family
    if family.thinking is None or asked.reasoning == "disabled":
        return []
    begin, end = family.thinking
    is_inside = asked.reasoning == "enabled" and family.starts_inside
    excludes = [*asked.excludes, *(asked.triggers if family.excludes else [])]
    parts = [_tag("" if is_inside else begin, _text(excludes), end)]
    if family.after_thinking:
        parts.append(_const(family.after_thinking))
    thoughts = _sequence(parts)
    if asked.reasoning == "enabled":
        return [thoughts]
    if family.skipped:
        thoughts = {"type": "or", "elements": [thoughts, _const(family.skipped)]}
    return [{"type": "optional", "content": thoughts}]


def _call(family: Family, function: Function) -> Format:
    """The tag of one call."""
    begin, *parts = [part for part in _PLACEHOLDER.split(family.begin) if part]
    while parts and parts[0] != "{id}":
        begin += parts.pop(0)
    content = [
        {"type": "regex", "pattern": family.id_pattern}
        if part == "{id}"
        else _const(part.replace("{name}", function.name))
        for part in _joined(parts)
    ]
    schema = json_schema_of(function)
    arguments: Format = {
        "type": "json_schema",
        "json_schema": schema,
        "style": family.style,
        "name": _named_parameters(function),
    }
    if family.style == "kimi_k3_xml":
        arguments["excludes"] = ["<|open|>", "<|close|>", "<|sep|>"]
    return _tag(begin.replace("{name}", function.name), _sequence([*content, arguments]), family.end)


def _named_parameters(function: Function) -> str:
    """What errors call the schema of a function's parameters."""
    return f"tools: the parameters of {quoted(function.name)}"


def _joined(parts: Sequence[str]) -> list[str]:
    """The parts, with strings that follow each other made one."""
    joined: list[str] = []
    for part in parts:
        if joined and "{id}" not in (part, joined[-1]):
            joined[-1] += part
        else:
            joined.append(part)
    return joined


# --- Layouts of their own ---


def _whole(asked: _Asked) -> Format:
    """An answer that is a section of calls, or text that begins otherwise."""
    family = asked.family
    mark = re.escape(family.section[0][0]) if family.section else ""
    text = asked.content or {"type": "regex", "pattern": rf"([^\s{mark}][\s\S]*)?"}
    if not asked.functions:
        return text
    if asked.choice != "auto":
        return _answer(asked)
    return _either(_section(family, asked), text)


def _kimi_k3(asked: _Asked) -> Format:
    """Blocks one after the other: thoughts, a response, calls, and the end of the message. The chat template
    opens the first one."""
    family = asked.family
    begin, end = family.section or ("", "")
    is_inside = asked.reasoning == "disabled"
    parts = [*_thoughts(asked)]
    text = asked.content or _text(list(family.excludes))
    opening, closing = "" if is_inside else "<|open|>response<|sep|>", "<|close|>response<|sep|>"
    response = _tag(opening, text, closing)
    if asked.functions:
        calls = [_call(family, function) for function in asked.functions]
        inner = calls[0] if asked.choice == "named" else _separated(calls, "", asked.is_parallel)
        section = _tag(begin, inner, end)
        if asked.choice != "auto":
            response = _sequence([response, section])
        elif asked.content is None:
            response = _sequence([response, {"type": "optional", "content": section}])
        else:
            response = _either(_sequence([_const(opening + closing), section]), response)
    parts.append(response)
    parts.append(_const("<|close|>message<|sep|>"))
    return _sequence(parts)


def _harmony(asked: _Asked) -> Format:
    """Messages to channels: thoughts, then calls or a final message.

    A call ends the turn, and so does the final message. In most vocabularies their last marks end the text:
    they are not part of it then.
    """
    calls = [tag for function in asked.functions for tag in _harmony_calls(function)]
    final = _tag("<|channel|>final<|message|>", asked.content or _text([]), ["<|end|>", "<|return|>", ""])
    analysis = _tag("<|channel|>analysis<|message|>", _text([]), "<|end|>")
    last = [*calls, *([final] if asked.choice == "auto" else [])]
    separator = "<|start|>assistant"
    preamble = _tag("<|channel|>commentary<|message|>", _text([]), "<|end|>")
    between = [] if asked.reasoning == "disabled" else [analysis]
    if calls and asked.choice != "named":
        between.append(preamble)
    most = _separated(last, separator, asked.is_parallel and bool(calls))
    if not between:
        return most
    before = _sequence([_separated(between, separator, True), _const(separator)])
    return _sequence([{"type": "optional", "content": before}, most])


def _harmony_calls(function: Function) -> list[Format]:
    name = f"to=functions.{function.name}"
    if function.custom is not None:  # a text, not marked as JSON
        heads = (f"<|channel|>commentary {name}<|message|>", f" {name}<|channel|>commentary<|message|>")
        return [_tag(head, function.custom.format, ["<|call|>", ""]) for head in heads]
    arguments = {
        "type": "json_schema",
        "json_schema": function.schema,
        "name": _named_parameters(function),
    }
    begins = (
        f"<|channel|>commentary {name} <|constrain|>json<|message|>",
        f"<|channel|>commentary {name}<|constrain|>json<|message|>",
        f" {name}<|channel|>commentary <|constrain|>json<|message|>",
        f" {name}<|channel|>commentary json<|message|>",
    )
    return [_tag(begin, arguments, ["<|call|>", ""]) for begin in begins]


_LAYOUTS: Mapping[str, Callable[[_Asked], Format]] = {
    "text": _text_with_calls,
    "whole": _whole,
    "kimi_k3": _kimi_k3,
    "harmony": _harmony,
}


# --- Formats ---


def _const(value: str) -> Format:
    return {"type": "const_string", "value": value}


def _text(excludes: Sequence[str]) -> Format:
    return {"type": "any_text", "excludes": list(excludes)}


def _tag(begin: str, content: Format, end: str | list[str]) -> Format:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def _sequence(elements: list[Format]) -> Format:
    return elements[0] if len(elements) == 1 else {"type": "sequence", "elements": elements}


def _any_of(formats: list[Format]) -> Format:
    return formats[0] if len(formats) == 1 else {"type": "or", "elements": formats}


def _either(one: Format, other: Format) -> Format:
    return {"type": "or", "elements": [one, other]}


def _separated(tags: list[Format], separator: str, may_repeat: bool) -> Format:
    return {
        "type": "tags_with_separator",
        "tags": tags,
        "separator": separator,
        "at_least_one": True,
        "stop_after_first": not may_repeat,
    }
