"""Answers in the form of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..events import Event
from ..parser import MessageParser
from .blocks import BlockChange, BlockSequence, block_of

_IDS = {"thought": "rs", "content": "msg", "call": "fc", "custom call": "ctc"}
_CALLS = {
    "call": ("function_call", "function_call_arguments", "arguments"),
    "custom call": ("custom_tool_call", "custom_tool_call_input", "input"),
}
"""The types of items and events of calls, and what has their text."""
_TEXTS = {"thought": "reasoning_text", "content": "output_text"}


class ResponsesStream:
    """The events of a stream of the Responses API: items of the output, their parts and what these grow by.

    response_id  what the ids of items are made of
    sequence_number  the number of the first event

    In sum they are `response_items`.
    """

    def __init__(self, response_id: str, sequence_number: int = 0) -> None:
        self._id, self.sequence_number = response_id, sequence_number
        self._blocks = BlockSequence()

    def feed(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """The stream's events for those of a parser."""
        return self._numbered(self._blocks.feed(events))

    def finish(self) -> list[dict[str, Any]]:
        """The stream's last events about items."""
        return self._numbered(self._blocks.end())

    def _numbered(self, changes: Iterable[BlockChange]) -> list[dict[str, Any]]:
        found = []
        for event in (event for change in changes for event in _events(change, self._id)):
            found.append({**event, "sequence_number": self.sequence_number})
            self.sequence_number += 1
        return found


def _events(change: BlockChange, response_id: str) -> list[dict[str, Any]]:
    """The events about one change; those of an item's end follow those of its part's."""
    item_id = f"{_IDS[change.kind]}_{response_id}_{change.number}"
    where: dict[str, Any] = {"item_id": item_id, "output_index": change.number}
    is_call = change.kind in _CALLS
    inside = where if is_call else {**where, "content_index": 0}
    name = _CALLS[change.kind][1] if is_call else _TEXTS[change.kind]
    logprobs: dict[str, Any] = {"logprobs": []} if change.kind == "content" else {}
    if change.change == "grew":
        return [{"type": f"response.{name}.delta", **inside, "delta": change.text, **logprobs}]
    is_end = change.change == "ended"
    item = _item(change, item_id, is_end)
    kind = f"response.output_item.{'done' if is_end else 'added'}"
    events: list[dict[str, Any]] = [{"type": kind, "output_index": change.number, "item": item}]
    if not is_call:
        part = _part(change.kind, change.text)
        events.append(
            {"type": f"response.content_part.{'done' if is_end else 'added'}", **inside, "part": part}
        )
    if is_end:
        text = {_CALLS[change.kind][2] if is_call else "text": change.text}
        if change.kind == "call":
            text["name"] = change.name
        events.append({"type": f"response.{name}.done", **inside, **text, **logprobs})
        events.reverse()
    return events


def _part(kind: str, text: str) -> dict[str, Any]:
    part = {"type": _TEXTS[kind], "text": text}
    return {**part, "annotations": [], "logprobs": []} if kind == "content" else part


def _item(block: BlockChange, item_id: str, is_end: bool, is_complete: bool = True) -> dict[str, Any]:
    status = "in_progress" if not is_end else "completed" if is_complete else "incomplete"
    if block.kind in _CALLS:
        kind, _, field = _CALLS[block.kind]
        return {
            "type": kind,
            "id": item_id,
            "call_id": block.id,
            "name": block.name,
            field: block.text,
            "status": status,
        }
    content = [_part(block.kind, block.text)] if is_end else []
    if block.kind == "thought":
        return {"type": "reasoning", "id": item_id, "summary": [], "content": content, "status": status}
    return {"type": "message", "id": item_id, "role": "assistant", "content": content, "status": status}


def response_items(parser: MessageParser, response_id: str) -> list[dict[str, Any]]:
    """What a parser has read, as the items of a response's output: reasoning, message, function_call and
    custom_tool_call.

    response_id  what the ids of items are made of
    """
    found = []
    for number, one in enumerate(parser.parts):
        block = block_of(one, number)
        item_id = f"{_IDS[block.kind]}_{response_id}_{number}"
        found.append(_item(block, item_id, True, one.is_complete or one.kind != "call"))
    return found
