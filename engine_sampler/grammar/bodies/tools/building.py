"""Structural tags for calls of tools, put together from the entries of `params.families`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ....base.errors import quoted
from ....params.families import THINK, TOOL_FAMILIES, Family, Reasoning, check_reasoning
from ....params.families.templates import family_named
from .requests import Function, chosen_functions, json_schema_of

Format: TypeAlias = "dict[str, Any]"


def tool_calls(
    family: str,
    tools: Sequence[Mapping[str, Any]] | None,
    tool_choice: Any = "auto",
    *,
    parallel_tool_calls: bool = True,
    strict: bool | None = None,
    reasoning: Reasoning = "disabled",
    answer: Format | None = None,
    preamble: bool = True,
) -> dict[str, Any]:
    """The structural tag of an answer of a model that may call tools.

    family       how the model writes calls: a name in `TOOL_FAMILIES`
    tools        functions in OpenAI's form or in Anthropic's; functions of Python, and classes such as
                 pydantic models (see `tool_of`); OpenAI's custom tools
    tool_choice  "auto": text with calls in it; "none": text without; "required" or "any": a call at least; a
                 function, `{"type": "function", "function": {"name": ...}}`: a call of it, and no other;
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
    preamble     whether text may precede a call that is required or named, as chat templates write it; False:
                 nothing but thoughts does. Where a model writes either text or calls, nothing does anyway

        Grammar.from_structural_tag(tool_calls("qwen_3", tools, "required"))

    Raises `ParameterError` for a family, tools or a choice that is not allowed.
    """
    family = family_named("family", family)
    check_reasoning(reasoning)
    functions, choice = chosen_functions(tools, tool_choice, strict)
    asked = _Asked(TOOL_FAMILIES[family], functions, choice, parallel_tool_calls, reasoning, answer, preamble)
    return {"type": "structural_tag", "format": _LAYOUTS[asked.family.layout](asked)}


def formatted_answer(family: str, content: Format, reasoning: Reasoning) -> dict[str, Any]:
    """The structural tag of an answer that is of one format, after the thoughts of the family.

    family     a name in `TOOL_FAMILIES`
    content    a format of structural tags, without text around it
    reasoning  as in `tool_calls`

    Raises `ParameterError` for a family that is not one of them.
    """
    family = family_named("family", family)
    asked = _Asked(TOOL_FAMILIES[family], (), "auto", True, reasoning, content)
    return {"type": "structural_tag", "format": _LAYOUTS[asked.family.layout](asked)}


class _Asked(NamedTuple):
    """What one tag is built from; `choice` is "auto", "required" or "named", and `content` what an
    answer under "auto" is that is not a call, if it is not free; `preamble` as in `tool_calls`."""

    family: Family
    functions: Sequence[Function]
    choice: str
    is_parallel: bool
    reasoning: str
    content: Format | None = None
    preamble: bool = True

    @property
    def excludes(self) -> list[str]:
        """What does not occur in free text, since it would be read as thoughts, or as something else."""
        begins = [begin for begin, _ in self.family.reads_thinking]
        return list(dict.fromkeys((*(self.thinking or ()), *begins, *self.family.excludes)))

    @property
    def thinking(self) -> tuple[str, str] | None:
        """The marks around thoughts: where a family has none, free text with these is read as thoughts."""
        return self.family.thinking or (THINK if self.family.layout == "text" else None)

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
    def sections(self) -> dict[tuple[str, str], list[Family]]:
        """The marks of all sections, each with the ways in which calls are written there."""
        sections: dict[tuple[str, str], list[Family]] = {}
        for way in self.ways:
            sections.setdefault(way.section or ("", ""), []).append(way)
        return sections

    def calls(self, ways: Sequence[Family]) -> list[Format]:
        """One call of each function, in each of some ways."""
        return [_call(way, function) for function in self.functions for way in ways]


# --- Free text with calls ---


def _text_with_calls(asked: _Asked) -> Format:
    answer = _answer(asked)
    if asked.family.after and (
        asked.choice == "named" or not asked.is_parallel
    ):  # else text may follow anyway
        answer = _sequence([answer, _pattern(asked.family.after)])
    return _sequence([*_thoughts(asked), answer])


def _answer(asked: _Asked) -> Format:
    if asked.content is not None and asked.choice == "auto":
        calls_alone = asked._replace(choice="required")
        return _either(_calls_at_once(calls_alone), asked.content) if asked.functions else asked.content
    if not asked.functions:
        return _text([*asked.excludes, *(one for one in asked.triggers if one[0] in "<[]")])
    if asked.choice == "auto":
        return _triggered(asked, _tags(asked))
    is_bare = asked.triggers[0].startswith("{")  # text would follow the braces
    return _text_before_calls(asked) if asked.preamble and not is_bare else _calls_at_once(asked)


def _tags(asked: _Asked) -> list[Format]:
    """The tags of calls within text: of sections, or of each call."""
    if asked.family.section is None:
        return asked.calls(asked.ways)
    return [_tag(begin, _section(asked, ways), end) for (begin, end), ways in asked.sections.items()]


def _section(asked: _Asked, ways: Sequence[Family]) -> Format:
    """What stands in a section."""
    calls = asked.calls(ways)
    if asked.choice == "named":
        return _any_of(calls)
    return _separated(calls, asked.family.separator, asked.is_parallel)


def _calls_at_once(asked: _Asked) -> Format:
    """Calls with which an answer begins."""
    family = asked.family
    space = [_pattern(family.before)] if family.before else []
    if family.section is not None:
        tags = [{**tag, "begin": family.lead + tag["begin"]} for tag in _tags(asked)]
        return _sequence([*space, _any_of(tags)])
    if asked.choice == "named":
        return _sequence([*space, _any_of(_tags(asked))])
    if asked.triggers[0].startswith("{"):
        return _sequence([*space, _separated(_tags(asked), "", asked.is_parallel)])
    return _sequence([*space, _triggered(asked, _tags(asked))])


def _text_before_calls(asked: _Asked) -> Format:
    """Text that leads to calls: what `_triggered` is, with one of them at least, but not at once."""
    tags, firsts = _tags(asked), []
    for trigger in asked.triggers:
        others = [one for one in asked.triggers if one != trigger]
        rests = [
            {**tag, "begin": tag["begin"].removeprefix(trigger)}
            for tag in tags
            if tag["begin"].startswith(trigger)
        ]
        firsts.append(_sequence([_tag("", _text([*asked.excludes, *others]), trigger), _any_of(rests)]))
    called = _any_of(firsts)
    if asked.family.section is not None or asked.choice == "named" or not asked.is_parallel:
        return called
    return _sequence([{"type": "plus", "content": called}, _text([*asked.excludes, *asked.triggers])])


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
    if asked.thinking is None or asked.reasoning == "disabled":
        return []
    begin, end = asked.thinking
    must_think = asked.reasoning == "enabled" and family.thinking is not None
    is_inside = must_think and family.starts_inside
    excludes = [*asked.excludes, *(asked.triggers if family.excludes else [])]
    space = [] if is_inside or not family.before else [_pattern(family.before)]
    parts = [*space, _tag("" if is_inside else begin, _text(excludes), end)]
    if after := family.after_thinking:  # of line breaks, some templates write fewer
        fewest = 0 if after.isspace() else len(after)
        parts.append(_any_of([_const(after[:length]) for length in range(fewest, len(after) + 1)]))
    thoughts = _sequence(parts)
    if must_think:
        return [thoughts]
    if family.skipped:
        thoughts = {"type": "or", "elements": [thoughts, _const(family.skipped)]}
    return [{"type": "optional", "content": thoughts}]


def _call(family: Family, function: Function) -> Format:
    """The tag of one call."""
    begin, *before = _parts(family.begin, family, function)
    after: list[Format] = []
    if family.trailer:
        after = [{"type": "optional", "content": _sequence(_parts(family.trailer, family, function))}]
    arguments: Format = {
        "type": "json_schema",
        "json_schema": json_schema_of(function),
        "style": family.style,
        "name": _named_parameters(function),
    }
    if family.style == "kimi_k3_xml":
        arguments["excludes"] = ["<|open|>", "<|close|>", "<|sep|>"]
    return _tag(begin["value"], _sequence([*before, arguments, *after]), family.end)


def _parts(text: str, family: Family, function: Function) -> list[Format]:
    """What stands before or after a call's arguments: strings, and the patterns of ids between them."""
    strings = text.replace("{name}", function.name).split("{id}")
    parts = [_const(strings[0])]
    for string in strings[1:]:
        parts += [_pattern(family.id_pattern), _const(string)]
    return parts


