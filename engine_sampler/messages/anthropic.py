"""Answers in the form of Anthropic's messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .blocks import BlockChange, BlockSequence
from .events import Event
from .parser import MessageParser

_DELTAS = {
    "thought": ("thinking_delta", "thinking"),
    "content": ("text_delta", "text"),
    "call": ("input_json_delta", "partial_json"),
}


class AnthropicStream:
    """The events of a stream of Anthropic's messages: content_block_start, content_block_delta and
    content_block_stop. In sum they are `anthropic_content`."""

    def __init__(self) -> None:
        self._blocks = BlockSequence()

    def feed(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """The stream's events for those of a parser."""
        return [_event(change) for change in self._blocks.feed(events)]

    def finish(self) -> list[dict[str, Any]]:
        """The stream's last events."""
        return [_event(change) for change in self._blocks.end()]


def _event(change: BlockChange) -> dict[str, Any]:
    if change.change == "began":
        block = _block(change.kind, "", change.name, change.id, {})
        return {"type": "content_block_start", "index": change.number, "content_block": block}
    if change.change == "ended":
        return {"type": "content_block_stop", "index": change.number}
    kind, field = _DELTAS[change.kind]
    return {
        "type": "content_block_delta",
        "index": change.number,
        "delta": {"type": kind, field: change.text},
    }


def _block(kind: str, text: str, name: str, call_id: str, value: Any) -> dict[str, Any]:
    if kind == "thought":
        return {"type": "thinking", "thinking": text, "signature": ""}
    if kind == "content":
        return {"type": "text", "text": text}
    return {"type": "tool_use", "id": call_id, "name": name, "input": value}


def anthropic_content(parser: MessageParser) -> list[dict[str, Any]]:
    """What a parser has read, as the blocks of a message's content: thinking, text and tool_use."""
    return [
        _block(one.kind, one.text, one.name, one.id, (one.value or {}) if one.kind == "call" else None)
        for one in parser.parts
    ]
