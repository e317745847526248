"""Answers in the form of OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..events import Event
from ..message import INPUT
from ..parser import MessageParser

REASONING_KEYS = ("reasoning", "reasoning_content")
"""The keys of thoughts: OpenRouter's and vLLM's, and DeepSeek's, SGLang's and llama.cpp's. Clients read
one of them, also those that know both."""


def chat_deltas(
    events: Iterable[Event], reasoning_keys: Sequence[str] = REASONING_KEYS
) -> list[dict[str, Any]]:
    """The deltas of a stream (`choices[].delta`) for events of a parser, in their order.

    reasoning_keys  the keys that have the thoughts; none of them: they are left out

    A call's first delta has its id and name, and no arguments yet. Deltas are never taken back: in sum they
    are the `chat_message`.
    """
    deltas: list[dict[str, Any]] = []
    for kind, text, index, pointer, call_id in events:
        if kind == "content":
            deltas.append({"content": text})
        elif kind == "thought":
            deltas += [dict.fromkeys(reasoning_keys, text)] if reasoning_keys else []
        elif kind == "call_began":
            call = _call(call_id, text, "", pointer == INPUT)
            deltas.append({"tool_calls": [{"index": index, **call}]})
        elif kind == "arguments":
            form, field = _FORMS[pointer == INPUT]
            deltas.append({"tool_calls": [{"index": index, form: {field: text}}]})
    return deltas


def chat_message(parser: MessageParser, reasoning_keys: Sequence[str] = REASONING_KEYS) -> dict[str, Any]:
    """What a parser has read, as a message (`choices[].message`).

    reasoning_keys  the keys that have the thoughts

    Its content is None if there is none beside calls or thoughts; thoughts and `tool_calls` are left out if
    there are none. The last call has only a part of its arguments if the text ends within them.
    """
    thoughts = "".join(one.text for one in parser.parts if one.kind == "thought")
    contents = [one.text for one in parser.parts if one.kind == "content"]
    calls = [_call(one.id, one.name, one.text, one.is_custom) for one in parser.parts if one.kind == "call"]
    message: dict[str, Any] = {"role": "assistant", "content": "".join(contents)}
    if not contents and (calls or thoughts):
        message["content"] = None
    if thoughts:
        message |= dict.fromkeys(reasoning_keys, thoughts)
    if calls:
        message["tool_calls"] = calls
    return message


_FORMS = (("function", "arguments"), ("custom", "input"))


def _call(call_id: str, name: str, text: str, is_custom: bool) -> dict[str, Any]:
    """A call, of a function or of a custom tool."""
    form, field = _FORMS[is_custom]
    return {"id": call_id, "type": form, form: {"name": name, field: text}}
