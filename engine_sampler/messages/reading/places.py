"""Where a text is in its definition, and what more text makes of that."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import NamedTuple

from ..arguments import ArgumentsReader
from ..definition import CallForm
from ..events import Event, EventKind

MAX_KEY = 256
"""Maximum length of the texts in the key of a place: others are not met again."""


class MessageStep(NamedTuple):
    """What some text does.

    place   where it leads
    length  how many characters of what was held back, and of it, are certain then
    kind    "thought", "content" or "arguments" if it is no more than `text` of this kind; "": see `facts`
    text    see above
    facts   what it says; `Reading` makes events of them
    """

    place: MessagePlace
    length: int
    kind: EventKind | None
    text: str
    facts: tuple[Event, ...]


class UnnamedCall(NamedTuple):
    """A call whose name has not come yet: its id, its text, and its arguments so far."""

    id: str
    text: str = ""
    arguments: str = ""


class MessagePlace:
    """Where a text is: a value, which does not change.

    mode        free (text), malformed (text that is no content), inside (the beginning of thoughts),
                thoughts, section (between its calls), arguments, end (of a call), scraps (of an end that is
                none), or stopped (nothing counts)
    pending     text that might be the beginning of something, and is not certain yet: at most as long as a
                beginning may be
    space       white space that is content if other content follows it
    is_open     whether the text is within content
    after       what has just ended: "thoughts", "call" or ""
    in_section  whether it is in a section of calls
    has_parts   whether anything has been read
    form, reader    of the call within which the text is
    unnamed     that call, while its name has not come

    special     finds in a text what may be more than text that goes on; None: any text may be
    going_on    the kind of the event of a text in which it finds nothing
    is_thinking whether the text is within thoughts
    steps       what is known to follow, by token id or text. It grows
    """

    __slots__ = (
        "after",
        "form",
        "going_on",
        "has_parts",
        "in_section",
        "is_open",
        "is_thinking",
        "mode",
        "pending",
        "reader",
        "space",
        "special",
        "steps",
        "unnamed",
    )

    mode: str
    pending: str
    space: str
    is_open: bool
    after: str
    in_section: bool
    has_parts: bool
    form: CallForm | None
    reader: ArgumentsReader | None
    unnamed: UnnamedCall | None
    special: Callable[[str], object] | None
    going_on: EventKind
    is_thinking: bool
    steps: dict[int | str, MessageStep]

    def key(self) -> Hashable | None:
        """The place as a value; None if it is long."""
        reader = self.reader
        held = len(reader.held) if reader is not None else 0
        held += sum(map(len, self.unnamed or ()))
        if len(self.pending) + len(self.space) + held > MAX_KEY:
            return None
        return _values(self), reader and reader.key()


class FirstPlace(MessagePlace):
    """The place where an answer begins."""

    __slots__ = ()

    def __init__(self, starts_inside: bool) -> None:
        self.mode = "inside" if starts_inside else "free"
        self.pending = self.space = self.after = ""
        self.is_open = self.in_section = self.has_parts = False
        self.form = self.reader = self.unnamed = None


_values = attrgetter(
    "mode", "pending", "space", "is_open", "after", "in_section", "has_parts", "form", "unnamed"
)
