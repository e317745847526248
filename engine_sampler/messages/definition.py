"""How the answers of a model are written, as its parser follows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ..base.arguments import not_allowed
from ..base.giving_way import unhurried
from ..contract.values import stop_texts
from ..params.families import Family
from .alphabet import SURROGATES, MarkerAlphabet
from .arguments import ArgumentsReader, TextReader, reader_maker, reads_types
from .harmony import HarmonyHeader
from .schemas import ANYTHING, CUSTOM_INPUT, TEXT, SchemaView, function_views
from .templates import FAILED, PARTIAL, Found, Part, Template, call_template, exact, literal

Schemas = Mapping[str, SchemaView]
"""The schemas of functions by name."""


class Beginning(Protocol):
    """What can be found at a place of a text.

    first       the characters with which it may begin
    beginnings  the texts and white space of which one must stand there, before what else decides
    is_plain    whether nothing else does
    """

    @property
    def first(self) -> frozenset[str]: ...

    @property
    def beginnings(self) -> Sequence[Sequence[Part]]: ...

    @property
    def is_plain(self) -> bool: ...

    def match(self, text: str, at: int) -> Found:
        """How the text from `at` on begins with it."""
        ...


@dataclass(frozen=True, eq=False)
class CallForm:
    """One way to write a call.

    begin       what precedes its arguments
    end         what follows them
    make        what makes the reader of its arguments
    name        the function's, if `begin` has no place for it
    schemas     the functions; None: any
    """

    begin: Beginning
    end: Template
    make: Callable[[SchemaView], ArgumentsReader]
    name: str = ""
    schemas: Schemas | None = None

    def reader(self, name: str) -> ArgumentsReader:
        """A reader of the arguments of one call."""
        return self.make(ANYTHING if self.schemas is None else self.schemas.get(name, ANYTHING))


@dataclass(frozen=True)
class Opener:
    """What has a meaning in free text, by `kind`:

    call       begins a call; section: also begins the section in which it stands
    thoughts   begins thoughts; thinking end: ends them
    content    begins content, and is dropped; so are other marks around it
    header     begins thoughts, content or a call, as it says itself
    stop       ends the answer, and is a part of it only if the definition says so; it ends thoughts, too
    excluded   does not occur in free text; it is text
    trigger    can only be the beginning of a call; where none follows, the text is not as defined
    """

    kind: str
    begin: Beginning
    form: CallForm | None = None
    only_first: bool = False


@dataclass(frozen=True)
class AnswerDefinition:
    """How an answer is written.

    openers          what has a meaning in free text
    thinking_end     what ends thoughts; None: there are none
    after_thinking   what then precedes the text
    starts_inside    whether the text begins within thoughts
    thinking_begin   what may stand there nonetheless; None: nothing
    forms            the calls of a section
    section_end      what ends a section; None: there are none
    separator        what stands between its calls
    calls_end_thoughts   whether a call ends thoughts that it interrupts; else it is a part of them
    includes_stop    whether a stop string is a part of what it ends
    """

    openers: tuple[Opener, ...] = ()
    thinking_end: Template | None = None
    after_thinking: str = ""
    starts_inside: bool = False
    thinking_begin: Template | None = None
    forms: tuple[CallForm, ...] = ()
    section_end: Template | None = None
    separator: Template = field(default_factory=lambda: Template(()))
    calls_end_thoughts: bool = False
    includes_stop: bool = False

    def stopping_at(self, strings: Sequence[str]) -> AnswerDefinition:
        """This definition, of answers that end at one of some strings."""
        stops = (Opener("stop", Template([Part("text", one)])) for one in unhurried(strings))
        return replace(self, openers=(*stops, *self.openers)) if strings else self

    def thinking_ends(self) -> tuple[Opener, ...]:
        """What ends thoughts."""
        ends = [Opener("thinking end", self.thinking_end)] if self.thinking_end else []
        kinds = ("stop", "call", "section") if self.calls_end_thoughts else ("stop",)
        return (*ends, *(one for one in self.openers if one.kind in kinds and not one.only_first))

    def candidates(self, is_first: bool) -> re.Pattern[str]:
        """Finds where in free text something may begin; `is_first`: at the beginning of an answer."""
        begins = (one.begin.first for one in self.openers if is_first or not one.only_first)
        characters: frozenset[str] = frozenset().union(*begins)
        return character_class(characters)


def character_class(characters: frozenset[str]) -> re.Pattern[str]:
    """A pattern that finds the first of some characters, or of markers."""
    inside = "".join(map(re.escape, sorted(characters)))
    return re.compile(f"[{SURROGATES}{inside}]")


def family_definition(
    family: Family,
    functions: Mapping[str, Any] | None,
    reasoning: str,
    starts_inside: bool,
    alphabet: MarkerAlphabet,
) -> AnswerDefinition:
    """The definition of a family's answers.

    functions          the schemas of the functions that may be called, by name; None: any functions
    reasoning      as in `tool_calls`
    starts_inside  whether the text begins within thoughts
    """
    schemas: Schemas | None = None
    if functions is not None:
        schemas = (
            function_views(functions) if reads_types(family.style) else dict.fromkeys(functions, ANYTHING)
        )
    if family.layout == "harmony":
        texts = {name: TEXT for name, schema in (functions or {}).items() if schema is CUSTOM_INPUT}
        return _harmony(None if schemas is None else {**schemas, **texts}, alphabet)
    is_json = '"{name}"' in family.begin
    ways = (family, *family.variants)
    form = _call_form(family, schemas, alphabet)
    call_begin = call_template(family.begin, alphabet, schemas, is_json)
    has_calls = schemas is None or bool(schemas)
    openers: list[Opener] = []
    section_end = None
    if family.section is not None and has_calls:
        section_end = literal(family.section[1], alphabet, is_json)
        for section_begin in dict.fromkeys(way.section[0].rstrip() for way in ways if way.section):
            begin = literal(section_begin, alphabet, is_json).then(call_begin)
            opening = replace(form, begin=begin)
            openers.append(Opener("section", begin, opening, only_first=family.layout == "whole"))
    elif has_calls:
        forms = [_call_form(way, schemas, alphabet) for way in ways]
        openers += [Opener("call", one.begin, one) for one in forms]
    thinking = family.thinking if reasoning != "disabled" else None
    marks = None
    if thinking is not None:
        marks = exact(thinking[0], alphabet), exact(thinking[1], alphabet)
        openers.append(Opener("thoughts", marks[0]))
        if family.skipped:
            openers.append(Opener("content", literal(family.skipped, alphabet), only_first=True))
    if family.layout == "kimi_k3":
        openers += [Opener("content", literal(mark, alphabet)) for mark in _KIMI_K3]
    if has_calls:
        openers += _triggers(ways, alphabet, is_json)
    excluded: list[str] = [*(family.thinking or ()), *family.excludes]
    openers += [Opener("excluded", literal(mark, alphabet)) for mark in excluded]
    return AnswerDefinition(
        tuple(openers),
        marks[1] if marks else None,
        family.after_thinking,
        starts_inside and marks is not None,
        marks[0] if marks else None,
        (form,),
        section_end,
        literal(family.separator, alphabet, is_json),
    )


_KIMI_K3 = ("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>")


def _call_form(family: Family, schemas: Schemas | None, alphabet: MarkerAlphabet) -> CallForm:
    is_json = '"{name}"' in family.begin
    begin = call_template(family.begin, alphabet, schemas, is_json)
    end = literal(family.end, alphabet, is_json)
    return CallForm(begin, end, reader_maker(family.style, alphabet, family.begin), schemas=schemas)


def _triggers(ways: Sequence[Family], alphabet: MarkerAlphabet, is_json: bool) -> list[Opener]:
    """What can only be the beginning of a call; nothing where a whole answer is one."""
    if ways[0].layout == "whole":
        return []
    texts = dict.fromkeys(way.trigger_text for way in ways)
    return [Opener("trigger", literal(text, alphabet, is_json)) for text in texts if text]


def _harmony(schemas: Schemas | None, alphabet: MarkerAlphabet) -> AnswerDefinition:
    openers = []
    marks = [alphabet.encode(mark) for mark in ("<|call|>", "<|end|>", "<|return|>")]
    json_reader = reader_maker("json", alphabet, "")

    def make(view: SchemaView) -> ArgumentsReader:
        return TextReader(marks) if view is TEXT else json_reader(view)

    for only_first in (False, True):
        header = HarmonyHeader(alphabet, schemas, only_first)
        form = CallForm(header, Template(()), make, schemas=schemas)
        openers.append(Opener("header", header, form, only_first))
    ends = [literal(mark, alphabet) for mark in ("<|end|>", "<|return|>", "<|call|>")]
    openers += [Opener("content", end) for end in ends]
    openers += [Opener("trigger", literal(mark, alphabet)) for mark in ("<|start|>", "<|channel|>")]
    return AnswerDefinition(tuple(openers), ends[0])


def thinking_definition(
    begin: str, end: str, starts_inside: bool, alphabet: MarkerAlphabet
) -> AnswerDefinition:
    """The definition of text with thoughts, and no calls."""
    marks = exact(begin, alphabet), exact(end, alphabet)
    openers = [Opener("thoughts", marks[0]), Opener("excluded", marks[1])]
    return AnswerDefinition(tuple(openers), marks[1], "", starts_inside, marks[0])


def longest(candidates: Sequence[Any], text: str, at: int) -> tuple[Any, Found]:
    """Which of some beginnings, each with a `begin`, the text has from `at` on: the longest one; or a partial
    match, if there is any; or one that failed."""
    best: tuple[Any, Found] = (None, Found(FAILED))
    for one in candidates:
        found = one.begin.match(text, at)
        if found.end == PARTIAL:
            return one, found
        if found.end > best[1].end:
            best = one, found
    return best


def stops_in(stop: Any) -> tuple[str, ...]:
    """The strings of a parameter `stop`: one, several or none. Raises `ParameterError`."""
    try:
        return stop_texts(stop)
    except (TypeError, ValueError) as error:
        raise not_allowed("stop", stop, str(error)) from None
