"""What the body of a chat request says of how its answer is sent, as arguments of `ChatFormat`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.arguments import instance_of, not_allowed, one_of
from ..params.families import TOOL_FAMILIES
from .replies import REASONING_KEYS

_FORMATS = ("none", "auto", "deepseek", "deepseek-legacy")
"""What llama.cpp's `reasoning_format` may be."""


def asked_of_replies(body: Mapping[str, Any]) -> dict[str, Any]:
    """What it says of thoughts and calls. Raises `ParameterError` for values of other types."""
    asked = {
        key: instance_of(bool, key, body[key], "true or false")
        for key in ("separate_reasoning", "include_reasoning", "parse_tool_calls", "echo")
        if body.get(key) is not None
    }
    if body.get("reasoning_format") is not None:
        is_apart = one_of(_FORMATS, "reasoning_format", body["reasoning_format"]) != "none"
        asked["separate_reasoning"] = is_apart and asked.get("separate_reasoning", True)
    keys = {} if asked.pop("include_reasoning", True) else {"reasoning_keys": ()}
    return {**asked, **keys}


def asked_of_prefix(body: Mapping[str, Any], family: str) -> dict[str, Any]:
    """The beginning of the answer, if it is the message that comes last: vLLM's `continue_final_message`
    asks for the rest of it, and so does a `prefix` in the message itself, as with DeepSeek and Mistral."""
    messages = body.get("messages")
    last = messages[-1] if isinstance(messages, list | tuple) and messages else None
    if not isinstance(last, Mapping) or last.get("role") != "assistant":
        return {}
    if body.get("continue_final_message") is not True and last.get("prefix") is not True:
        return {}
    content = _text(last.get("content"))
    thoughts = next((_text(last[key]) for key in REASONING_KEYS if last.get(key)), "")
    entry = TOOL_FAMILIES.get(family)
    if not thoughts or entry is None or entry.thinking is None:
        return {"prefix": content, "starts_inside": False}  # it has begun to answer
    begin, end = entry.thinking
    after = f"{end}{entry.closing or entry.after_thinking}{content}" if content else ""
    return {"prefix": f"{begin}{thoughts}{after}"}


def _text(content: Any) -> str:
    """The text of a message, which may be given in parts."""
    if isinstance(content, str):
        return content
    parts = [] if content is None else content
    if isinstance(parts, list | tuple) and all(isinstance(one, Mapping) for one in parts):
        texts = [one.get("text", "") for one in parts]
        if all(isinstance(one, str) for one in texts):
            return "".join(texts)
    raise not_allowed("messages", content, "a text, or parts of the type text, as the content")
