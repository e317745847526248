"""Follows a definition through a growing text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from .alphabet import MarkerAlphabet
from .arguments import ArgumentsReader
from .definition import AnswerDefinition, CallForm, Opener, character_class, longest
from .events import DeviationError, Event, EventKind
from .message import MessagePart
from .templates import FAILED, MAX_GAP, PARTIAL, Found
from .value import ValueReader

MAX_SPACE = 4_096
"""Maximum length of white space that is held back: after so much, it is content."""

_SPACE = " \t\r\n"
_GROWING = ("thought", "content", "arguments")


class Following:
    """What a text has been so far, and what comes next.

    `_mode` is free (text), thoughts, inside (the beginning of an answer within thoughts), section (between
    its calls), arguments, end (of a call), rest (all that follows is content) or stopped (nothing counts).
    `_pending` is text that might be the beginning of something, and is not certain yet: at most as long as a
    beginning may be.

    special   finds in a text what may be more than text that goes on; None: any text may be
    going_on  the kind of the event of a text in which it finds nothing
    """

    def __init__(
        self,
        definition: AnswerDefinition,
        alphabet: MarkerAlphabet,
        resume: bool,
        values: bool,
        call_id: Callable[[int, str, str], str],
    ) -> None:
        self._definition, self._alphabet = definition, alphabet
        self._resume, self._values, self._call_id = resume, values, call_id
        self._scans = definition.candidates(False), definition.candidates(True)
        self._later = tuple(one for one in definition.openers if not one.only_first)
        self._thinking_ends = definition.thinking_ends()
        begins = (one.begin.first for one in self._thinking_ends)
        self._thinking_first = character_class(frozenset().union(*begins))
        self._mode = "inside" if definition.starts_inside else "free"
        self._pending = self._space = ""
        self._is_open = self._is_new = self._was_thinking = self._in_section = False
        self._reader: ArgumentsReader | None = None
        self._form: CallForm | None = None
        self._calls = self._read = 0
        self.deviation: str | None = None
        self.is_finished = False
        self.parts: list[MessagePart] = []
        self._events: list[Event] = []
        self._value_reader: ValueReader | None = None
        self.special: Callable[[str], object] | None = None
        self.going_on: EventKind = "content"
        self._choose_special()

    # --- State ---

    def state(self) -> tuple[Any, ...]:
        """The state, for `restore`."""
        parts, reader = self.parts, self._reader
        last = (len(parts[-1].pieces), parts[-1].is_complete) if parts else (0, False)
        return (
            (self._mode, self._pending, self._space, self._is_open, self._is_new, self._was_thinking),
            (self._in_section, self._form, self._calls, self._read, self.deviation),
            reader.copy() if reader else None,
            (len(parts), *last),
        )

    def restore(self, state: tuple[Any, ...]) -> None:
        """Go back to a state; there are no events then."""
        text, calls, reader, (count, pieces, is_complete) = state
        self._mode, self._pending, self._space, self._is_open, self._is_new, self._was_thinking = text
        self._in_section, self._form, self._calls, self._read, self.deviation = calls
        self._reader = reader.copy() if reader else None
        del self.parts[count:]
        if count:
            self.parts[-1].cut(pieces)
            self.parts[-1].is_complete = is_complete
        self.is_finished = False
        self._events = []
        self._value_reader = None
        if self._values and self._mode in ("arguments", "end"):
            self._value_reader = ValueReader()
            self._value_reader.feed(self.parts[-1].text)
        self._choose_special()

    def fork(self) -> Following:
        """A copy that goes on independently, without events."""
        new = object.__new__(Following)
        new.__dict__.update(self.__dict__)
        new.parts = [part.copy() for part in self.parts]
        is_finished = self.is_finished
        new.restore(self.state())
        new.is_finished = is_finished
        return new

    def taken(self) -> list[Event]:
        """The events since the last call, with texts that go on with each other made one."""
        events, self._events = self._events, []
        if len(events) < 2:
            return events
        joined: list[Event] = []
        for (kind, call, _), same in groupby(events, _continued):
            several = list(same)
            text = "".join(one.text for one in several)
            joined += [Event(kind, text, call)] if kind in _GROWING and len(several) > 1 else several
        return joined

    @property
    def is_thinking(self) -> bool:
        """Whether the text is within thoughts."""
        return self._mode in ("thoughts", "inside")

    def content_value(self) -> Any:
        """The value of the content, read as JSON."""
        contents = [part for part in self.parts if part.kind == "content"]
        if len(contents) > 1:
            raise ValueError("the content is not one JSON value: calls or thoughts stand within it")
        return contents[0].value if contents else None

    # --- Text ---

    def advance(self, text: str) -> None:
        """Go on with more text."""
        text = self._pending + text
        at, before = 0, ("", -1)
        while before != (self._mode, at):
            before = self._mode, at
            at = _READ[self._mode](self, text, at)
        self._pending = text[at:]
        self._read += at
        self._choose_special()

    def go_on(self, text: str) -> Event:
        """The event of more text in which `special` has found nothing; it is not among those of `taken`."""
        self._read += len(text)
        kind = self.going_on
        return self._joined(kind, text, self._calls - 1 if kind == "arguments" else -1)

    def keep(self, event: Event) -> None:
        """Put an event among those of `taken`."""
        self._events.append(event)

    def _choose_special(self) -> None:
        """Which characters may be more than text, now."""
        self.special = None
        if self._pending:
            return
        if self._mode == "free" and self._is_open:
            self.special, self.going_on = self._scans[0].search, "content"
        elif self._mode == "thoughts":
            self.special, self.going_on = self._thinking_first.search, "thought"
        elif self._mode == "arguments" and self._reader is not None and self._value_reader is None:
            self.special, self.going_on = self._reader.special, "arguments"

    def finish(self, rest: str) -> None:
        """The text ends: what was held back is what it looks like."""
        if rest:
            self.advance(rest)
        held, self._pending = self._pending, ""
        mode, self.is_finished = self._mode, True
        if mode in ("thoughts", "inside"):
            self._emit("thought", held)
        elif mode in ("free", "rest"):
            self._content(held)
            if not self.parts:
                self._emit("content", self._space)
        elif mode == "stopped":
            pass
        else:
            if mode == "end":
                self._complete()
            self._leave(0, "the text ends within a call")
            self._content(held)

    # --- Free text ---

    def _free(self, text: str, at: int) -> int:
        begin = at
        while True:
            is_first = not self.parts and not self._is_open and begin == at
            candidate = self._scans[is_first].search(text, at)
            if candidate is None:
                self._content(text[begin:])
                return len(text)
            at = candidate.start()
            if is_first and text[begin:at].strip(_SPACE):
                is_first = False
            openers = self._definition.openers if is_first else self._later
            opener, found = _opener_in(openers, text, at)
            if found.end == PARTIAL:
                self._content(text[begin:at])
                return at
            if opener is None or opener.kind == "excluded" or (opener.kind == "trigger" and self._resume):
                if opener is not None:
                    self._deviate(at, _EXCLUDED if opener.kind == "excluded" else _NO_CALL)
                at = max(at + 1, found.end)
                continue
            self._content(text[begin:at])
            if opener.kind == "stop":
                self._mode = "stopped"
                return at
            if opener.kind == "trigger":
                return self._leave(at, _NO_CALL)
            self._begin(opener, found)
            return found.end

    def _begin(self, opener: Opener, found: Found) -> None:
        """What an opener begins."""
        kind = opener.kind if opener.kind != "header" else found.id
        self._end_segment()
        if kind == "thoughts":
            self._emit_section("thoughts", True)
            self._mode = "thoughts"
        elif kind in ("call", "section"):
            if kind == "section":
                self._emit_section("calls", True)
                self._in_section = True
            assert opener.form is not None
            self._begin_call(opener.form, found._replace(id="") if opener.kind == "header" else found)

    def _end_segment(self) -> None:
        self._space, self._is_open, self._was_thinking = "", False, False

    def _content(self, text: str) -> None:
        """Text that is content, but for white space beside thoughts and calls."""
        if not self._is_open:
            inside = text.lstrip(_SPACE)
            self._space += text[: len(text) - len(inside)]
            if not inside and len(self._space) <= MAX_SPACE:
                return
            space, self._space = self._space, ""
            if self._was_thinking:
                space = space.removeprefix(self._definition.after_thinking)
            text, self._is_open = space + inside, True
        if text:
            self._emit("content", text)

    def _rest(self, text: str, at: int) -> int:
        self._content(text[at:])
        return len(text)

    def _stopped(self, text: str, at: int) -> int:
        return len(text)

    # --- Thoughts ---

    def _inside(self, text: str, at: int) -> int:
        """The beginning of an answer within thoughts: the mark that opens them may come once more."""
        begin, after = self._definition.thinking_begin, at
        if begin is not None:
            after = len(text) - len(text[at:].lstrip(_SPACE))
            if after == len(text) and after - at <= MAX_GAP:
                return at
            end = begin.match(text, after).end
            if end == PARTIAL and after < len(text):
                return at
            at = end if end >= 0 and after - at <= MAX_GAP else at
        self._emit_section("thoughts", True)
        self._mode = "thoughts"
        return at

    def _thoughts(self, text: str, at: int) -> int:
        begin = at
        while True:
            candidate = self._thinking_first.search(text, at)
            if candidate is None:
                self._emit("thought", text[begin:])
                return len(text)
            at = candidate.start()
            opener, found = _opener_in(self._thinking_ends, text, at)
            if opener is None:
                at += 1
                continue
            self._emit("thought", text[begin:at])
            if found.end == PARTIAL:
                return at
            if opener.kind == "stop":
                self._mode = "stopped"
                return at
            self._emit_section("thoughts", False)
            self._mode, self._was_thinking = "free", True
            if opener.kind != "thinking end":
                self._deviate(at, "a call begins within thoughts")
                self._begin(opener, found)
            return found.end

    # --- Calls ---

    def _begin_call(self, form: CallForm, found: Found) -> None:
        name = form.name or found.name
        self._form, self._reader = form, form.reader(name)
        call_id = self._call_id(self._calls, name, "" if found.id.isdigit() else found.id)
        self.parts.append(MessagePart("call", self._calls, name, call_id))
        self._events.append(Event("call_began", name, self._calls, "", call_id))
        self._calls += 1
        self._mode = "arguments"
        self._value_reader = ValueReader() if self._values else None

    def _arguments(self, text: str, at: int) -> int:
        assert self._reader is not None
        out: list[str] = []
        try:
            at = self._reader.read(text, at, out)
        except DeviationError as error:
            self._emit_arguments(out)
            return self._leave(error.at, str(error))
        self._emit_arguments(out)
        if self._reader.is_done:
            self._mode = "end"
        return at

    def _emit_arguments(self, out: list[str]) -> None:
        text = self._alphabet.json("".join(out))
        if not text:
            return
        self._emit("arguments", text)
        if self._value_reader is not None:
            self._events += [
                Event("value", one, self._calls - 1, pointer)
                for pointer, one in self._value_reader.feed(text)
            ]

    def _end(self, text: str, at: int) -> int:
        assert self._form is not None
        found = self._form.end.match(text, at).end
        if found == PARTIAL:
            return at
        self._complete()
        if found == FAILED:
            return self._leave(at, "a call does not end after its arguments")
        self._mode = "section" if self._in_section else "free"
        self._end_segment()
        return found

    def _complete(self) -> None:
        self.parts[-1].is_complete = True
        self._events.append(Event("call_complete", "", self._calls - 1))
        self._reader = self._form = self._value_reader = None

    def _section(self, text: str, at: int) -> int:
        definition = self._definition
        at = len(text) - len(text[at:].lstrip(_SPACE))
        if at == len(text):
            return at
        assert definition.section_end is not None
        end = definition.section_end.match(text, at).end if definition.section_end else at
        separated = definition.separator.match(text, at).end if definition.separator else at
        form, found = longest(definition.forms, text, max(separated, at))
        if found.end >= 0:
            self._begin_call(form, found)
            return found.end
        if end >= 0:
            self._emit_section("calls", False)
            self._in_section, self._mode = False, "free"
            self._end_segment()
            return end
        if PARTIAL in (end, separated, found.end):
            return at
        return self._leave(at, "what follows a call is neither another one nor the end")

    # --- Leaving the definition ---

    def _deviate(self, at: int, why: str) -> None:
        """Report where the text first leaves its definition."""
        if self.deviation is None:
            self.deviation = f"at character {self._read + at}: {why}"
            self._events.append(Event("deviation", self.deviation))

    def _leave(self, at: int, why: str) -> int:
        """From here on, the text is content."""
        self._deviate(at, why)
        if self._in_section:
            self._emit_section("calls", False)
        held = self._reader.held if self._reader is not None else ""
        self._reader = self._form = self._value_reader = None
        self._in_section = False
        self._mode = "free" if self._resume else "rest"
        self._is_open = True
        self._content(held)
        return at

    # --- Events ---

    def _emit_section(self, name: str, begins: bool) -> None:
        self._events.append(Event("section_began" if begins else "section_ended", name))
        self._is_new = True

    def _emit(self, kind: EventKind, text: str) -> None:
        """Text of a kind; it joins what has been read."""
        if not text:
            return
        if kind == "arguments":
            self._events.append(self._joined(kind, text, self._calls - 1))
        else:
            self._events.append(self._joined(kind, self._alphabet.plain(text), -1))

    def _joined(self, kind: EventKind, text: str, call: int) -> Event:
        """The event of text of a kind, which joins what has been read."""
        parts = self.parts
        if call < 0 and (self._is_new or not parts or parts[-1].kind != kind):
            parts.append(MessagePart(kind))
            self._is_new = False
        parts[-1].pieces.append(text)
        return tuple.__new__(Event, (kind, text, call, "", ""))  # which is three times as fast


def _opener_in(openers: Sequence[Opener], text: str, at: int) -> tuple[Opener | None, Found]:
    """What begins at a position of a text: a partial match if there is any, else the longest one."""
    best: tuple[Opener | None, Found] = (None, Found(FAILED))
    for opener in openers:
        found = opener.begin.match(text, at)
        if found.end == PARTIAL:
            return opener, found
        is_text = opener.kind in ("excluded", "trigger")
        if found.end >= 0 and (best[0] is None or (not is_text and found.end > best[1].end)):
            best = opener, found
    return best


def _continued(event: Event) -> tuple[EventKind, int, str]:
    """What is the same in events of which one goes on with the other."""
    return event.kind, event.call, event.pointer


_NO_CALL = "what can only be the beginning of a call is none"
_EXCLUDED = "free text contains a mark that it never does"
_READ: dict[str, Callable[[Following, str, int], int]] = {
    "free": Following._free,
    "rest": Following._rest,
    "stopped": Following._stopped,
    "inside": Following._inside,
    "thoughts": Following._thoughts,
    "arguments": Following._arguments,
    "end": Following._end,
    "section": Following._section,
}
