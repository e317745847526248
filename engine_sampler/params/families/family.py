"""`Family`: how the models of a family write thoughts and calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from ...base.arguments import one_of

THINK = ("<think>", "</think>")

Reasoning = Literal["disabled", "enabled", "auto"]
"""Whether an answer has thoughts before its calls."""


def check_reasoning(value: Any) -> None:
    """Raise `ParameterError` for an argument `reasoning` that is not one of `Reasoning`."""
    one_of(get_args(Reasoning), "reasoning", value)


@dataclass(frozen=True)
class Family:
    """How the models of a family call tools, and how they think before that.

    begin      what precedes a call's arguments: `{name}` is the function's name, `{id}` a number
    end        what follows them
    style      how the arguments are written: a style of the structural tag's json_schema
    section    what stands around all calls that are made at once; None: calls may stand anywhere in the text
    separator  what stands between the calls of a section
    lead       what precedes a section at the beginning of an answer
    trigger    what can only be the beginning of a call in free text; "": all that precedes calls in
               `section`, or else `begin` up to the first placeholder
    thinking   the marks around the model's thoughts; None: it has none
    after_thinking  what follows them
    closing         what is put after the second mark where thoughts are cut short, so that an answer follows
    starts_inside   whether the chat template opens the thoughts, so that a text begins within them
    skipped    what may stand in place of thoughts that are left out
    excludes   what occurs neither in thoughts nor in free text, besides the marks around thoughts; if
               there is anything, calls do not begin in thoughts
    before     what may precede calls, a pattern, where nothing else may: white space of some templates
    id_pattern what `{id}` is, a pattern
    variants   other ways in which models of the family write calls: all but what concerns thoughts. Sections
               have the same ends and separators
    reads      ways in which such models write calls now and then: they are read, and never demanded
    reads_thinking  other marks around thoughts, which are read as well
    content_marks   marks around content, or before calls, which are read and dropped
    calls_end_thoughts  whether a call that begins within thoughts ends them
    layout     "text": free text with calls; others are functions in `grammar.bodies.tools.building`
    """

    begin: str
    end: str
    style: str = "json"
    section: tuple[str, str] | None = None
    separator: str = ""
    lead: str = ""
    trigger: str = ""
    thinking: tuple[str, str] | None = THINK
    after_thinking: str = ""
    closing: str = ""
    starts_inside: bool = True
    skipped: str = ""
    excludes: tuple[str, ...] = ()
    before: str = ""
    id_pattern: str = r"\d+"
    variants: tuple[Family, ...] = ()
    reads: tuple[Family, ...] = ()
    reads_thinking: tuple[tuple[str, str], ...] = ()
    content_marks: tuple[str, ...] = ()
    calls_end_thoughts: bool = False
    layout: str = "text"

    @property
    def trigger_text(self) -> str:
        """What can only be the beginning of a call in free text."""
        begin = self.section[0] if self.section else self.begin.partition("{")[0]
        return self.trigger or begin
