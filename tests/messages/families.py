"""Answers with calls, as the models of each family write them: an oracle that knows nothing of parsers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from engine_sampler.grammar import TOOL_FAMILIES
from engine_sampler.params.families import Family

NAMES = ("f", "get_weather", "get_weather_2", "a.b-c", "search")
KEYS = ("city", "n", "x_1", "items", "deep", "flag")


class WrittenCall(NamedTuple):
    """A call of a function with its arguments."""

    name: str
    arguments: dict[str, Any]


class WrittenAnswer(NamedTuple):
    """What an answer says, and its text."""

    thoughts: str
    content: str
    calls: list[WrittenCall]
    text: str


def schema_of(value: Any) -> dict[str, Any]:
    """A schema with the types of a value."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: schema_of(one) for key, one in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "prefixItems": [schema_of(one) for one in value]}
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
    return {"type": kinds[type(value)]}


def tools_of(calls: Sequence[WrittenCall]) -> list[dict[str, Any]]:
    """The functions that are called, with the types of all their arguments."""
    merged: dict[str, dict[str, Any]] = {}
    for name, arguments in calls:
        merged.setdefault(name, {}).update({key: schema_of(one) for key, one in arguments.items()})
    return [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": one}}}
        for name, one in merged.items()
    ]


# --- Values, by style ---


def _json(value: Any, random: Random) -> str:
    compact = random.random() < 0.3
    separators = (",", ":") if compact else (", ", ": ")
    return json.dumps(value, ensure_ascii=random.random() < 0.3, separators=separators)


def _python(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_python(key)}: {_python(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_python, value)) + "]"
    if isinstance(value, str):
        text = repr(value)
        return text if "\\x" not in text else json.dumps(value, ensure_ascii=False)
    return repr(value)


def _gemma(value: Any, quote: str) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_gemma(one, quote)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_gemma(one, quote) for one in value) + "]"
    return f"{quote}{value}{quote}" if isinstance(value, str) else json.dumps(value)


def _kind(value: Any) -> str:
    kinds = {str: "string", bool: "boolean", int: "number", float: "number", dict: "object", list: "array"}
    return kinds.get(type(value), "null")


def _parameters(
    arguments: dict[str, Any],
    random: Random,
    before: str,
    after: str,
    quotes: tuple[str, str] | None = None,
) -> str:
    def text(value: Any) -> str:
        if quotes and isinstance(value, str) and any(one in value for one in "<&\n"):
            return value.join(quotes)
        return value if isinstance(value, str) else _json(value, random)

    written = []
    for key, value in arguments.items():
        opening = before.replace("{name}", key).replace("{kind}", _kind(value))
        opening = opening.replace("{is_string}", str(isinstance(value, str)).lower())
        written.append(opening + text(value) + after)
    return "".join(written)


def _cohere(value: Any, name: str | None = None) -> str:
    label = f' name="{name}"' if name is not None else ""
    if isinstance(value, dict):
        kind, inside = "dict", "".join(_cohere(one, key) for key, one in value.items())
    elif isinstance(value, list):
        kind, inside = "list", "".join(map(_cohere, value))
    else:
        kind, inside = ("raw", value) if isinstance(value, str) else ("json", json.dumps(value))
    return f'<cofl:value{label} type="{kind}">{inside}</cofl:value>'


_M3 = "]<]minimax[>["


