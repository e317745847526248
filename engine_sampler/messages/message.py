"""What has been read of an answer."""

from __future__ import annotations

from typing import Any

from .value import ValueReader

INPUT = "/input"
"""The pointer of what the call of a custom tool is given: its text."""


class MessagePart:
    """Thoughts, content, or a call, as far as it has been read.

    kind         "thought", "content" or "call"
    index        which call, from 0; -1 for others
    name, id     of a call
    is_custom    whether it calls a custom tool, whose input is a text
    is_complete  whether a call's arguments are whole
    is_hidden    whether it is no part of the message
    """

    __slots__ = (
        "_reader",
        "id",
        "index",
        "is_complete",
        "is_custom",
        "is_hidden",
        "kind",
        "name",
        "pieces",
    )

    def __init__(
        self, kind: str, index: int = -1, name: str = "", call_id: str = "", is_custom: bool = False
    ) -> None:
        self.kind, self.index, self.name, self.id, self.is_custom = kind, index, name, call_id, is_custom
        self.is_complete = self.is_hidden = False
        self.pieces: list[str] = []
        self._reader: tuple[ValueReader, int] | None = None

    @property
    def pointer(self) -> str:
        """That of the events of a call."""
        return INPUT if self.is_custom else ""

    @property
    def text(self) -> str:
        """The text, or the arguments as JSON, or the input of a custom tool, so far."""
        return "".join(self.pieces)

    @property
    def value(self) -> Any:
        """The value of the arguments, or of the text read as JSON, so far: strings, objects and lists may
        still grow. None if there is none yet; of a custom tool, its input. Raises ValueError for what is not
        the beginning of JSON."""
        if self.is_custom:
            return self.text
        reader, read = self._reader or (ValueReader(parts=False), 0)
        reader.feed("".join(self.pieces[read:]))
        self._reader = reader, len(self.pieces)
        return reader.value

    def cut(self, count: int) -> None:
        """Keep the first pieces only."""
        if count < len(self.pieces):
            del self.pieces[count:]
            self._reader = None

    def copy(self) -> MessagePart:
        """A part that grows independently."""
        new = MessagePart(self.kind, self.index, self.name, self.id, self.is_custom)
        new.is_complete, new.is_hidden, new.pieces = self.is_complete, self.is_hidden, self.pieces.copy()
        return new
