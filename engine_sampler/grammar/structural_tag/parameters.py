"""Arguments of a call as parameters, one after the other, each with its name and its value.

In the format of Qwen3-Coder, for one: `<parameter=city>Paris</parameter>`. A style says what surrounds names
and values. The schema of a function's arguments declares the parameters. Each comes at most once, all
required ones included, with white space around them. A value that may be a string is literal text up to
its closing mark, any other is JSON, with white space around it. White space around a string is a part of it,
but for a line break before and after it in some styles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import GrammarError
from ..program.expression import (
    ANYTHING,
    EMPTY,
    Expression,
    both,
    complement,
    concat,
    literal,
    optional,
    repeat,
    union,
)
from ..program.free_text import free_text
from ..program.rules import Body, Rules, alternatives, sequence
from ..schema.formula import LENGTH, TRUE, WITHIN, Formula
from ..schema.layout import spacing_of
from ..schema.objects import Literals, Region
from ..schema.options import SchemaOptions
from ..schema.scalars.matching import is_empty
from ..schema.scalars.strings import content_set
from ..schema.scalars.texts import WHITESPACE, is_encodable
from .arguments import TYPES, Arguments, Separators, escaped
from .marks import Marks
from .spellings import in_python

_NOT_IN_NAMES = '"<>'
"""What a parameter's name that the schema does not declare does not contain, besides white space and what a
style escapes."""


@dataclass(frozen=True)
class Style:
    """How a parameter is written: `before`, its name, `after`, its type's mark, `value`, its text, `closing`.

    types   what follows `after` for each type of JSON; empty: the type is not said, and a value that may be
            a string is text. Values of types with the same mark are not told apart
    value   what begins the value, white space before it
    escapes what replaces a character of a name
    is_padded   whether a line break before a value, and one after it then, are none of it
    python      which values may stand as Python writes them: "", "constants" or "all"
    quotes  what may surround a text; None: nothing
    """

    before: str
    after: str
    closing: str
    types: Mapping[str, str] = field(default_factory=dict)
    value: str = ""
    escapes: Mapping[str, str] = field(default_factory=dict)
    is_padded: bool = False
    python: str = ""
    quotes: tuple[str, str] | None = None


def _dsml(space: str) -> Style:
    types = {name: f'{str(name == "string").lower()}">' for name in TYPES}
    return Style(f'<｜DSML｜{space}parameter name="', '" string="', f"</｜DSML｜{space}parameter>", types)


STYLES = {
    "qwen_xml": Style("<parameter=", ">", "</parameter>", is_padded=True, python="constants"),
    "seed_xml": Style("<parameter=", ">", "</parameter>", is_padded=True, python="all"),
    "mimo_xml": Style("<parameter=", ">", "</parameter>", python="constants"),
    "minimax_xml": Style('<parameter name="', '">', "</parameter>"),
    "deepseek_xml": _dsml(""),
    "deepseek_v4_1_xml": _dsml(" "),
    "glm_xml": Style("<arg_key>", "</arg_key>", "</arg_value>", value="<arg_value>"),
    "kimi_k3_xml": Style(
        '<|open|>argument key="',
        '" type="',
        "<|close|>argument<|sep|>",
        types={name: f'{name}"<|sep|>' for name in TYPES},
        escapes={"&": "&amp;", '"': "&quot;"},
    ),
    "step3_xml": Style('<steptml:parameter name="', '">', "</steptml:parameter>"),
    "hunyuan_3_xml": Style(
        "<arg_key:opensource>",
        "</arg_key:opensource>",
        "</arg_value:opensource>",
        value="<arg_value:opensource>",
    ),
    "atem_xml": Style('<atem:parameter name="', '">', "</atem:parameter>"),
    "minicpm_5_xml": Style('<param name="', '">', "</param>", python="all", quotes=("<![CDATA[", "]]>")),
}
"""The styles by name: those of xgrammar, and others."""


@dataclass(frozen=True)
class CallContext:
    """What the parts of one call share."""

    rules: Rules
    marks: Marks
    options: SchemaOptions
    excludes: frozenset[str] = frozenset()


def add_parameters(schema: Any, style: Style, call: CallContext) -> int:
    """Add the parameters of an object that is valid under `schema` to the rules, and return their symbol.

    Raises GrammarError, and UnsupportedKeywordError for keywords that this format cannot enforce.
    """
    return _Parameters(schema, style, call).add()


def space_around(whitespace: str | int) -> Expression:
    """The white space around parameters and values; with "compact", the line break of Qwen's own format."""
    spacing = spacing_of(whitespace)
    if spacing is None:
        return repeat(WHITESPACE)
    return optional(literal(b"\n")) if whitespace == "compact" else spacing.outer


