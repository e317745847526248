"""Arguments of a call as parameters, one after the other, each with its name and its value.

In the format of Qwen3-Coder, for one: `<parameter=city>Paris</parameter>`. A style says what surrounds names
and values. The schema of a function's arguments declares the parameters. Each comes at most once, all
required ones included, with white space around them. A value that may be a string is literal text up to
its closing mark, any other is JSON, with white space around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

from ..errors import GrammarError, GrammarLimitError, UnsupportedKeywordError
from ..program.expression import Expression, both, complement, literal, optional, repeat, union, without
from ..program.rules import Body, Rules, alternatives, sequence
from ..program.unicode import characters, invert, ranges
from ..regex.pattern import pattern_expression
from ..schema import SchemaOptions, add_schema
from ..schema.layout import spacing_of
from ..schema.matching import ValueMatcher, is_empty
from ..schema.texts import WHITESPACE
from .marks import Marks
from .members import Member, Separators, add_members
from .readings import SHARED, TYPES, Reading, Readings, checked, reject_unknown_keywords, text_of
from .text import utf8

_NAME: Expression = repeat(characters(invert(ranges(((0, 32), (34, 34), (60, 60), (62, 62))))), 1)
"""The name of a parameter that the schema does not declare: no white space, quotation mark, `<` or `>`."""


@dataclass(frozen=True)
class Style:
    """How a parameter is written: `before`, its name, `after`, its type's mark, `value`, its text, `closing`.

    types   what follows `after` for each type of JSON; empty: the type is not said, and a value that may be
            a string is text. Values of types with the same mark are not told apart
    value   what begins the value, white space before it
    escapes what replaces a character of a name
    """

    before: str
    after: str
    closing: str
    types: Mapping[str, str] = field(default_factory=dict)
    value: str = ""
    escapes: Mapping[str, str] = field(default_factory=dict)


def _dsml(space: str) -> Style:
    types = {name: f'{str(name == "string").lower()}">' for name in TYPES}
    return Style(f'<｜DSML｜{space}parameter name="', '" string="', f"</｜DSML｜{space}parameter>", types)


STYLES = {
    "qwen_xml": Style("<parameter=", ">", "</parameter>"),
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
}
"""The styles by name: those of xgrammar, and that of Step-3."""


OBJECT = {"type", "properties", "patternProperties", "required", "additionalProperties"}
"""The keywords of objects whose members can be written one after the other."""

MAX_PATTERNS = 4
"""The most patterns in `patternProperties`; a name may match any of them."""


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
    return _Parameters(object_schema(schema), style, call).add()


def object_schema(schema: Any) -> Mapping[str, Any]:
    """The schema of a call's arguments. Raises GrammarError if it does not describe an object by members."""
    if isinstance(schema, bool):
        schema = {} if schema else {"type": "nothing"}
    if isinstance(schema, Mapping):
        schema = {
            **{name: schema[name] for name in SHARED if name in schema},
            **Readings(schema).plain(schema),
        }
    if not isinstance(schema, Mapping) or schema.get("type", "object") not in ("object", ["object"]):
        raise GrammarError("the schema of a call's parameters must describe an object")
    reject_unknown_keywords(schema, OBJECT | SHARED)
    return schema


class ObjectMembers(NamedTuple):
    """The members of an object.

    named     the schema of each member that has a name
    required  the names of those that must come
    others    for all other members: a pattern of names and the schema of their values
    """

    named: dict[str, Any]
    required: set[str]
    others: list[tuple[Expression, Any]]


