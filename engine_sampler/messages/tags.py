"""The definition of the answers that a structural tag allows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ..base.errors import quoted
from ..base.giving_way import unhurried
from ..grammar.errors import GrammarError, GrammarLimitError
from ..grammar.structural_tag.document import format_of
from ..grammar.structural_tag.elements import STYLE_NAMES
from ..grammar.structural_tag.structural_tag import MAX_DEPTH, MAX_FORMATS
from ..grammar.work import counted_work, spend
from ..params.families import TOOL_FAMILIES
from .alphabet import MarkerAlphabet
from .arguments import reader_maker, reads_types
from .definition import AnswerDefinition, CallForm, Opener
from .schemas import READING, SchemaView, view_of
from .templates import MAX_MARK, Part, Template, exact, literal

_NAME = re.compile(r"(?:name|function|functions|tool)[\"']?\s*[=:.]\s*[\"']?([\w.:/-]+)")
_WORD = re.compile(r"[A-Za-z_][\w.:/-]*")
_THOUGHTS = {one.thinking for one in TOOL_FAMILIES.values() if one.thinking}
_JSON = ("json_schema", "qwen_xml_parameter")
MAX_PIECES = 256
"""Maximum number of pieces of text and white space in the beginning or the end of a tag: while a text may be
within them, each token looks at them anew."""
_INNER = ("content", "elements", "tags", "rules")
_NAMES_A_STEP = 64
"""How many names are looked for in the beginning of a tag in one step."""


def tag_definition(
    tag: Mapping[str, Any] | str,
    schemas: Mapping[str, Any] | None,
    marks: tuple[str, str] | None,
    starts_inside: bool,
    alphabet: MarkerAlphabet,
) -> AnswerDefinition:
    """The definition of the answers that a structural tag allows, in either of its forms.

    A tag whose content has a schema is a call: of that function of `schemas` whose name its beginning
    contains, or of what its beginning names. A tag with the marks of thoughts is thoughts. Marks of other
    tags are dropped, and what is between them is content. The definition does not say how often tags come,
    or in which order. Raises GrammarError for what is no structural
    tag, and GrammarLimitError for one that is too large.

    schemas        the schemas of functions, by name; None: not known
    marks          the marks of thoughts besides those of known families
    starts_inside  whether the text begins within thoughts
    """
    reading = _Reading(schemas, marks, alphabet)
    with counted_work(READING):
        reading.walk(format_of(tag))
    return reading.definition(starts_inside)


class _Reading:
    def __init__(
        self,
        schemas: Mapping[str, Any] | None,
        marks: tuple[str, str] | None,
        alphabet: MarkerAlphabet,
    ) -> None:
        self._schemas, self._alphabet = schemas or {}, alphabet
        self._views: dict[str, SchemaView] = {}
        self._marks = {*_THOUGHTS, *([marks] if marks else [])}
        self._thoughts = marks
        self._starts_inside = False
        self._formats = self._depth = 0
        self._calls: list[Opener] = []
        self._dropped: dict[str, None] = {}

    def definition(self, starts_inside: bool) -> AnswerDefinition:
        """What has been read."""
        openers = list(self._calls)
        begins: tuple[Opener, ...] = ()
        ends: tuple[Opener, ...] = ()
        if self._thoughts:
            begin, end = (exact(mark, self._alphabet) for mark in self._thoughts)
            begins, ends = (Opener("thoughts", begin),), (Opener("thinking end", end),)
            openers += begins
        known = set(self._thoughts or ())
        for mark in self._dropped:
            template = self._literal(mark)
            if template and mark not in known:
                openers.append(Opener("content", template))
        inside = bool(ends) and (starts_inside or self._starts_inside)
        return AnswerDefinition(tuple(openers), begins, ends, "", inside)

    def walk(self, part: Any) -> None:
        """Reads a format and those within it."""
        self._formats += 1
        if self._formats > 2 * MAX_FORMATS or self._depth > 2 * MAX_DEPTH:  # lists count as well
            raise GrammarLimitError("the structural tag has too many formats, or they are nested too deeply")
        self._depth += 1
        self._walk(part)
        self._depth -= 1

    def _walk(self, part: Any) -> None:
        if isinstance(part, list | tuple):
            for one in unhurried(part):
                self.walk(one)
        elif isinstance(part, Mapping):
            if "begin" in part and "end" in part:
                self._read_tag(part)
            else:
                if part.get("type") == "const_string":
                    self._drop(part.get("value"))
                for name in _INNER:
                    self.walk(part.get(name))

    def _read_tag(self, tag: Mapping[str, Any]) -> None:
        begin, content = _string_of(tag["begin"]), tag.get("content")
        ends = [_string_of(one) for one in (tag["end"] if isinstance(tag["end"], list) else [tag["end"]])]
        if any(begin in ("", pair[0]) and pair[1] in ends for pair in self._marks) and content:
            self._starts_inside = self._starts_inside or not begin
            self._thoughts = next(pair for pair in self._marks if begin in ("", pair[0]) and pair[1] in ends)
            return
        arguments = _arguments_of(content)
        if arguments is None:
            self._drop(begin)
            self.walk(content)
        else:
            parts, schema = arguments
            self._add_call(begin, parts, schema, ends)
        for end in ends if arguments is None or "" in ends else ():
            self._drop(end)

    def _add_call(
        self, begin: str, parts: list[str | None], schema: Mapping[str, Any], ends: list[str]
    ) -> None:
        is_json = '{"' in begin
        template = self._literal(begin, is_json)
        for part in parts:
            template = template.then(Template([Part("id")]) if part is None else self._literal(part, is_json))
        _check_mark(template, begin)
        style = "qwen_xml" if schema["type"] == "qwen_xml_parameter" else schema.get("style", "json")
        if style not in STYLE_NAMES:
            raise GrammarError(f"style={quoted(style)} is not allowed: {', '.join(STYLE_NAMES)}")
        if not template.first:
            return
        end = Template(()) if "" in ends else self._literal(ends[0], is_json)
        make: Callable[..., Any] = reader_maker(style, self._alphabet, begin)
        name = self._name_of(begin + "".join(part or "" for part in parts))
        views = {name: self._view(name, begin, schema)} if reads_types(style) else None
        self._calls.append(Opener("call", template, CallForm(template, end, make, name, views)))

    def _literal(self, mark: str, is_json: bool = False) -> Template:
        template = literal(mark, self._alphabet, is_json)
        _check_mark(template, mark)
        return template

    def _view(self, name: str, begin: str, schema: Mapping[str, Any]) -> SchemaView:
        """The view of the arguments of a call, which may be a function's that is known."""
        if name not in self._schemas:
            return view_of(
                schema.get("json_schema", True), f"structural_tag: the parameters of {quoted(begin)}"
            )
        if name not in self._views:
            what = f"tools: the parameters of {quoted(name)}"
            self._views[name] = view_of(self._schemas[name], what)
        return self._views[name]

    def _name_of(self, begin: str) -> str:
        spend(len(self._schemas) * (1 + len(begin) // 256) // _NAMES_A_STEP)
        known = [name for name in self._schemas if name in begin]
        if known:
            return max(known, key=len)
        found = _NAME.search(begin)
        if found:
            return found[1]
        return max(_WORD.findall(begin), key=len, default="")

    def _drop(self, mark: Any) -> None:
        if isinstance(mark, str) and mark.strip():
            self._dropped[mark] = None


def _check_mark(template: Template, mark: str) -> None:
    """Raise GrammarLimitError for the beginning or the end of a tag that is too long to be held back."""
    if sum(len(part.text) for part in template.parts) > MAX_MARK or len(template.parts) > MAX_PIECES:
        raise GrammarLimitError(
            f"structural_tag: the mark {quoted(mark)} is too long to be held back: allowed are "
            f"{MAX_MARK:,} characters, and {MAX_PIECES} pieces between white space, or punctuation of JSON"
        )


def _string_of(mark: Any) -> str:
    """The text of a mark, which may be a token by its name."""
    if isinstance(mark, Mapping):
        mark = mark.get("token", "")
    return mark if isinstance(mark, str) else ""


def _arguments_of(content: Any) -> tuple[list[str | None], Mapping[str, Any]] | None:
    """What precedes the arguments in the content of a call's tag, strings or None for an id, and their
    format; None for other tags."""
    inner = content.get("elements") if isinstance(content, Mapping) else None
    elements = inner if isinstance(inner, list) and inner else [content]
    if not all(isinstance(element, Mapping) for element in elements) or elements[-1].get("type") not in _JSON:
        return None
    parts: list[str | None] = []
    for element in elements[:-1]:
        if element.get("type") == "const_string":
            parts.append(_string_of(element.get("value")))
        elif element.get("type") == "regex":
            parts.append(None)
        else:
            return None
    return parts, elements[-1]