def text_of(strings: Formula, stop: str, excludes: frozenset[str], is_padded: bool = False) -> Expression:
    """The texts of some strings: without `stop`, which ends them, and without `excludes`. EMPTY if there are
    none.

    is_padded  a line break before the text and one after it are no part of it
    """
    free = free_text((stop,), excludes)
    if strings == TRUE:
        return free
    if strings[0] == WITHIN:
        unwanted = (*excludes, stop)
        given = (one for one in sorted(strings[1]) if is_encodable(one))
        texts = union(*(literal(one.encode()) for one in given if not any(bad in one for bad in unwanted)))
    else:
        texts = both(free, content_set(strings))
    is_certain = strings[0] == LENGTH  # to search for a long text takes long
    if not is_certain and is_empty(texts):
        return EMPTY
    return union(concat(_LINE, texts, _LINE), both(texts, _NO_LINE)) if is_padded else texts


def types_beside(strings: Formula | None, is_typed: bool) -> Sequence[str]:
    """The types of the values that are written besides strings. Where no mark says a type and strings are not
    listed, all that is not null is read as a string."""
    is_text = strings is not None and strings[0] != WITHIN and not is_typed
    return ("null",) if is_text else TYPES[1:]


_LINE = literal(b"\n")
_NO_LINE = complement(concat(_LINE, ANYTHING))


class _Parameters:
    """Writes the members of an object as parameters: a `MemberWriter`."""

    def __init__(self, schema: Any, style: Style, call: CallContext) -> None:
        self._style, self._call = style, call
        self._rules = in_python(call.rules, "all") if style.python == "all" else call.rules
        self._space = space_around(call.options.whitespace)
        names = "".join(one for one in _NOT_IN_NAMES if one not in style.escapes)
        writable = {"pattern": f"^[^\\x00-\\x20{names}]+$"}
        self._arguments = Arguments(schema, self._rules, call.options, writable, style.escapes)
        named = self._arguments.named(self._arguments.root)
        beginnings = (f"{style.before}{escaped(one, style.escapes).decode()}{style.after}" for one in named)
        self._excludes = call.excludes | frozenset(beginnings)
        self._openings: dict[str | Region, tuple[int, Body]] = {}
        self._rests: dict[tuple[Any, ...], int] = {}

    def add(self) -> int:
        """The symbol of all parameters."""
        layout = Separators(end=self._rules.terminal("SPACE", self._space))
        found = self._arguments.object(self._arguments.root, self, layout)
        self._arguments.finish()
        return found

    def opening(self, keys: str | Region) -> int:
        """The terminal with which a parameter begins."""
        return self._opening(keys)[0]

    def _opening(self, keys: str | Region) -> tuple[int, Body]:
        if keys not in self._openings:
            style, name = self._style, self._arguments.written_names(keys)
            self._openings[keys] = self._call.marks.opening(self._space, style.before, name, style.after)
        return self._openings[keys]

    def rest(self, keys: str | Region, literals: Literals) -> tuple[int, ...]:
        """What follows the opening of a parameter; nothing if there is no such value."""
        prefix = self._opening(keys)[1]
        key = (literals, prefix)
        if key not in self._rests:
            bodies = list(self._bodies(literals))
            if not bodies and self._arguments.is_possible(literals):
                raise GrammarError("no value is valid under the schema of a parameter")
            if not bodies:
                return ()
            rule = self._rests[key] = self._rules.rule("parameter")
            self._rules.define(rule, sequence(prefix, alternatives(*bodies)))
        return (self._rests[key],)

    def _bodies(self, literals: Literals) -> Iterator[Body]:
        style, strings = self._style, self._arguments.strings(literals)
        if strings is not None:
            for text in self._texts(strings):
                yield self._typed("string", text)
            if not style.types and strings == TRUE:
                return  # any JSON is such a text
        marks: dict[str, list[str]] = {}
        for kind in types_beside(strings, bool(style.types)):
            marks.setdefault(style.types.get(kind, ""), []).append(kind)
        space = self._rules.terminal("SPACE", self._space)
        for same in marks.values():
            if values := self._arguments.json(literals, same):
                if style.python:
                    spelled = self._arguments.constants(literals, same)
                    values = (*values, *(self._rules.terminal("CONSTANT", word) for word in spelled))
                yield self._typed(same[0], sequence(space, alternatives(*values), space))

    def _texts(self, strings: Formula) -> Iterator[Body]:
        """The texts of some strings, and those in the quotes of the style."""
        style, terminal = self._style, self._call.rules.terminal
        begin, end = style.quotes or ("", "")
        excludes = self._excludes | {begin} if begin else self._excludes
        text = text_of(strings, style.closing, excludes, style.is_padded)
        if text != EMPTY:
            yield sequence(terminal("TEXT", text))
        quoted = text_of(strings, end + style.closing, self._call.excludes) if begin else EMPTY
        if quoted != EMPTY:
            marks = self._call.marks
            yield sequence(marks.text(begin), terminal("TEXT", quoted), marks.text(end))

    def _typed(self, kind: str, content: Body) -> Body:
        style, marks = self._style, self._call.marks
        kind_mark = marks.text(style.types[kind]) if style.types else sequence()
        begin = sequence()
        if style.value:
            begin = sequence(self._rules.terminal("SPACE", self._space), marks.text(style.value))
        return sequence(kind_mark, begin, content, marks.text(style.closing))