def members_of(schema: Mapping[str, Any], names: Expression) -> ObjectMembers:
    """The members of an object that is valid under a schema.

    names  the names that members may have which the schema does not name
    """
    others = schema.get("additionalProperties", True)
    given = checked(schema, "properties", dict) if "properties" in schema else {}
    required = checked(schema, "required", list) if "required" in schema else []
    if not all(isinstance(name, str) for name in required):
        raise GrammarError("required must be a list of strings")
    patterns = checked(schema, "patternProperties", dict) if "patternProperties" in schema else {}
    if len(patterns) > MAX_PATTERNS:
        raise GrammarLimitError(f"patternProperties has more than {MAX_PATTERNS} patterns")
    found = {pattern: pattern_expression(pattern, dialect="ecma", search=True) for pattern in patterns}
    matchers = {pattern: ValueMatcher(expression) for pattern, expression in found.items()}
    named = {}
    for name in dict.fromkeys([*given, *required]):
        about = [patterns[one] for one, matcher in matchers.items() if matcher.matches(utf8(name))]
        about += [given[name]] if name in given else [] if about else [others]
        named[name] = about[0] if len(about) == 1 else {"allOf": about}
    rest = []
    for chosen in product((False, True), repeat=len(patterns)):
        inside = [pattern for pattern, is_in in zip(patterns, chosen, strict=True) if is_in]
        about = [patterns[one] for one in inside] or [others]
        left = both(names, *(found[one] if one in inside else complement(found[one]) for one in patterns))
        if not any(one is False for one in about) and not is_empty(left):
            rest.append((left, about[0] if len(about) == 1 else {"allOf": about}))
    return ObjectMembers(named, set(required), rest)


def space_around(whitespace: str | int) -> Expression:
    """The white space around parameters and values; with "compact", the line break of Qwen's own format."""
    spacing = spacing_of(whitespace)
    if spacing is None:
        return repeat(WHITESPACE)
    return optional(literal(b"\n")) if whitespace == "compact" else spacing.outer


def escaped(name: str, escapes: Mapping[str, str]) -> bytes:
    """A name in UTF-8, with its characters replaced by `escapes`."""
    return utf8("".join(escapes.get(character, character) for character in name))


class _Parameters:
    def __init__(self, schema: Mapping[str, Any], style: Style, call: CallContext) -> None:
        self._style, self._call, self._rules = style, call, call.rules
        self._space = space_around(call.options.whitespace)
        self._readings = Readings(schema)
        if style.escapes and "patternProperties" in schema:
            raise UnsupportedKeywordError("patternProperties is not supported in this style")
        self._members = members_of(schema, _NAME)

    def add(self) -> int:
        escapes, in_order = self._style.escapes, self._call.options.key_order == "schema"
        named, required, rest = self._members
        names = {name: literal(escaped(name, escapes)) for name in named}
        members = [self._member(names[name], one, name in required) for name, one in named.items()]
        known = union(*names.values())
        others = [self._member(without(some, known), schema, False) for some, schema in rest]
        layout = Separators(end=self._rules.terminal("SPACE", self._space))
        return add_members(self._rules, members, others, layout, in_order=in_order)

    def _member(self, name: Expression, schema: Any, is_required: bool) -> Member:
        style = self._style
        opening, prefix = self._call.marks.opening(self._space, style.before, name, style.after)
        rest = self._rules.rule("parameter")
        self._rules.define(rest, sequence(prefix, self._value(schema)))
        return Member(opening, rest, is_required)

    def _value(self, schema: Any) -> Body:
        """What follows the opening of a parameter."""
        bodies = [body for one in self._readings.of(schema) for body in self._bodies(one)]
        if not bodies:
            raise GrammarError("no value is valid under the schema of a parameter")
        return alternatives(*bodies)

    def _bodies(self, reading: Reading) -> Iterator[Body]:
        types, style = reading.types, self._style
        if "string" in types:
            excludes = self._call.excludes
            text = self._rules.terminal("TEXT", text_of(reading, style.closing, excludes, self._space))
            yield self._typed("string", text)
            if not style.types and not reading.schema:
                return  # any JSON is such a text
        marks: dict[str, list[str]] = {}
        for one in types:
            if one != "string":
                marks.setdefault(style.types.get(one, ""), []).append(one)
        for same in marks.values():
            schema = {**self._readings.shared, **reading.schema}
            if "enum" not in schema and "type" not in schema:
                schema["type"] = same
            value = add_schema(schema, self._rules, self._call.options)
            space = self._rules.terminal("SPACE", self._space)
            yield self._typed(same[0], sequence(space, value, space))

    def _typed(self, kind: str, content: Body) -> Body:
        style, marks = self._style, self._call.marks
        kind_mark = marks.text(style.types[kind]) if style.types else sequence()
        begin = sequence()
        if style.value:
            begin = sequence(self._rules.terminal("SPACE", self._space), marks.text(style.value))
        return sequence(kind_mark, begin, content, marks.text(style.closing))
