"""Answers in the form of OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .events import Event
from .parser import MessageParser


def chat_deltas(events: Iterable[Event]) -> list[dict[str, Any]]:
    """The deltas of a stream (`choices[].delta`) for events of a parser, in their order.

    Thoughts are `reasoning_content`. A call's first delta has its id and name, and no arguments yet. Deltas
    are never taken back: in sum they are the `chat_message`.
    """
    deltas: list[dict[str, Any]] = []
    for kind, text, index, _, call_id in events:
        if kind == "content":
            deltas.append({"content": text})
        elif kind == "thought":
            deltas.append({"reasoning_content": text})
        elif kind == "call_began":
            function = {"name": text, "arguments": ""}
            call = {"index": index, "id": call_id, "type": "function", "function": function}
            deltas.append({"tool_calls": [call]})
        elif kind == "arguments":
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": text}}]})
    return deltas


def chat_message(parser: MessageParser) -> dict[str, Any]:
    """What a parser has read, as a message (`choices[].message`).

    Its content is None if there is none beside calls or thoughts; `reasoning_content` and `tool_calls` are
    left out if there are none. The last call has only a part of its arguments if the text ends within them.
    """
    thoughts = "".join(one.text for one in parser.parts if one.kind == "thought")
    contents = [one.text for one in parser.parts if one.kind == "content"]
    calls = [
        {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.text}}
        for one in parser.parts
        if one.kind == "call"
    ]
    message: dict[str, Any] = {"role": "assistant", "content": "".join(contents)}
    if not contents and (calls or thoughts):
        message["content"] = None
    if thoughts:
        message["reasoning_content"] = thoughts
    if calls:
        message["tool_calls"] = calls
    return message
