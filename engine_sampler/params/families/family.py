"""`Family`: how the models of a family write thoughts and calls."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ...base.arguments import one_of

THINK = ("<think>", "</think>")
PLACES = re.compile(r"\{name\}|\{id\}")
"""The places in the texts of a `Family`."""

Reasoning = Literal["disabled", "enabled", "auto"]
"""Whether an answer has thoughts before its calls."""


def check_reasoning(value: Any) -> None:
    """Raise `ParameterError` for an argument `reasoning` that is not one of `Reasoning`."""
    one_of(get_args(Reasoning), "reasoning", value)


@dataclass(frozen=True)
class Family:
    """How the models of a family call tools, and how they think before that.

    begin      what precedes a call's arguments: `{name}` is the function's name, `{id}` a number
    trailer    what may stand after them: a call's id, at `{id}`
    end        what follows
    style      how the arguments are written: a style of the structural tag's json_schema
    section    what stands around all calls that are made at once; None: calls may stand anywhere in the text
    separator  what stands between the calls of a section
    lead       what precedes a section at the beginning of an answer
    trigger    what can only be the beginning of a call in free text; "": all that precedes calls in
               `section`, or else `begin` up to the first placeholder, without white space at its end
    thinking   the marks around the model's thoughts; None: it has none
    after_thinking  what follows them; in the layout "blocks", it precedes each block but the first one
    closing         what is put after the second mark where thoughts are cut short, so that an answer follows
    starts_inside   whether the chat template opens the thoughts, so that a text begins within them
    skipped    what may stand in place of thoughts that are left out
    excludes   what occurs neither in thoughts nor in free text, besides the marks around thoughts; if
               there is anything, calls do not begin in thoughts
    before     what may precede thoughts, and calls where nothing else may, a pattern: white space of some
               templates
    after      what may follow calls where nothing else may, a pattern
    id_pattern what `{id}` is, a pattern
    variants   other ways in which models of the family write calls: all but what concerns thoughts. Sections
               have the same ends and separators
    reads      ways in which such models write calls now and then: they are read, and never demanded
    reads_thinking  other marks around thoughts, which are read as well
    content_marks   marks around content, or before calls, which are read and dropped
    calls_end_thoughts  whether a call that begins within thoughts ends them
    layout     "text": free text with calls; others are functions in `grammar.bodies.tools.building`
    content    the marks around the text of an answer; None: there are none. In the layout "blocks" each text
               has them; in "text" they may follow thoughts
    text_first whether calls always follow a text, be it empty, within which an answer without thoughts begins
    joint      what stands between the text of an answer and its calls, in the layout "blocks"
    finish     what follows the last of them there
    stops      which of these marks end the text in most vocabularies: each may be missing at its end
    """

    begin: str
    end: str
    style: str = "json"
    section: tuple[str, str] | None = None
    separator: str = ""
    trailer: str = ""
    lead: str = ""
    trigger: str = ""
    thinking: tuple[str, str] | None = THINK
    after_thinking: str = ""
    closing: str = ""
    starts_inside: bool = True
    skipped: str = ""
    excludes: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    id_pattern: str = "[0-9]+"
    variants: tuple[Family, ...] = ()
    reads: tuple[Family, ...] = ()
    reads_thinking: tuple[tuple[str, str], ...] = ()
    content_marks: tuple[str, ...] = ()
    calls_end_thoughts: bool = False
    layout: str = "text"
    content: tuple[str, str] | None = None
    text_first: bool = False
    joint: str = ""
    finish: str = ""
    stops: tuple[str, ...] = ()

    @property
    def closing_marks(self) -> tuple[str, ...]:
        """What may follow the text of an answer, or its last block."""
        found = ((self.content or ("", ""))[1], self.finish, *self.stops)
        return tuple(dict.fromkeys(mark for mark in found if mark))

    @property
    def trigger_text(self) -> str:
        """What can only be the beginning of a call in free text."""
        begin = self.section[0] if self.section else self.begin.partition("{")[0]
        return self.trigger or begin.rstrip()
