"""`Reading`: what has been read of an answer."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ...base.calling import call_plugin
from ...base.errors import PluginFault, quoted
from ..arguments import CertainJson, completion
from ..events import Event, EventKind, MalformedCallError
from ..message import INPUT, MessagePart
from ..value import ValueReader
from .following import MAX_SPACE

_new_tuple = tuple.__new__
"""Makes named tuples three times as fast."""


TRIMS = {"nothing": (), "thoughts": ("thought",), "all": ("thought", "content")}
"""What is read without the white space at its ends, by what `trim` may be."""

_SPACE = " \t\r\n"


class ReadingOptions(NamedTuple):
    """How what has been read is told.

    values   whether arguments are reported by their parts as well
    call_id  what gives a call's id, from its index, its name, and the id that the text gives it; None: the
             text's, or one of its own, other ones in each reading
    unfinished  whether a call that the text cuts is left "open", or is made to "close"; "drop": a call is a
                part of the answer once it is whole; "hide": no call is
    fails       whether a call that is not as defined raises `MalformedCallError`
    trim     what is without the white space at its ends, as in `MessageParser`
    keeps_content  whether content is never
    marks    between which thoughts are content; None: they are not
    customs  the custom tools, whose calls have a text in place of JSON
    """

    values: bool = False
    call_id: Callable[[int, str, str], str] | None = None
    unfinished: str = "open"
    fails: bool = False
    trim: str = "nothing"
    keeps_content: bool = False
    marks: tuple[str, str] | None = None
    customs: frozenset[str] = frozenset()


class Reading:
    """The parts of an answer, which grow with what its text says.

    length   how many characters are certain
    """

    def __init__(self, options: ReadingOptions) -> None:
        self._options, self._values, self._call_id = options, options.values, options.call_id
        self._marks, self._unfinished, self._fails = options.marks, options.unfinished, options.fails
        kept = ("content",) if options.keeps_content else ()
        self._trimmed = frozenset(TRIMS[options.trim]).difference(kept)
        first = "" if options.trim == "nothing" else None
        self._spaces: dict[str, str | None] = {
            "thought": first,
            "content": "" if options.keeps_content else first,
        }
        """White space of each kind that waits for more; None before anything has come."""
        self._has_thought = False
        self._calm = ""
        """The kind of which text goes on with the last part as it is, unless it ends with white space."""
        self._prefix = f"call_{secrets.token_hex(10)}"
        self._ids: dict[tuple[int, str, str], tuple[str, str | None]] = {}
        """The ids of calls, which keep them when they are taken back and come again; and what was wrong."""
        self._calls = 0
        self._is_new = False
        self._value_reader: ValueReader | None = None
        self._certain: CertainJson | None = None
        """What is told of the arguments of a call that is to be closed where it is cut."""
        self.length = 0
        self.deviation: str | None = None
        self.parts: list[MessagePart] = []

    @property
    def shown(self) -> list[MessagePart]:
        """The parts of the message."""
        is_whole = self._unfinished not in ("drop", "hide")
        return self.parts if is_whole else [part for part in self.parts if not part.is_hidden]

    # --- State ---

    def state(self) -> tuple[Any, ...]:
        """The state, for `restore`."""
        parts = self.parts
        last = (
            (len(parts[-1].pieces), parts[-1].is_complete, parts[-1].is_hidden)
            if parts
            else (0, False, False)
        )
        readers = _copies(self._value_reader, self._certain)
        spaces = self._has_thought, *self._spaces.values()
        return self._calls, self._is_new, self.length, self.deviation, readers, spaces, len(parts), *last

    def restore(self, state: tuple[Any, ...]) -> None:
        """Go back to a state."""
        self._calls, self._is_new, self.length, self.deviation, readers, spaces, *last = state
        self._calm = ""
        self._has_thought, self._spaces["thought"], self._spaces["content"] = spaces
        count, pieces, *last = last
        self._value_reader, self._certain = _copies(*readers)
        del self.parts[count:]
        if count:
            self.parts[-1].cut(pieces)
            self.parts[-1].is_complete, self.parts[-1].is_hidden = last

    def fork(self) -> Reading:
        """A copy that goes on independently."""
        new = Reading(self._options)
        new._ids = self._ids.copy()
        new.parts = [part.copy() for part in self.parts]
        new.restore(self.state())
        return new

    def begin_anew(self) -> list[Event]:
        """Forget what has been said, but for a call that goes on; returns the events that say this one."""
        self._is_new, self._calm = True, ""
        self._spaces = {kind: space and "" for kind, space in self._spaces.items()}
        last = self.parts[-1:]
        if not last or last[0].kind != "call" or last[0].is_complete:
            self.parts, self._calls = [], 0
            return []
        part = last[0]
        self.parts, part.index, self._calls = last, 0, 0 if part.is_hidden else 1
        if part.is_hidden:
            return []
        began = Event("call_began", part.name, 0, part.pointer, part.id)
        return [began, Event("arguments", part.text, 0, part.pointer)] if part.pieces else [began]

    # --- Growth ---

    def apply(self, facts: Iterable[Event], events: list[Event]) -> None:
        """Take what some text says; the events are put behind `events`."""
        for fact in facts:
            kind = fact.kind
            if kind == "thought" or kind == "content" or kind == "arguments":
                self.go_on(kind, fact.text, events)
                continue
            if kind == "call_began":
                self._begin_call(fact.text, fact.id, events)
            elif kind == "call_complete":
                self._show_call(events)
                self._end_call(True, events)
            elif kind == "call_broken":
                self._close_call(fact.id == "cut", events)
            elif kind == "deviation":
                why = f"at character {self.length + fact.call}: {fact.text}"
                if fact.id and self._fails:
                    raise MalformedCallError(why)
                self._deviate(why, events)
            else:
                self._has_thought |= fact.text == "thoughts"
                if self._marks is not None and fact.text == "thoughts":
                    self.go_on("content", self._marks[kind == "section_ended"], events)
                    continue
                if kind != "malformed":
                    self._is_new, self._calm = True, ""
                events.append(fact)

    def go_on(self, kind: EventKind, text: str, events: list[Event]) -> None:
        """Take text of a kind, which joins what has been read."""
        parts, call = self.parts, -1
        if kind == "arguments":
            call = self._calls - 1
            if parts[-1].is_hidden:
                parts[-1].pieces.append(text)
                return
            if parts[-1].is_custom:
                self._tell_input(text, call, events)
                return
            if self._certain is not None:
                text = self._certain.feed(text)
                if not text:
                    return
        elif kind != self._calm or text[-1] in _SPACE:
            kind, text = self._told_as(kind, text)
            if not text:
                return
        parts[-1].pieces.append(text)
        if call >= 0:
            self._tell_arguments(text, call, events)
        else:
            events.append(_new_tuple(Event, (kind, text, call, "", "")))

    def _tell_arguments(self, text: str, call: int, events: list[Event]) -> None:
        events.append(_new_tuple(Event, ("arguments", text, call, "", "")))
        if self._value_reader is not None:
            self._tell_parts(self._value_reader, text, call, events)

    def _told_as(self, kind: EventKind, text: str) -> tuple[EventKind, str]:
        """As what text of a kind is given, and how much of it; it belongs to the last part then."""
        told: EventKind = "content" if kind == "thought" and self._marks is not None else kind
        text = self._without_ends(told, text)
        if text and (self._is_new or not self.parts or self.parts[-1].kind != told):
            self.parts.append(MessagePart(told))
            self._is_new = False
        self._calm = kind if text and told == kind and self._spaces[kind] == "" else ""
        return told, text

    def _without_ends(self, kind: EventKind, text: str) -> str:
        """What of thoughts or content is given: white space at an end waits until more of them follows, and
        so do line breaks between thoughts and the content after them, unless they are part of it."""
        space = self._spaces[kind]
        if kind not in self._trimmed:
            if space is None and self._has_thought:
                text = text.lstrip("\r\n")
            if text:
                self._spaces[kind] = ""
            return text
        text = text.lstrip(_SPACE) if space is None else space + text
        if not text:
            return text
        waiting = text[len(text.rstrip(_SPACE)) :][-MAX_SPACE:]
        self._spaces[kind] = waiting
        return text[: len(text) - len(waiting)]

    def _tell_input(self, text: str, call: int, events: list[Event]) -> None:
        """Take what the arguments of a custom tool's call go on with: its text is that of their members."""
        grown: list[tuple[str, str]] = []
        try:
            assert self._value_reader is not None
            self._value_reader.feed_into(text, grown)
        except ValueError as error:
            self._deviate(f"the input of call {call} cannot be read: {error}", events)
        given = "".join(one for _, one in grown)
        if given:
            self.parts[-1].pieces.append(given)
            events.append(Event("arguments", given, call, INPUT))

    def _tell_parts(self, reader: ValueReader, text: str, call: int, events: list[Event]) -> None:
        """Report what the arguments of a call go on with by their parts, as far as that can be done."""
        grown: list[tuple[str, str]] = []
        fault = None
        try:
            reader.feed_into(text, grown)
        except ValueError as error:
            self._value_reader, fault = None, error
        events += [Event("value", one, call, pointer) for pointer, one in grown]
        if fault is not None:
            self._deviate(
                f"the arguments of call {call} are not told by their parts any more: {fault}", events
            )

    def _deviate(self, why: str, events: list[Event]) -> None:
        """Report a deviation, if it is the first."""
        if self.deviation is None:
            self.deviation = why
            events.append(Event("deviation", why))

    def _begin_call(self, name: str, given: str, events: list[Event]) -> None:
        call = self._calls
        known = self._ids.get((call, name, given))
        if known is None:
            known = self._ids[call, name, given] = self._new_id(call, name, given)
        call_id, fault = known
        if fault is not None:
            self._deviate(f"of call {call}: {fault}", events)
        self._calm = ""
        self.parts.append(MessagePart("call", call, name, call_id, name in self._options.customs))
        if self._unfinished in ("drop", "hide"):
            self.parts[-1].is_hidden = True
        else:
            self._tell_call(events)

    def _tell_call(self, events: list[Event]) -> None:
        part = self.parts[-1]
        self._calls += 1
        self._value_reader = ValueReader(values=False) if self._values or part.is_custom else None
        self._certain = CertainJson() if self._unfinished == "close" and not part.is_custom else None
        events.append(Event("call_began", part.name, part.index, part.pointer, part.id))

    def _show_call(self, events: list[Event]) -> None:
        """Tell of a call that is whole, if that has not been done."""
        part = self.parts[-1]
        if part.is_hidden and self._unfinished == "drop":
            part.is_hidden = False
            self._tell_call(events)
            self._tell_arguments(part.text, part.index, events)

    def _end_call(self, is_complete: bool, events: list[Event]) -> None:
        part = self.parts[-1]
        part.is_complete, self._value_reader, self._certain = is_complete, None, None
        if is_complete and not part.is_hidden:
            events.append(Event("call_complete", "", part.index))

    def _close_call(self, is_cut: bool, events: list[Event]) -> None:
        """A call ends within its arguments: what was told of them becomes JSON, unless it is to stay open."""
        part = self.parts[-1]
        certain, self._certain = self._certain, None
        if certain is not None and (rest := certain.cut()):
            self.go_on("arguments", rest, events)
        text = part.text
        is_json = not part.is_hidden and not part.is_custom
        if is_json and (not is_cut or self._unfinished == "close"):
            self.go_on("arguments", completion(text), events)
        if not is_cut:
            events.append(Event("call_broken", text, part.index))
        self._end_call(False, events)

    def _new_id(self, call: int, name: str, own: str) -> tuple[str, str | None]:
        """The id of a call; where `call_id` gives none, the one that it would have without, and why."""
        fault = None
        if self._call_id is not None:
            try:
                made = call_plugin("call_id", self._call_id, call, name, own)
            except PluginFault as error:
                fault = str(error)
            else:
                if isinstance(made, str):
                    return made, None
                fault = f"call_id gave {quoted(made)}, not a string"
        return own or f"{self._prefix}{call:04}", fault

    def content_value(self) -> Any:
        """The value of the content, read as JSON."""
        contents = [part for part in self.parts if part.kind == "content"]
        if len(contents) > 1:
            raise ValueError("the content is not one JSON value: calls or thoughts stand within it")
        return contents[0].value if contents else None


def _copies(
    values: ValueReader | None, certain: CertainJson | None
) -> tuple[ValueReader | None, CertainJson | None]:
    return values and values.copy(), certain and certain.copy()