def _named_parameters(function: Function) -> str:
    """What errors call the schema of a function's parameters."""
    return f"tools: the parameters of {quoted(function.name)}"


# --- Layouts of their own ---


def _whole(asked: _Asked) -> Format:
    """An answer that is a section of calls, or text that begins otherwise."""
    family = asked.family
    mark = re.escape(family.section[0][0]) if family.section else ""
    text = asked.content or _pattern(rf"([^\s{mark}][\s\S]*)?")
    if not asked.functions:
        return text
    if asked.choice != "auto":
        return _calls_at_once(asked)
    return _either(_any_of(_tags(asked)), text)


def _blocks(asked: _Asked) -> Format:
    """Blocks one after the other, each with its marks: thoughts, then a text, calls, or calls behind a text.
    The chat template may open the first one."""
    family = asked.family
    begin, end = family.content or ("", "")
    if family.text_first and asked.reasoning == "disabled":
        begin = ""
    text = _text([*asked.excludes, *asked.triggers])
    last = _last(family, begin, asked.content or text, end)
    if not asked.functions:
        return _sequence([*_thoughts(asked), last])
    before = _tag(begin, text, end + family.joint)
    if asked.content is not None or not (asked.choice == "auto" or asked.preamble):
        before = _const(begin + end + family.joint)
    section_begin, section_end = family.section or ("", "")
    called = _last(family, section_begin, _section(asked, asked.ways), section_end)
    answers = [_sequence([before, called])]
    if not family.text_first:
        is_alone = asked.content or not (asked.choice == "auto" or asked.preamble)
        answers = [called] if is_alone else [called, *answers]
    if asked.choice == "auto":
        answers.append(last)
    return _sequence([*_thoughts(asked), _any_of(answers)])


