"""`Reading`: what has been read of an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..events import Event, EventKind
from ..message import MessagePart
from ..value import ValueReader

_new_tuple = tuple.__new__
"""Makes named tuples three times as fast."""


class Reading:
    """The parts of an answer, which grow with what its text says.

    values   whether arguments are reported by their parts as well
    call_id  what gives a call's id, from its index, its name, and the id that the text gives it
    length   how many characters are certain
    """

    def __init__(self, values: bool, call_id: Callable[[int, str, str], str]) -> None:
        self._values, self._call_id = values, call_id
        self._calls = 0
        self._is_new = False
        self._value_reader: ValueReader | None = None
        self.length = 0
        self.deviation: str | None = None
        self.parts: list[MessagePart] = []

    # --- State ---

    def state(self) -> tuple[Any, ...]:
        """The state, for `restore`."""
        parts = self.parts
        last = (len(parts[-1].pieces), parts[-1].is_complete) if parts else (0, False)
        return self._calls, self._is_new, self.length, self.deviation, len(parts), *last

    def restore(self, state: tuple[Any, ...]) -> None:
        """Go back to a state."""
        self._calls, self._is_new, self.length, self.deviation, count, pieces, is_complete = state
        del self.parts[count:]
        self._value_reader = None
        if not count:
            return
        last = self.parts[-1]
        last.cut(pieces)
        last.is_complete = is_complete
        if self._values and last.kind == "call" and not is_complete:
            self._value_reader = ValueReader()
            self._value_reader.feed(last.text)

    def fork(self) -> Reading:
        """A copy that goes on independently."""
        new = Reading(self._values, self._call_id)
        new.parts = [part.copy() for part in self.parts]
        new.restore(self.state())
        return new

    # --- Growth ---

    def apply(self, facts: Iterable[Event], events: list[Event]) -> None:
        """Take what some text says; the events are put behind `events`."""
        for fact in facts:
            kind = fact.kind
            if kind == "thought" or kind == "content" or kind == "arguments":
                self.go_on(kind, fact.text, events)
                continue
            if kind == "call_began":
                fact = self._begin_call(fact.text, fact.id)
            elif kind == "call_complete":
                self.parts[-1].is_complete = True
                self._value_reader = None
                fact = Event(kind, "", self._calls - 1)
            elif kind == "deviation":
                if self.deviation is not None:
                    continue
                self.deviation = f"at character {self.length + fact.call}: {fact.text}"
                fact = Event(kind, self.deviation)
            else:
                self._is_new = True
            events.append(fact)

    def go_on(self, kind: EventKind, text: str, events: list[Event]) -> None:
        """Take text of a kind, which joins what has been read."""
        parts, call = self.parts, -1
        if kind == "arguments":
            call = self._calls - 1
        elif self._is_new or not parts or parts[-1].kind != kind:
            parts.append(MessagePart(kind))
            self._is_new = False
        parts[-1].pieces.append(text)
        events.append(_new_tuple(Event, (kind, text, call, "", "")))
        if self._value_reader is not None and call >= 0:
            grown = self._value_reader.feed(text)
            events += [Event("value", one, call, pointer) for pointer, one in grown]

    def _begin_call(self, name: str, given: str) -> Event:
        call = self._calls
        call_id = self._call_id(call, name, given)
        self.parts.append(MessagePart("call", call, name, call_id))
        self._calls += 1
        self._value_reader = ValueReader() if self._values else None
        return Event("call_began", name, call, "", call_id)

    def content_value(self) -> Any:
        """The value of the content, read as JSON."""
        contents = [part for part in self.parts if part.kind == "content"]
        if len(contents) > 1:
            raise ValueError("the content is not one JSON value: calls or thoughts stand within it")
        return contents[0].value if contents else None
