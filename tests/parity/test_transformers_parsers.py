"""Parsers against transformers' response templates: the same thoughts, content and calls in the same texts.

A template is written here from the definition of each family whose calls end with a mark of their own, whose
texts have none, and whose arguments are JSON or parameters between marks, without quotes. White space at the
edges of texts is not compared: transformers takes it away from all of them, arguments that are strings
excepted.
"""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import pytest

from engine_sampler.grammar import TOOL_FAMILIES
from engine_sampler.grammar.structural_tag.parameters import STYLES
from engine_sampler.messages import MessageParser, chat_message

from ..messages.families import PARAMETER_MARKS, WrittenAnswer, random_answer, tools_of
from ..messages.vocabularies import random_cuts

parsing = pytest.importorskip("transformers.utils.chat_parsing")

ANCHOR = "<assistant>"
NAME = r"(?P<name>[\w.:/-]+)"
ARGUMENTS = {"name": "{name}", "arguments": "{content}"}


def has_mark(text: str) -> bool:
    return re.search(r"[<\[|]", text) is not None


FAMILIES = [
    name
    for name, family in TOOL_FAMILIES.items()
    if (family.style == "json" or family.style in PARAMETER_MARKS)
    and has_mark(family.end)
    and family.layout == "text"
    and not (family.style in STYLES and STYLES[family.style].quotes)
    and "{id}" not in family.begin
]


def pattern(text: str) -> str:
    """A text of a definition as a regular expression, in which its places are groups, and any white space
    may stand at its line breaks."""
    places = {"{name}": NAME}
    parts = re.split(r"(\{name\}|\s*\n\s*)", text)
    return "".join(r"\s*" if part.isspace() else places.get(part, re.escape(part)) for part in parts)


def template_of(name: str) -> dict[str, Any]:
    """The response template of a family."""
    family = TOOL_FAMILIES[name]
    begin, end = pattern(family.begin), pattern(family.end)
    if family.section is not None:
        begin = rf"(?:{pattern(family.section[0])}|{pattern(family.separator)})?\s*{begin}"
    calls: dict[str, Any] = {
        "open_pattern": begin,
        "close_pattern": end,
        "repeats": True,
        "transform": {"type": "function", "function": ARGUMENTS},
    }
    if family.style == "json":
        calls["content"] = "json"
    else:
        calls |= {"content": "xml-inline", "content_args": {"tag_pattern": _parameter(name)}}
    fields: dict[str, Any] = {
        "content": {"repeats": True, "join": ""},
        "tool_calls": calls,
    }
    if family.section is not None:
        fields["end"] = {"open_pattern": pattern(family.section[1])}
    if family.thinking is not None:
        fields["reasoning_content"] = {"open": family.thinking[0], "close": family.thinking[1]}
    return {"start_anchor": ANCHOR, "fields": fields}


def _parameter(name: str) -> str:
    family = TOOL_FAMILIES[name]
    before, after = PARAMETER_MARKS[family.style]
    if family.style == "qwen_xml" and not family.begin.endswith("\n"):
        before, after = before.rstrip("\n"), after.strip("\n")
    places = {"{name}": "(?P<key>[^<>]*?)", "{kind}": "[a-z]*", "{is_string}": "(?:true|false)"}
    parts = re.split(r"(\{name\}|\{kind\}|\{is_string\})", before)
    opening = "".join(places.get(part, re.escape(part)) for part in parts)
    return f"{opening}(?P<value>.*?){re.escape(after.rstrip(chr(10)))}"


def theirs(name: str, answer: WrittenAnswer, cuts: list[str]) -> tuple[str, str, list[Any]]:
    """What transformers reads in a text that comes in pieces."""
    family = TOOL_FAMILIES[name]
    prefix = ANCHOR
    if answer.thoughts and family.thinking is not None and family.starts_inside:
        prefix += family.thinking[0]
    parser = parsing.ResponseParser(template_of(name), prefix=prefix, tools=tools_of(answer.calls))
    for piece in cuts:
        parser.feed(piece)
    message, _ = parser.finalize()
    calls = [one["function"] for one in message.get("tool_calls", [])]
    said = (message.get("reasoning_content", ""), message.get("content", ""))
    return said[0].strip(), said[1].strip(), [(one["name"], one["arguments"]) for one in calls]


def mine(name: str, answer: WrittenAnswer, cuts: list[str]) -> tuple[str, str, list[Any]]:
    """What is read here."""
    inside = bool(answer.thoughts) and TOOL_FAMILIES[name].starts_inside
    parser = MessageParser(name, tools_of(answer.calls), starts_inside=inside)
    for piece in cuts:
        parser.feed(piece)
    parser.finish()
    message = chat_message(parser)
    calls = [one["function"] for one in message.get("tool_calls", [])]
    return (
        message.get("reasoning_content", "").strip(),
        (message["content"] or "").strip(),
        [(one["name"], json.loads(one["arguments"])) for one in calls],
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_reads_the_same(family: str) -> None:
    read = 0
    for seed in range(60):
        random = Random(seed)
        answer = random_answer(family, random)
        if not answer.calls:
            continue
        cuts = random_cuts(answer.text, random)
        expected = mine(family, answer, cuts)
        assert theirs(family, answer, cuts) == expected, answer.text
        read += len(expected[2])
    assert read >= 30
