"""Answers as blocks that follow each other: thoughts, text and calls, each begun, continued and ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from ..events import Event
from ..message import INPUT, MessagePart

_TEXTS = ("thought", "content", "arguments")
_CALLS = ("call", "custom call")


class BlockChange(NamedTuple):
    """What happens to a block.

    change  "began", "grew" or "ended"
    kind    of the block: "thought", "content" or "call"
    number  which block, from 0
    text    what it grew by; in the end, all of it
    name, id    of a call
    """

    change: Literal["began", "grew", "ended"]
    kind: str
    number: int
    text: str = ""
    name: str = ""
    id: str = ""


class BlockSequence:
    """The blocks of a stream of events: one is open at a time. They are the parser's `parts`."""

    def __init__(self) -> None:
        self._began: BlockChange | None = None
        self._pieces: list[str] = []
        self._count = 0

    def feed(self, events: Iterable[Event]) -> Iterator[BlockChange]:
        """The changes that events make."""
        for kind, text, _, pointer, call_id in events:
            if kind == "call_began":
                yield from self._begin(_CALLS[pointer == INPUT], text, call_id)
            elif kind in _TEXTS:
                yield from self._grow(_CALLS[pointer == INPUT] if kind == "arguments" else kind, text)
            elif kind in ("section_began", "section_ended", "call_complete", "call_broken"):
                yield from self.end()

    def end(self) -> Iterator[BlockChange]:
        """The end of the block that is open, if any."""
        if self._began is not None:
            text, self._pieces = "".join(self._pieces), []
            began, self._began = self._began, None
            yield began._replace(change="ended", text=text)

    def _begin(self, kind: str, name: str = "", call_id: str = "") -> Iterator[BlockChange]:
        yield from self.end()
        self._began = BlockChange("began", kind, self._count, "", name, call_id)
        self._count += 1
        yield self._began

    def _grow(self, kind: str, text: str) -> Iterator[BlockChange]:
        if self._began is None or self._began.kind != kind:
            yield from self._begin(kind)
        assert self._began is not None
        self._pieces.append(text)
        yield self._began._replace(change="grew", text=text)


def block_of(part: MessagePart, number: int) -> BlockChange:
    """A part that has been read, as a block that has ended."""
    kind = _CALLS[part.is_custom] if part.kind == "call" else part.kind
    return BlockChange("ended", kind, number, part.text, part.name, part.id)
