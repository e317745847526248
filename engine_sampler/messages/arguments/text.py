"""Reads the input of a custom tool, where that is written as it is."""

from __future__ import annotations

from collections.abc import Sequence

from ..writing import escaped_json
from .reader import ArgumentsReader


class TextReader(ArgumentsReader):
    """Reads a text up to one of some marks, or to the end, as the JSON object `{"input": text}`."""

    def __init__(self, marks: Sequence[str]) -> None:
        super().__init__()
        self._marks, self._has_begun = tuple(marks), False

    def read(self, text: str, at: int, out: list[str]) -> int:
        ends = [place for mark in self._marks if (place := text.find(mark, at)) >= 0]
        end = min(ends) if ends else self._certain(text, at)
        self._take(text[at:end], out)
        if ends:
            self.finish("", out)
        return end

    def finish(self, text: str, out: list[str]) -> None:
        self._take(text, out)
        out.append('"}')
        self.is_done = True

    def _take(self, text: str, out: list[str]) -> None:
        out.append(escaped_json(text) if self._has_begun else '{"input": "' + escaped_json(text))
        self._has_begun = True

    def _certain(self, text: str, at: int) -> int:
        """Where the beginning of a mark may stand at the end of a text."""
        longest = max(map(len, self._marks)) - 1
        for place in range(max(at, len(text) - longest), len(text)):
            if any(mark.startswith(text[place:]) for mark in self._marks):
                return place
        return len(text)
