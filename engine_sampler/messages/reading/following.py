"""Follows a definition through some text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING

from ..arguments import skip_space
from ..arguments.reader import MAX_HELD
from ..definition import CallForm, Opener
from ..events import DeviationError, Event, EventKind
from ..templates import FAILED, MAX_GAP, PARTIAL, Found, WrappedFound
from .places import MessagePlace, MessageStep, UnnamedCall

if TYPE_CHECKING:
    from .automaton import MessageAutomaton

MAX_SPACE = 4_096
"""Maximum length of white space that is held back: after so much, it is content."""

PARTS = ("thought", "content", "arguments")
"""The kinds of events whose texts are parts of the message."""

GROWING = (*PARTS, "malformed")
"""The kinds of events whose texts go on with each other."""

_SPACE = " \t\r\n"
_BETWEEN = {"call": f"{_SPACE},;"}
"""What is not content between calls, besides white space."""
_GAP = re.compile(r"(?:[\s,;]|\[(?!/?(?:[A-Z_]{1,32}\]|[A-Z_]{0,32}\Z)))*")
"""What stands between the calls of a section. A bracket may begin a mark."""
_MARK_BEGUN = re.compile(r"\[/?[A-Z_]{0,32}\Z")
_SCRAPS = re.compile(r"[\s}\])`]*")
"""What may be left of the end of a call that is not as defined."""
_new_tuple = tuple.__new__
"""Makes named tuples three times as fast."""


class Following(MessagePlace):
    """Goes on from a place with more text, and becomes the place to which that leads."""

    __slots__ = ("_automaton", "_facts")

    def __init__(self, automaton: MessageAutomaton, place: MessagePlace) -> None:
        self.mode, self.pending, self.space = place.mode, place.pending, place.space
        self.is_open, self.after, self.unnamed = place.is_open, place.after, place.unnamed
        self.in_section, self.has_parts = place.in_section, place.has_parts
        reader = place.reader
        self.form, self.reader = place.form, reader and reader.copy()
        self._automaton = automaton
        self._facts: list[Event] = []

    def advance(self, text: str) -> MessageStep:
        """What more text does."""
        text = self.pending + text
        at, before = 0, ("", -1)
        while before != (self.mode, at):
            before = self.mode, at
            at = _READ[self.mode](self, text, at)
        self.pending = text[at:]
        return self._step(at)

    def finish(self) -> MessageStep:
        """What the end of the text does: what was held back is what it looks like, unless it is markup."""
        held, self.pending = self.pending, ""
        mode = self.mode
        if mode == "arguments":
            self._cut(held)
        elif mode == "end":
            self._complete("", "")
        elif mode == "section":
            definition = self._automaton.definition
            if not (definition.ends_sections or self._is(held, definition.section, "section end")):
                self._deviate(0, "the text ends within a section of calls")
        elif mode == "free" and self._is_dropped(held):
            pass
        elif mode != "stopped" and self._is(held, self._automaton.definition.openers, *_MARKS):
            self._text("malformed", held)
            self._deviate(0, "the text ends within markup")
        elif mode in ("thoughts", "inside"):
            self._text("thought", held)
        elif mode in ("free", "malformed"):
            self._out(held)
        if self.in_section:
            self._emit_section("calls", False)
        elif mode == "free" and not self.has_parts:
            self._text("content", self.space)
        return self._step(0)

    def _is(self, held: str, openers: Sequence[Opener], *kinds: str) -> bool:
        """Whether text that was held back at the end begins with what is of some kinds."""
        return any(one.kind in kinds and one.begin.match(held, 0).end >= 0 for one in openers)

    def _is_dropped(self, held: str) -> bool:
        """Whether text that was held back at the end is a mark around content, and white space at most."""
        marks = (one.begin for one in self._automaton.definition.openers if one.kind == "content")
        ends = (mark.match(held, 0).end for mark in marks)
        return any(end >= 0 and not held[end:].strip(_SPACE) for end in ends)

    def _cut(self, held: str) -> None:
        """The text ends within arguments, or behind them, where no mark says so."""
        out: list[str] = []
        assert self.reader is not None
        self.reader.finish(held, out)
        if not self.reader.is_done:
            with suppress(DeviationError):
                self.reader.read(held + _NO_MARK, 0, out)
        if self.reader.is_done:
            self._take_arguments(held, out)
            self._complete("", "")
            self.mode = "end"
        else:
            self._deviate(0, "the text ends within a call")
            self._text("malformed", self.reader.held + held)
            self._facts.append(Event("call_broken", id="cut"))

    def _step(self, length: int) -> MessageStep:
        facts = self._facts
        place = self._automaton.known(self)
        del self._automaton, self._facts
        if len(facts) == 1 and facts[0][0] in PARTS:
            return _new_tuple(MessageStep, (place, length, facts[0][0], facts[0][1], ()))
        return _new_tuple(MessageStep, (place, length, None, "", tuple(joined(facts))))

    # --- Free text ---

    def _free(self, text: str, at: int) -> int:
        begin = at
        while True:
            is_first = not self.has_parts and not self.is_open and begin == at
            candidate = self._automaton.scans[is_first].search(text, at)
            if candidate is None:
                self._out(text[begin:])
                return len(text)
            at = candidate.start()
            if is_first and text[begin:at].strip(_SPACE):
                is_first = False
            opener, mark = self._automaton.openers[is_first].find(text, at)
            if mark.end == PARTIAL:
                self._out(text[begin:at])
                return at
            if opener is None or opener.kind == "text":
                at = max(at + 1, mark.end)
                continue
            if opener.kind == "stop" and self._automaton.definition.includes_stop:
                at = mark.end
            self._out(text[begin:at])
            if opener.kind == "stop":
                self.mode = "stopped"
                return at
            self._begin(opener, mark, text, at)
            return mark.end

    def _begin(self, opener: Opener, mark: Found, text: str, at: int) -> None:
        """What an opener begins."""
        kind = opener.kind if opener.kind != "header" else mark.id
        self.mode = "free"
        if kind in ("trigger", "stray"):
            self._deviate(at, _NO_CALL if kind == "trigger" else _STRAY, kind == "trigger")
        if kind == "other" or (kind == "trigger" and self._automaton.definition.drops_malformed):
            self.mode = "malformed"
        if kind == "stray":
            return
        self._end_segment("")
        if kind == "thoughts":
            self.mode = "inside"
        elif kind == "section" and opener.form is None:
            self._emit_section("calls", True)
            self.in_section, self.mode = True, "section"
        elif kind in ("call", "section"):
            if kind == "section":
                self._emit_section("calls", True)
                self.in_section = True
            assert opener.form is not None
            self._begin_call(opener.form, mark._replace(id="") if opener.kind == "header" else mark, text, at)

    def _end_segment(self, after: str) -> None:
        self.space, self.is_open, self.after = "", False, after

    def _out(self, text: str) -> None:
        """Text that is free: content, or what is none."""
        if self.mode == "malformed":
            self._text("malformed", text)
        else:
            self._content(text)

    def _content(self, text: str) -> None:
        """Text that is content, but for white space beside thoughts and calls."""
        if not self.is_open:
            inside = text.lstrip(_BETWEEN.get(self.after, _SPACE))
            self.space += text[: len(text) - len(inside)]
            if not inside and len(self.space) <= MAX_SPACE:
                return
            space, self.space = self.space, ""
            if self.after == "thoughts":
                space = space.removeprefix(self._automaton.definition.after_thinking)
            text, self.is_open = space + inside, True
        if text:
            self._text("content", text)

    def _stopped(self, text: str, at: int) -> int:
        return len(text)

    # --- Thoughts ---

    def _inside(self, text: str, at: int) -> int:
        """The beginning of thoughts: the mark that opens them may come once more."""
        after = skip_space(text, at)
        if after - at <= MAX_GAP:
            if after == len(text):
                return at
            opener, mark = self._automaton.thinking_begins.find(text, after)
            if mark.end == PARTIAL:
                return at
            if opener is not None:
                return mark.end
        self._emit_section("thoughts", True)
        self.mode, self.has_parts = "thoughts", True
        return at

    def _thoughts(self, text: str, at: int) -> int:
        begin = at
        while True:
            candidate = self._automaton.thinking_first.search(text, at)
            if candidate is None:
                self._text("thought", text[begin:])
                return len(text)
            at = candidate.start()
            opener, mark = self._automaton.thinking_ends.find(text, at)
            if opener is None:
                at += 1
                continue
            is_stop = opener.kind == "stop" and mark.end >= 0
            if is_stop and self._automaton.definition.includes_stop:
                at = mark.end
            self._text("thought", text[begin:at])
            if mark.end == PARTIAL:
                return at
            if is_stop:
                self.mode = "stopped"
                return at
            self._emit_section("thoughts", False)
            self.mode = "free"
            self._end_segment("thoughts")
            if opener.kind == "thinking end":
                return mark.end
            self._deviate(at, "a call begins within thoughts")
            return at

    # --- Calls ---

    def _begin_call(self, form: CallForm, mark: Found, text: str, at: int) -> None:
        name = form.name or mark.name
        if isinstance(mark, WrappedFound) and form.wrapped is not None:
            form = form.wrapped
        self.form, self.reader = form, form.reader(name)
        given = "" if mark.id.isdigit() else mark.id
        if name:
            self._facts.append(Event("call_began", name, id=given))
        else:
            self.unnamed = UnnamedCall(given, text[at : mark.end])
        self.has_parts = True
        self.mode = "arguments"

    def _arguments(self, text: str, at: int) -> int:
        assert self.reader is not None
        out: list[str] = []
        begin = at
        try:
            at = self.reader.read(text, at, out)
        except DeviationError as error:
            self._take_arguments(text[begin : error.at], out)
            return self._break(error.at, str(error))
        self._take_arguments(text[begin:at], out)
        if self.unnamed is not None and len(self.unnamed.text) > MAX_HELD:
            return self._break(at, "the name of a call does not come")
        if self.reader.is_done:
            self.mode = "end"
        return at

    def _take_arguments(self, text: str, out: list[str]) -> None:
        arguments = self._automaton.alphabet.json("".join(out))
        if self.unnamed is None:
            self._emit("arguments", arguments)
        else:
            _, before, known = self.unnamed
            self.unnamed = self.unnamed._replace(text=before + text, arguments=known + arguments)

    def _end(self, text: str, at: int) -> int:
        assert self.form is not None
        if self.form.end.is_spaced:
            at = skip_space(text, at)
        end, name, call_id = self.form.end.match(text, at)
        if end == PARTIAL:
            return at
        if self.unnamed is not None:
            name = self._known_name(name)
            if not name:
                return self._break(at, "a call has no name")
        self._complete(name, call_id)
        self._end_segment("call")
        if end == FAILED:
            self._deviate(at, "a call does not end after its arguments")
            self.mode = "scraps"
            return at
        self.mode = "section" if self.in_section else "free"
        return end

    def _scraps(self, text: str, at: int) -> int:
        at = _SCRAPS.match(text, at).end()  # type: ignore[union-attr]
        if at < len(text):
            self.mode = "section" if self.in_section else "free"
        return at

    def _known_name(self, name: str) -> str:
        """The name of a call that did not come before its arguments."""
        assert self.form is not None
        assert self.unnamed is not None
        return self.form.allowed(name) if name else self.form.named_by(self.unnamed.arguments)

    def _complete(self, name: str, call_id: str) -> None:
        unnamed, self.unnamed = self.unnamed, None
        if unnamed is not None:
            self._facts.append(
                Event("call_began", name, id=unnamed.id or ("" if call_id.isdigit() else call_id))
            )
            self._emit("arguments", unnamed.arguments)
        self._facts.append(Event("call_complete"))
        self.reader = self.form = None

    def _section(self, text: str, at: int) -> int:
        at = _GAP.match(text, at).end()  # type: ignore[union-attr]
        if at == len(text) or _MARK_BEGUN.match(text, at):
            return at
        opener, mark = self._automaton.section.find(text, at)
        if mark.end == PARTIAL:
            return at
        if opener is not None and opener.form is not None:
            self._begin_call(opener.form, mark, text, at)
            return mark.end
        self._emit_section("calls", False)
        self.in_section, self.mode = False, "free"
        self._end_segment("call")
        if opener is None:
            return self._fail(at, "what stands in a section of calls is none, nor its end")
        return mark.end

    # --- Leaving the definition ---

    def _deviate(self, at: int, why: str, is_fault: bool = False) -> None:
        """Say that the text leaves its definition; with a fault, a call is none."""
        self._facts.append(Event("deviation", why, at, "", "fault" if is_fault else ""))

    def _break(self, at: int, why: str) -> int:
        """A call is not as defined within its arguments, or has no name."""
        assert self.reader is not None
        unnamed, held = self.unnamed, self.reader.held
        self.reader = self.form = self.unnamed = None
        if self.in_section:
            self._emit_section("calls", False)
        self.in_section = False
        if unnamed is None:
            self._facts.append(Event("call_broken"))
        else:
            held = unnamed.text
        self._end_segment("")
        self._fail(at, why)
        self._out(held)
        return at

    def _fail(self, at: int, why: str) -> int:
        """What follows is of a call that is not as defined, up to the next mark."""
        self._deviate(at, why, True)
        self.mode = "malformed" if self._automaton.definition.drops_malformed else "free"
        return at

    # --- Facts ---

    def _emit_section(self, name: str, begins: bool) -> None:
        self._facts.append(Event("section_began" if begins else "section_ended", name))

    def _text(self, kind: EventKind, text: str) -> None:
        """Thoughts, content, or what is neither."""
        self._emit(kind, self._automaton.alphabet.plain(text))

    def _emit(self, kind: EventKind, text: str) -> None:
        if text:
            self.has_parts = self.has_parts or kind != "malformed"
            self._facts.append(Event(kind, text))


def joined(events: Sequence[Event]) -> list[Event]:
    """Events with texts that go on with each other made one."""
    if len(events) < 2:
        return list(events)
    found: list[Event] = []
    for (kind, call, pointer), same in groupby(events, _continued):
        several = list(same)
        text = "".join(one.text for one in several)
        found += [Event(kind, text, call, pointer)] if kind in GROWING and len(several) > 1 else several
    return found


def _continued(event: Event) -> tuple[EventKind, int, str]:
    """What is the same in events of which one goes on with the other."""
    return event.kind, event.call, event.pointer


_NO_MARK = "\x00"
"""What no argument begins with: the end of arguments that end where none follows."""
_MARKS = ("trigger", "stray", "content", "thoughts")
_NO_CALL = "what can only be the beginning of a call is none"
_STRAY = "free text contains a mark that it never does"
_READ: dict[str, Callable[[Following, str, int], int]] = {
    "free": Following._free,
    "malformed": Following._free,
    "stopped": Following._stopped,
    "inside": Following._inside,
    "thoughts": Following._thoughts,
    "arguments": Following._arguments,
    "end": Following._end,
    "scraps": Following._scraps,
    "section": Following._section,
}
