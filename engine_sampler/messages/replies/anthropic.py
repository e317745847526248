"""Answers in the form of Anthropic's messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..events import Event
from ..message import MessagePart
from ..parser import MessageParser
from ..writing import escaped_json
from .blocks import BlockChange, BlockSequence

_DELTAS = {
    "thought": ("thinking_delta", "thinking"),
    "content": ("text_delta", "text"),
    "call": ("input_json_delta", "partial_json"),
    "custom call": ("input_json_delta", "partial_json"),
}


class AnthropicStream:
    """The events of a stream of Anthropic's messages: content_block_start, content_block_delta and
    content_block_stop. In sum they are `anthropic_content`. The input of a custom tool is an object with a
    member `input`."""

    def __init__(self) -> None:
        self._blocks = BlockSequence()

    def feed(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """The stream's events for those of a parser."""
        return [event for change in self._blocks.feed(events) for event in _events(change)]

    def finish(self) -> list[dict[str, Any]]:
        """The stream's last events."""
        return [event for change in self._blocks.end() for event in _events(change)]


def _events(change: BlockChange) -> list[dict[str, Any]]:
    number, is_custom = change.number, change.kind == "custom call"
    if change.change == "began":
        block = _block(change.kind, "", change.name, change.id, {})
        began = {"type": "content_block_start", "index": number, "content_block": block}
        return [began, _delta(change, '{"input": "')] if is_custom else [began]
    if change.change == "ended":
        ended = {"type": "content_block_stop", "index": number}
        return [_delta(change, '"}'), ended] if is_custom else [ended]
    return [_delta(change, escaped_json(change.text) if is_custom else change.text)]


def _delta(change: BlockChange, text: str) -> dict[str, Any]:
    kind, field = _DELTAS[change.kind]
    return {"type": "content_block_delta", "index": change.number, "delta": {"type": kind, field: text}}


def _block(kind: str, text: str, name: str, call_id: str, value: Any) -> dict[str, Any]:
    if kind == "thought":
        return {"type": "thinking", "thinking": text, "signature": ""}
    if kind == "content":
        return {"type": "text", "text": text}
    return {"type": "tool_use", "id": call_id, "name": name, "input": value}


def anthropic_content(parser: MessageParser) -> list[dict[str, Any]]:
    """What a parser has read, as the blocks of a message's content: thinking, text and tool_use."""
    return [_block(one.kind, one.text, one.name, one.id, _input(one)) for one in parser.parts]


def _input(part: MessagePart) -> Any:
    """The value of a call's arguments; that of other parts is not asked for."""
    if part.kind != "call":
        return None
    return {"input": part.text} if part.is_custom else part.value or {}
