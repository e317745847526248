"""What a parser reports of an answer, in the order of its text."""

from __future__ import annotations

from typing import Literal, NamedTuple

EventKind = Literal[
    "section_began",
    "section_ended",
    "thought",
    "content",
    "call_began",
    "arguments",
    "value",
    "call_complete",
    "call_broken",
    "malformed",
    "capture",
    "deviation",
]


class Event(NamedTuple):
    """One thing that is certain about an answer.

    kind     what it is: one of the kinds below
    text     of the answer or about it, by kind
    call     which call, from 0; -1 for what belongs to none
    pointer  which part of the arguments, by kind
    id       the call's or a rule's, by kind

    The kinds, and what the fields of each say:

    section_began, section_ended  text: "thoughts" or "calls"
    thought, content              text: what the answer goes on with
    call_began                    text: the function's name; id: the call's
    arguments                     text: what the call's arguments go on with, as JSON. Of a custom tool: what
                                  its input goes on with, as it is; pointer: "/input", as for call_began then
    value                         pointer: which part of the arguments (RFC 6901); text: what it goes on with,
                                  the characters of a string, or other JSON
    call_complete                 the call's arguments are whole
    call_broken                   the call ends before its arguments are whole, which are closed then; text:
                                  what they were
    malformed                     text: what markup goes on with that says nothing, and is no content
    capture                       id: the name of a rule of the grammar; text: what it matches. It comes at
                                  the end, in the order in which they end
    deviation                     text: where the answer leaves its definition, and how; or what else could
                                  not be told of it
    """

    kind: EventKind
    text: str = ""
    call: int = -1
    pointer: str = ""
    id: str = ""


class MalformedCallError(ValueError):
    """A call is not as defined, and the parser's `malformed` is "error"."""


class DeviationError(Exception):
    """The text leaves its definition at a position; raised by readers, and caught by the parser."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at