def _last(family: Family, begin: str, content: Format, end: str) -> Format:
    """The last block of an answer. A mark that ends the text in a vocabulary is not part of it there."""
    closing, finish = (end, family.finish) if end else (family.finish, "")
    block = _tag(begin, content, [closing, ""] if closing in family.stops else closing)
    if not finish:
        return block
    last = _const(finish)
    return _sequence([block, {"type": "optional", "content": last} if finish in family.stops else last])


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
    if calls and asked.preamble:
        between.append(preamble)
    most = _separated(last, separator, asked.is_parallel and bool(calls) and asked.choice != "named")
    if not between:
        return most
    before = _sequence([_separated(between, separator, True), _const(separator)])
    return _sequence([{"type": "optional", "content": before}, most])


def _harmony_calls(function: Function) -> list[Format]:
    name = f"to=functions.{function.name}"
    if function.custom is not None:  # a text, not marked as JSON
        heads = (f"<|channel|>commentary {name}<|message|>", f" {name}<|channel|>commentary<|message|>")
        return [_tag(head, function.custom.format, ["<|call|>", ""]) for head in heads]
    arguments: Format = {
        "type": "json_schema",
        "json_schema": function.schema,
        "name": _named_parameters(function),
    }
    begins = [
        begin
        for channel in ("commentary", "analysis")
        for kind in (" <|constrain|>json", "<|constrain|>json", " json", "")
        for begin in (f"<|channel|>{channel} {name}{kind}", f" {name}<|channel|>{channel}{kind}")
    ]
    return [_tag(f"{begin}<|message|>", arguments, ["<|call|>", ""]) for begin in begins]


_LAYOUTS: Mapping[str, Callable[[_Asked], Format]] = {
    "text": _text_with_calls,
    "whole": _whole,
    "blocks": _blocks,
    "harmony": _harmony,
}


# --- Formats ---


def _const(value: str) -> Format:
    return {"type": "const_string", "value": value}


def _pattern(pattern: str) -> Format:
    return {"type": "regex", "pattern": pattern}


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