def _minimax_m3(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(f"{_M3}<{key}>{_minimax_m3(one)}{_M3}</{key}>" for key, one in value.items())
    if isinstance(value, list):
        return "".join(f"{_M3}<item>{_minimax_m3(one)}{_M3}</item>" for one in value)
    return value if isinstance(value, str) else json.dumps(value)


def _dsml(space: str) -> tuple[str, str]:
    begin = f'<｜DSML｜{space}parameter name="{{name}}" string="{{is_string}}">'
    return begin, f"</｜DSML｜{space}parameter>\n"


PARAMETER_MARKS = {
    "qwen_xml": ("<parameter={name}>\n", "\n</parameter>\n"),
    "seed_xml": ("<parameter={name}>", "</parameter>\n"),
    "mimo_xml": ("<parameter={name}>", "</parameter>"),
    "minimax_xml": ('<parameter name="{name}">', "</parameter>\n"),
    "deepseek_xml": _dsml(""),
    "deepseek_v4_1_xml": _dsml(" "),
    "glm_xml": ("<arg_key>{name}</arg_key>\n<arg_value>", "</arg_value>\n"),
    "kimi_k3_xml": (
        '<|open|>argument key="{name}" type="{kind}"<|sep|>',
        "<|close|>argument<|sep|>",
    ),
    "step3_xml": ('<steptml:parameter name="{name}">', "</steptml:parameter>"),
    "hunyuan_3_xml": (
        "<arg_key:opensource>{name}</arg_key:opensource>\n<arg_value:opensource>",
        "</arg_value:opensource>\n",
    ),
    "atem_xml": ('<atem:parameter name="{name}">', "</atem:parameter>\n"),
    "minicpm_5_xml": ('<param name="{name}">', "</param>"),
}
_STYLES: dict[str, Callable[[dict[str, Any], Random], str]] = {
    "json": _json,
    "pythonic": lambda arguments, _: ", ".join(f"{key}={_python(one)}" for key, one in arguments.items()),
    "gemma": lambda arguments, _: _gemma(arguments, '<|"|>'),
    "function_gemma": lambda arguments, _: _gemma(arguments, "<escape>"),
    "cohere_xml": lambda arguments, _: "".join(_cohere(one, key) for key, one in arguments.items()),
    "minimax_m3_xml": lambda arguments, _: _minimax_m3(arguments),
}


def _arguments(family: Family, arguments: dict[str, Any], random: Random) -> str:
    if family.style in PARAMETER_MARKS:
        quotes = ("<![CDATA[", "]]>") if family.style == "minicpm_5_xml" else None
        return _parameters(arguments, random, *PARAMETER_MARKS[family.style], quotes)
    return _STYLES[family.style](arguments, random)


# --- Answers ---


def write_answer(
    name: str, thoughts: str, content: str, calls: Sequence[WrittenCall], random: Random
) -> WrittenAnswer:
    """The text of an answer that begins after what the prompt of the family ends with."""
    family = TOOL_FAMILIES[name]
    if family.thinking is None:
        thoughts = ""
    if family.layout == "whole" and calls:
        content = ""
    if name == "harmony":
        text = _harmony(thoughts, content, calls, random)
    elif family.layout == "blocks":
        text = _blocks(family, bool(thoughts), content, calls, random)
    else:
        text = content + write_calls(family, calls, random)
    if thoughts and family.thinking and name != "harmony":
        begin = "" if family.starts_inside else family.thinking[0]
        text = f"{begin}{thoughts}{family.thinking[1]}{family.after_thinking}{text}"
    return WrittenAnswer(thoughts, content, list(calls), text)


def _blocks(
    family: Family, has_thoughts: bool, content: str, calls: Sequence[WrittenCall], random: Random
) -> str:
    """What follows thoughts, in the layout in which each block has its marks."""
    begin, end = family.content or ("", "")
    if family.text_first and not has_thoughts:
        begin = ""
    blocks = [f"{begin}{content}{end}"] if content or family.text_first or not calls else []
    blocks += [write_calls(family, calls, random)] if calls else []
    return family.joint.join(blocks) + family.finish


def write_calls(family: Family, calls: Sequence[WrittenCall], random: Random) -> str:
    """The text of calls that are made at once, in one of the ways of a family."""
    written = [_call(family, call, number, random) for number, call in enumerate(calls)]
    if not written:
        return ""
    if family.section is None and family.layout == "blocks":
        return family.separator.join(written)
    if family.section is None:
        return random.choice(["", "\n"]).join(written)
    return family.section[0] + family.separator.join(written) + family.section[1]


def _call(family: Family, call: WrittenCall, number: int, random: Random) -> str:
    call_id = str(number).zfill(9) if "{9}" in family.id_pattern else str(number)
    begin = family.begin.replace("{name}", call.name).replace("{id}", call_id)
    return begin + _arguments(family, call.arguments, random) + family.end


def _harmony(thoughts: str, content: str, calls: Sequence[WrittenCall], random: Random) -> str:
    start = "<|start|>assistant"
    messages = [f"<|channel|>analysis<|message|>{thoughts}<|end|>"] if thoughts else []
    if content:
        channel = "commentary" if calls else "final"
        messages.append(f"<|channel|>{channel}<|message|>{content}<|end|>")
    for name, arguments in calls:
        header = random.choice(HARMONY_HEADERS).replace("{name}", name)
        messages.append(f"{header}<|message|>{_json(arguments, random)}<|call|>")
    return start.join(messages)


HARMONY_HEADERS = (
    "<|channel|>commentary to=functions.{name} <|constrain|>json",
    "<|channel|>commentary to=functions.{name}<|constrain|>json",
    " to=functions.{name}<|channel|>commentary <|constrain|>json",
    " to=functions.{name}<|channel|>commentary json",
)
"""How the message of a call begins."""


# --- Random answers ---

_TEXTS = (
    "",
    "Paris",
    "two words",
    "été 東京 🙂",
    'a "quote"',
    "back\\slash",
    "line\nbreak",
    "tab\t",
    "{}",
    "1",
    "true",
)
_PLAIN = ("I look it up.", "Let me see: 3 > 2.", "Voilà 🙂 東京\n\nDone", "a b < c", "x")


def _value(random: Random, depth: int) -> Any:
    kind = random.randrange(8 if depth else 6)
    if kind < 3:
        return random.choice(_TEXTS)
    if kind < 6:
        return random.choice([0, -3, 17, 2.5, 1e-05, True, False, None])
    if kind == 6:
        return {key: _value(random, depth - 1) for key in random.sample(KEYS, random.randrange(1, 3))}
    return [_value(random, depth - 1) for _ in range(random.randrange(1, 4))]


class CalledTools:
    """The functions that answers may call, with their arguments.

    few  makes them few: two functions, each called with four choices of arguments; None: any
    types  an argument of each function and name that has occurred: others are of its type. It grows
    """

    def __init__(self, family: str, few: Random | None = None) -> None:
        names = NAMES if TOOL_FAMILIES[family].style != "pythonic" else NAMES[:3]
        self.names = names if few is None else few.sample(names, 2)
        self.types: dict[tuple[str, str], Any] = {}
        self._choices = {name: [_keys(few) for _ in range(4)] for name in self.names} if few else {}

    def keys(self, function: str, random: Random) -> list[str]:
        """The names of the arguments of one call."""
        choices = self._choices.get(function)
        return random.choice(choices) if choices else _keys(random)


def _keys(random: Random) -> list[str]:
    return random.sample(KEYS, random.randrange(len(KEYS)))


def random_answer(name: str, random: Random, tools: CalledTools | None = None) -> WrittenAnswer:
    """An answer with or without thoughts, content, and up to three calls, of `tools` or of any."""
    tools = tools or CalledTools(name)
    count = random.choice([0, 1, 1, 1, 2, 3])
    calls, types = [], tools.types
    for _ in range(count):
        function = random.choice(tools.names)
        arguments = {}
        for key in tools.keys(function, random):
            value = _value(random, 2)
            if schema_of(types.setdefault((function, key), value)) != schema_of(value):
                value = types[function, key]
            arguments[key] = value
        calls.append(WrittenCall(function, arguments))
    thoughts = random.choice(["", *_PLAIN])
    content = random.choice(["", *_PLAIN]) if count else random.choice(_PLAIN)
    return write_answer(name, thoughts, content, calls, random)
