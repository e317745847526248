"""How the answers of a model are written, as its parser follows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..base.arguments import not_allowed
from ..base.giving_way import unhurried
from ..contract.values import stop_texts
from ..grammar.structural_tag.marks import has_mark, split_marks
from ..params.families import PLACES, THINK, Family
from .alphabet import SURROGATES, MarkerAlphabet
from .arguments import (
    ArgumentsReader,
    TextReader,
    argument_begins,
    reader_maker,
    reads_types,
)
from .harmony import HarmonyHeader
from .objects import FollowedTemplate, ObjectBegin, ObjectEnd
from .schemas import ANYTHING, CUSTOM_INPUT, TEXT, SchemaView, function_views
from .templates import Beginning, CallEnding, Part, Template, call_template, exact, literal
from .writing import json_value

Schemas = Mapping[str, SchemaView]
"""The schemas of functions by name."""


@dataclass(frozen=True, eq=False)
class CallForm:
    """One way to write a call.

    begin       what precedes its arguments
    end         what follows them
    make        what makes the reader of its arguments
    name        the function's, if `begin` has no place for it
    schemas     the functions whose types are known; None: none
    functions   their schemas, by which a call without a name finds it
    names       the functions that can be called; None: any
    wrapped     the form of such a call that stands within another object
    """

    begin: Beginning
    end: CallEnding
    make: Callable[[SchemaView], ArgumentsReader]
    name: str = ""
    schemas: Schemas | None = None
    functions: Mapping[str, Any] | None = None
    names: frozenset[str] | None = None
    wrapped: CallForm | None = None

    def reader(self, name: str) -> ArgumentsReader:
        """A reader of the arguments of one call."""
        return self.make(ANYTHING if self.schemas is None else self.schemas.get(name, ANYTHING))

    def allowed(self, name: str) -> str:
        """A name that came behind the arguments; "" if the function cannot be called."""
        return name if self.names is None or name in self.names else ""

    def named_by(self, arguments: str) -> str:
        """The only function that has all of some arguments; "" if there is none."""
        keys = json_value(arguments).keys()
        names = [name for name, one in (self.functions or {}).items() if keys <= _members_of(one)]
        return names[0] if len(names) == 1 else ""


def _members_of(schema: Any) -> frozenset[str]:
    members = schema.get("properties") if isinstance(schema, Mapping) else None
    return frozenset(members) if isinstance(members, Mapping) else frozenset()


@dataclass(frozen=True)
class Opener:
    """What has a meaning in free text, by `kind`:

    call       begins a call; section: begins the section in which it stands, with the first one if it has a
               form
    thoughts   begins thoughts; thinking end: ends them
    content    begins content, and is dropped; so are other marks around it
    header     begins thoughts, content or a call, as it says itself
    stop       ends the answer, and is a part of it only if the definition says so; it ends thoughts, too
    text       ends thoughts, and is text
    trigger    can only be the beginning of a call; where none follows, a call is not as defined
    stray      any other mark of calls or thoughts, where it has no meaning: it is dropped
    """

    kind: str
    begin: Beginning
    form: CallForm | None = None
    only_first: bool = False


_CALLS = ("call", "section", "header", "text")


@dataclass(frozen=True)
class AnswerDefinition:
    """How an answer is written.

    openers          what has a meaning in free text
    thinking_begins  what begins thoughts
    thinking_ends    what ends thoughts
    after_thinking   what then precedes the text
    starts_inside    whether the text begins within thoughts
    section          what has a meaning within a section: calls, and its ends
    ends_sections    whether the end of a text ends a section
    includes_stop    whether a stop string is a part of what it ends
    drops_malformed  whether the text of a call that is not as defined is no content
    """

    openers: tuple[Opener, ...] = ()
    thinking_begins: tuple[Opener, ...] = ()
    thinking_ends: tuple[Opener, ...] = ()
    after_thinking: str = ""
    starts_inside: bool = False
    section: tuple[Opener, ...] = ()
    ends_sections: bool = False
    includes_stop: bool = False
    drops_malformed: bool = False

    def stopping_at(self, strings: Sequence[str]) -> AnswerDefinition:
        """This definition, of answers that end at one of some strings."""
        stops = tuple(Opener("stop", Template([Part("text", one)])) for one in unhurried(strings))
        ends = (*stops, *self.thinking_ends)
        return replace(self, openers=(*stops, *self.openers), thinking_ends=ends) if strings else self

    def interrupted(self) -> AnswerDefinition:
        """This definition, of answers in which calls end thoughts."""
        calls = (one for one in self.openers if one.kind in _CALLS and not one.only_first)
        return replace(self, thinking_ends=(*self.thinking_ends, *calls)) if self.thinking_ends else self

    def candidates(self, is_first: bool) -> re.Pattern[str]:
        """Finds where in free text something may begin; `is_first`: at the beginning of an answer."""
        begins = (one.begin.first for one in self.openers if is_first or not one.only_first)
        characters: frozenset[str] = frozenset().union(*begins)
        return character_class(characters)


def character_class(characters: frozenset[str]) -> re.Pattern[str]:
    """A pattern that finds the first of some characters, or of markers."""
    inside = "".join(map(re.escape, sorted(characters)))
    return re.compile(f"[{SURROGATES}{inside}]")


@dataclass(frozen=True)
class CallReading:
    """What is read of calls.

    functions   the schemas of the functions that may be called, by name; None: any functions
    is_read     whether calls are read; else they are text
    only_known  whether calls of other functions are none
    """

    functions: Mapping[str, Any] | None = None
    is_read: bool = True
    only_known: bool = False


def family_definition(
    family: Family, calls: CallReading, reasoning: str, starts_inside: bool, alphabet: MarkerAlphabet
) -> AnswerDefinition:
    """The definition of a family's answers.

    reasoning      as in `tool_calls`
    starts_inside  whether the text begins within thoughts
    """
    reader = _FamilyReader(family, calls, alphabet)
    is_read = calls.is_read or family.layout == "harmony"
    thinking = (family.thinking or THINK, *family.reads_thinking) if reasoning != "disabled" else ()
    begins = tuple(one for begin, _ in thinking for one in reader.block("thoughts", begin))
    ends = tuple(
        Opener("thinking end", exact(end, alphabet)) for end in dict.fromkeys(one[1] for one in thinking)
    )
    skipped = [family.skipped] if family.skipped and thinking else []
    marks = [Opener("content", call_template(mark, alphabet)) for mark in (*skipped, *family.content_marks)]
    if family.content and (thinking or family.layout == "blocks"):
        marks += reader.block("content", family.content[0])
        marks += [Opener("content", call_template(mark, alphabet)) for mark in family.closing_marks]
    openers = reader.openers() if is_read else ()
    marked = [mark for pair in thinking for mark in pair]
    strays = reader.strays([*family.excludes, *marked, *reader.marks()] if is_read else marked)
    triggers = reader.triggers("trigger" if is_read else "text")
    return AnswerDefinition(
        (*openers, *marks, *begins, *triggers, *strays),
        begins,
        ends,
        family.after_thinking,
        starts_inside and bool(thinking),
        reader.section(),
        ends_sections=bool(family.section and family.section[1] in family.stops),
    )


class _FamilyReader:
    """What has a meaning in the answers of a family: what it writes, and what is read besides."""

    def __init__(self, family: Family, calls: CallReading, alphabet: MarkerAlphabet) -> None:
        self._family, self._alphabet, self._calls = family, alphabet, calls
        self._ways = (family, *family.variants, *family.reads)
        functions = calls.functions
        self._names = None if functions is None or not calls.only_known else frozenset(functions)
        self._schemas: Schemas | None = None
        if functions is not None and any(reads_types(way.style) for way in self._ways):
            self._schemas = function_views(functions)

    def openers(self) -> tuple[Opener, ...]:
        """What begins calls, and sections of them."""
        if self._family.layout == "harmony":
            return tuple(self._header(only_first) for only_first in (False, True))
        return tuple(one for way in self._ways for one in self._begins_of(way))

    def _begins_of(self, way: Family) -> Iterator[Opener]:
        """What begins calls that are written in one of the ways."""
        before = way.section[0] if way.section else ""
        if before and not has_mark(before):
            only_first, functions = way.layout == "whole", self._calls.functions
            yield Opener("section", *self._begin(way, before), only_first=only_first)
            if only_first and functions is not None:
                yield Opener("section", *self._begin(way, before, frozenset(functions)))
            return
        if before:
            yield Opener("section", call_template(before.rstrip("[ \n"), self._alphabet))
        if way.begin.partition("{")[0] or not before:
            for begin, only_first in self._block_begins(way.begin):
                yield Opener("call", *self._begin(replace(way, begin=begin)), only_first)

    def block(self, kind: str, mark: str) -> list[Opener]:
        """What begins a block of an answer, from its mark on."""
        begins = self._block_begins(mark)
        return [Opener(kind, exact(begin, self._alphabet), None, only_first) for begin, only_first in begins]

    def _block_begins(self, mark: str) -> list[tuple[str, bool]]:
        """How a block begins, and whether only at the beginning of an answer: behind what precedes others, or
        by itself, and anywhere if it looks like the name of a token."""
        precedes = self._family.after_thinking if self._family.layout == "blocks" else ""
        if not precedes:
            return [(mark, False)]
        alone = mark.lstrip()
        return [(precedes + mark, False), (alone, not alone.startswith("<"))]

    def section(self) -> tuple[Opener, ...]:
        """What has a meaning within a section of calls."""
        calls = [Opener("call", *self._begin(way)) for way in self._ways if self._family.layout != "harmony"]
        sections = dict.fromkeys(way.section[1] for way in self._ways if way.section)
        ends = dict.fromkeys(one for end in sections for one in (end, _unbracketed(end)) if one)
        return (*calls, *(Opener("section end", literal(end, self._alphabet, True)) for end in ends))

    def triggers(self, kind: str) -> tuple[Opener, ...]:
        """What can only be the beginning of a call, as openers of a kind."""
        texts = [way.section[0] for way in self._ways if way.section] + [way.begin for way in self._ways]
        begins = (text.partition("{")[0].rstrip("[ \n") for text in texts)
        return tuple(
            Opener(kind, call_template(piece, self._alphabet))
            for piece in dict.fromkeys(one for text in begins for one in _pieces(text)[:2])
        )

    def marks(self) -> list[str]:
        """Texts with the marks of calls."""
        texts = [
            text
            for way in self._ways
            for text in (PLACES.split(way.begin)[-1], way.end, *(way.section or ()))
        ]
        between = [text for way in self._ways for text in PLACES.split(way.begin)[1:-1]]
        marks = [piece for text in between for piece in _pieces(text)[1:]]
        return [*(_unbracketed(text).rstrip("[ \n") for text in texts), *marks]

    def strays(self, texts: Sequence[str]) -> tuple[Opener, ...]:
        """Marks where they have no meaning."""
        marks = dict.fromkeys(one for text in texts for one in _pieces(text))
        return tuple(Opener("stray", call_template(mark.lstrip(), self._alphabet)) for mark in marks)

    def _begin(
        self, way: Family, before: str = "", names: frozenset[str] | None = None
    ) -> tuple[Beginning, CallForm]:
        """How a call begins that is written in one of the ways, after more text, and its form."""
        alphabet, names = self._alphabet, names or self._names
        make = reader_maker(way.style, alphabet)
        end: CallEnding
        begin: Beginning
        after: Template | None = None
        if _OBJECT.search(way.begin):
            prefix = (before + _BRACE.split(way.begin)[0]).rstrip()
            begin = ObjectBegin(call_template(prefix, alphabet), names, has_mark(prefix) or bool(way.section))
            after = literal(way.end.lstrip().removeprefix("}"), alphabet, True)
            end = ObjectEnd(after, 1)
        else:
            is_json = '"{name}"' in way.begin
            begins = argument_begins(way.style, alphabet, way.end)
            template = call_template(before + way.begin, alphabet, names, is_json)
            begin = FollowedTemplate(template, begins) if begins else template
            end = literal(way.end, alphabet, is_json)
        functions = self._calls.functions
        form = CallForm(begin, end, make, "", self._schemas, functions, names)
        if after is not None:
            form = replace(form, wrapped=replace(form, end=ObjectEnd(after, 2)))
        return begin, form

    def _header(self, only_first: bool) -> Opener:
        functions = self._calls.functions
        customs = {name: TEXT for name, schema in (functions or {}).items() if schema is CUSTOM_INPUT}
        header = HarmonyHeader(self._alphabet, functions, only_first, self._calls.only_known, customs)
        marks = [self._alphabet.encode(mark) for mark in ("<|call|>", "<|end|>", "<|return|>")]
        json_reader = reader_maker("json", self._alphabet)

        def make(view: SchemaView) -> ArgumentsReader:
            return TextReader(marks) if view is TEXT else json_reader(view)

        return Opener("header", header, CallForm(header, Template(()), make, schemas=customs), only_first)


_OBJECT = re.compile(r'name": ?"\{name\}"')
_BRACE = re.compile(r"\{(?=\s*\")")
"""How a call begins that is an object in JSON."""
_BRACKETS = re.compile(r"\A[\s})]*(?:\](?!<\]))?\s*")


def _unbracketed(text: str) -> str:
    """A text without the brackets and white space before a mark."""
    return _BRACKETS.sub("", text)


def _pieces(text: str) -> list[str]:
    """A text with marks, and each of these marks."""
    if "<" not in text and not has_mark(text):
        return []
    return [text, *(piece for piece, is_mark in split_marks(text) if is_mark and piece[0] in "<[")]


def thinking_definition(
    begin: str, end: str, starts_inside: bool, alphabet: MarkerAlphabet
) -> AnswerDefinition:
    """The definition of text with thoughts, and no calls."""
    opener, mark = Opener("thoughts", exact(begin, alphabet)), exact(end, alphabet)
    openers = opener, Opener("stray", mark)
    return AnswerDefinition(openers, (opener,), (Opener("thinking end", mark),), "", starts_inside)


def stops_in(stop: Any) -> tuple[str, ...]:
    """The strings of a parameter `stop`: one, several or none. Raises `ParameterError`."""
    try:
        return stop_texts(stop)
    except (TypeError, ValueError) as error:
        raise not_allowed("stop", stop, str(error)) from None
