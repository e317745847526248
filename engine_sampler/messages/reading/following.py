"""Follows a definition through some text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ..arguments import skip_space
from ..definition import CallForm, Opener, longest
from ..events import DeviationError, Event, EventKind
from ..templates import FAILED, MAX_GAP, PARTIAL, Found
from .places import MessagePlace, MessageStep

if TYPE_CHECKING:
    from .automaton import MessageAutomaton

MAX_SPACE = 4_096
"""Maximum length of white space that is held back: after so much, it is content."""

GROWING = ("thought", "content", "arguments")
"""The kinds of events whose texts go on with each other."""

_SPACE = " \t\r\n"
_new_tuple = tuple.__new__
"""Makes named tuples three times as fast."""


class Following(MessagePlace):
    """Goes on from a place with more text, and becomes the place to which that leads."""

    __slots__ = ("_automaton", "_facts")

    def __init__(self, automaton: MessageAutomaton, place: MessagePlace) -> None:
        self.mode, self.pending, self.space = place.mode, place.pending, place.space
        self.is_open, self.was_thinking = place.is_open, place.was_thinking
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
        """What the end of the text does: what was held back is what it looks like."""
        held, self.pending = self.pending, ""
        mode = self.mode
        if mode in ("thoughts", "inside"):
            self._text("thought", held)
        elif mode in ("free", "rest"):
            self._content(held)
            if not self.has_parts:
                self._text("content", self.space)
        elif mode != "stopped":
            if mode == "arguments" and self._arguments_end(held):
                return self._step(0)
            if mode == "end":
                self._complete()
            self._leave(0, "the text ends within a call")
            self._content(held)
        return self._step(0)

    def _step(self, length: int) -> MessageStep:
        facts = self._facts
        place = self._automaton.known(self)
        del self._automaton, self._facts
        if len(facts) == 1 and facts[0][0] in GROWING:
            return _new_tuple(MessageStep, (place, length, facts[0][0], facts[0][1], ()))
        return _new_tuple(MessageStep, (place, length, None, "", tuple(joined(facts))))

    # --- Free text ---

    def _free(self, text: str, at: int) -> int:
        begin = at
        while True:
            is_first = not self.has_parts and not self.is_open and begin == at
            candidate = self._automaton.scans[is_first].search(text, at)
            if candidate is None:
                self._content(text[begin:])
                return len(text)
            at = candidate.start()
            if is_first and text[begin:at].strip(_SPACE):
                is_first = False
            opener, mark = self._automaton.openers[is_first].find(text, at)
            if mark.end == PARTIAL:
                self._content(text[begin:at])
                return at
            if (
                opener is None
                or opener.kind == "excluded"
                or (opener.kind == "trigger" and self._automaton.resume)
            ):
                if opener is not None:
                    self._deviate(at, _EXCLUDED if opener.kind == "excluded" else _NO_CALL)
                at = max(at + 1, mark.end)
                continue
            if opener.kind == "stop":
                self.mode = "stopped"
                at = mark.end if self._automaton.definition.includes_stop else at
            self._content(text[begin:at])
            if opener.kind == "stop":
                return at
            if opener.kind == "trigger":
                return self._leave(at, _NO_CALL)
            self._begin(opener, mark)
            return mark.end

    def _begin(self, opener: Opener, mark: Found) -> None:
        """What an opener begins."""
        kind = opener.kind if opener.kind != "header" else mark.id
        self._end_segment()
        if kind == "thoughts":
            self._emit_section("thoughts", True)
            self.mode = "thoughts"
        elif kind in ("call", "section"):
            if kind == "section":
                self._emit_section("calls", True)
                self.in_section = True
            assert opener.form is not None
            self._begin_call(opener.form, mark._replace(id="") if opener.kind == "header" else mark)

    def _end_segment(self) -> None:
        self.space, self.is_open, self.was_thinking = "", False, False

    def _content(self, text: str) -> None:
        """Text that is content, but for white space beside thoughts and calls."""
        if not self.is_open:
            inside = text.lstrip(_SPACE)
            self.space += text[: len(text) - len(inside)]
            if not inside and len(self.space) <= MAX_SPACE:
                return
            space, self.space = self.space, ""
            if self.was_thinking:
                space = space.removeprefix(self._automaton.definition.after_thinking)
            text, self.is_open = space + inside, True
        if text:
            self._text("content", text)

    def _rest(self, text: str, at: int) -> int:
        self._content(text[at:])
        return len(text)

    def _stopped(self, text: str, at: int) -> int:
        return len(text)

    # --- Thoughts ---

    def _inside(self, text: str, at: int) -> int:
        """The beginning of an answer within thoughts: the mark that opens them may come once more."""
        begin, after = self._automaton.definition.thinking_begin, at
        if begin is not None:
            after = skip_space(text, at)
            if after == len(text) and after - at <= MAX_GAP:
                return at
            end = begin.match(text, after).end
            if end == PARTIAL and after < len(text):
                return at
            at = end if end >= 0 and after - at <= MAX_GAP else at
        self._emit_section("thoughts", True)
        self.mode = "thoughts"
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
            if opener.kind == "stop" and mark.end >= 0:
                self.mode = "stopped"
                at = mark.end if self._automaton.definition.includes_stop else at
            self._text("thought", text[begin:at])
            if mark.end == PARTIAL or opener.kind == "stop":
                return at
            self._emit_section("thoughts", False)
            self.mode, self.was_thinking = "free", True
            if opener.kind != "thinking end":
                self._deviate(at, "a call begins within thoughts")
                self._begin(opener, mark)
            return mark.end

    # --- Calls ---

    def _begin_call(self, form: CallForm, found: Found) -> None:
        name = form.name or found.name
        self.form, self.reader = form, form.reader(name)
        given = "" if found.id.isdigit() else found.id
        self._facts.append(Event("call_began", name, id=given))
        self.has_parts = True
        self.mode = "arguments"

    def _arguments(self, text: str, at: int) -> int:
        assert self.reader is not None
        out: list[str] = []
        try:
            at = self.reader.read(text, at, out)
        except DeviationError as error:
            self._emit_arguments(out)
            return self._leave(error.at, str(error))
        self._emit_arguments(out)
        if self.reader.is_done:
            self.mode = "end"
        return at

    def _arguments_end(self, held: str) -> bool:
        """Whether a call is whole at the end of the text, which is within its arguments."""
        assert self.reader is not None
        out: list[str] = []
        self.reader.finish(held, out)
        if self.reader.is_done:
            self._emit_arguments(out)
            self._end("", 0)
        return bool(out)

    def _emit_arguments(self, out: list[str]) -> None:
        self._emit("arguments", self._automaton.alphabet.json("".join(out)))

    def _end(self, text: str, at: int) -> int:
        assert self.form is not None
        end = self.form.end.match(text, at).end
        if end == PARTIAL:
            return at
        self._complete()
        if end == FAILED:
            return self._leave(at, "a call does not end after its arguments")
        self.mode = "section" if self.in_section else "free"
        self._end_segment()
        return end

    def _complete(self) -> None:
        self._facts.append(Event("call_complete"))
        self.reader = self.form = None

    def _section(self, text: str, at: int) -> int:
        definition = self._automaton.definition
        at = skip_space(text, at)
        if at == len(text):
            return at
        assert definition.section_end is not None
        end = definition.section_end.match(text, at).end if definition.section_end else at
        separated = definition.separator.match(text, at).end if definition.separator else at
        form, mark = longest(definition.forms, text, max(separated, at))
        if mark.end >= 0:
            self._begin_call(form, mark)
            return mark.end
        if end >= 0:
            self._emit_section("calls", False)
            self.in_section, self.mode = False, "free"
            self._end_segment()
            return end
        if PARTIAL in (end, separated, mark.end):
            return at
        return self._leave(at, "what follows a call is neither another one nor the end")

    # --- Leaving the definition ---

    def _deviate(self, at: int, why: str) -> None:
        """Say that the text leaves its definition."""
        self._facts.append(Event("deviation", why, at))

    def _leave(self, at: int, why: str) -> int:
        """From here on, the text is content."""
        self._deviate(at, why)
        if self.in_section:
            self._emit_section("calls", False)
        held = self.reader.held if self.reader is not None else ""
        self.reader = self.form = None
        self.in_section = False
        self.mode = "free" if self._automaton.resume else "rest"
        self.is_open = True
        self._content(held)
        return at

    # --- Facts ---

    def _emit_section(self, name: str, begins: bool) -> None:
        self._facts.append(Event("section_began" if begins else "section_ended", name))

    def _text(self, kind: EventKind, text: str) -> None:
        """Thoughts or content."""
        self._emit(kind, self._automaton.alphabet.plain(text))

    def _emit(self, kind: EventKind, text: str) -> None:
        if text:
            self.has_parts = True
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
