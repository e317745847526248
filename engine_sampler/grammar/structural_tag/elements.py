"""Arguments of a call as elements within elements, for formats that mark every value in their own way.

In Cohere's, `<cofl:value name="tags" type="list"><cofl:value type="raw">new</cofl:value></cofl:value>`, say.
A notation says how the members of objects and the items of lists are marked, by the types of their values.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import GrammarError, UnsupportedKeywordError
from ..program.expression import EMPTY, EPSILON, Expression, literal, union, without
from ..program.rules import Body, alternatives, repeated, sequence
from ..regex.pattern import pattern_expression
from ..schema import add_schema
from ..work import spend
from .document import json_of
from .members import Member, Separators, add_members
from .object_schemas import OBJECT, members_of, object_schema
from .parameters import STYLES, CallContext, add_parameters, escaped, space_around
from .pythonic import add_keywords
from .readings import ANNOTATIONS, SHARED, TYPES, Reading, Readings, checked, text_of

_NAMESPACE = "]<]minimax[>["
_ARRAY = {"type", "items", "prefixItems", "minItems", "maxItems"}


@dataclass(frozen=True)
class Notation:
    """How members and values are written. In marks, `{name}` is the member's name and `{kind}` its type's.

    member, item        what begins a member of an object, and an item of a list
    member_end, item_end    what ends them
    kinds               the `{kind}` of each type
    stop                what does not occur in the text of a string
    quote               what surrounds that text
    brackets            what surrounds the members of an object, and the items of a list
    separator           what stands between members, and between items
    is_spaced           whether white space is read around members; `around_values`: also around values
    names               a pattern for the names of members that a schema does not declare; "": they cannot
                        be written
    escapes             what replaces a character of a name
    """

    member: str
    member_end: str
    item: str
    item_end: str
    stop: str
    kinds: Mapping[str, str] = field(default_factory=dict)
    quote: str = ""
    brackets: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    separator: str = ""
    is_spaced: bool = True
    around_values: bool = False
    names: str = ""
    escapes: Mapping[str, str] = field(default_factory=dict)


NOTATIONS = {
    "cohere_xml": Notation(
        '<cofl:value name="{name}" type="{kind}">',
        "</cofl:value>",
        '<cofl:value type="{kind}">',
        "</cofl:value>",
        stop="</cofl:value>",
        kinds={**dict.fromkeys(TYPES, "json"), "string": "raw", "object": "dict", "array": "list"},
        around_values=True,
        names=r"([^\x00\"&<>]|&amp;|&lt;|&gt;|&quot;)+",
        escapes={"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"},
    ),
    "minimax_m3_xml": Notation(
        f"{_NAMESPACE}<{{name}}>",
        f"{_NAMESPACE}</{{name}}>",
        f"{_NAMESPACE}<item>",
        f"{_NAMESPACE}</item>",
        stop=_NAMESPACE,
    ),
    "gemma": Notation(
        "{name}:",
        "",
        "",
        "",
        stop='<|"|>',
        quote='<|"|>',
        brackets={"object": ("{", "}"), "array": ("[", "]")},
        separator=",",
        is_spaced=False,
        names=r"[A-Za-z_][A-Za-z0-9_.-]*",
    ),
}
"""The notations by name: those of xgrammar, and that of Gemma 4."""


STYLE_NAMES = ("json", "pythonic", *STYLES, *NOTATIONS)
"""The names of all ways to write a value that has a schema."""


def add_arguments(schema: Any, style: str, call: CallContext) -> int:
    """Add the values of a schema, or of its JSON text, to the rules in a style; returns their symbol."""
    if style == "json":
        return add_schema(schema, call.rules, call.options)
    if isinstance(schema, str):
        schema = json_of("the schema", schema)
    if style == "pythonic":
        return add_keywords(schema, call)
    if style in STYLES:
        return add_parameters(schema, STYLES[style], call)
    return add_elements(schema, NOTATIONS[style], call)


def add_elements(schema: Any, notation: Notation, call: CallContext) -> int:
    """Add the arguments of a call that are valid under `schema` to the rules, and return their symbol.

    Raises GrammarError, and UnsupportedKeywordError for keywords that this format cannot enforce.
    """
    if call.excludes:
        raise GrammarError("excludes is not supported in this style")
    schema = object_schema(schema)
    return _Elements(schema, notation, call).object(schema)


class _Elements:
    def __init__(self, root: Mapping[str, Any], notation: Notation, call: CallContext) -> None:
        self._notation, self._call, self._rules = notation, call, call.rules
        space = space_around(call.options.whitespace)
        self._space = space if notation.is_spaced else EPSILON
        self._padding = space if notation.around_values else EPSILON
        self._readings = Readings(root)
        self._known: dict[tuple[str, bool, str], int] = {}

    # --- Objects and lists ---

    def object(self, schema: Mapping[str, Any]) -> int:
        """The symbol of an object's members, with the notation's brackets."""
        notation = self._notation
        if notation.escapes and "patternProperties" in schema:
            raise UnsupportedKeywordError("patternProperties is not supported in this style")
        names = pattern_expression(notation.names, dialect="ecma") if notation.names else EMPTY
        named, required, rest = members_of(schema, names)
        members = [self._member(name, one, name in required) for name, one in named.items()]
        others = [self._other(some, one, named) for some, one in rest]
        said = schema.get("additionalProperties")
        if not notation.names and (said or isinstance(said, dict) or schema.get("patternProperties")):
            raise UnsupportedKeywordError(
                "members that properties does not name cannot be written in this style"
            )
        terminal, separator = self._rules.terminal, self._notation.separator
        end = None if self._space == EPSILON else terminal("SPACE", self._space)
        layout = Separators(terminal("COMMA", literal(separator.encode())) if separator else None, end)
        in_order = self._call.options.key_order == "schema"
        return self._bracketed("object", add_members(self._rules, members, others, layout, in_order=in_order))

    def _member(self, name: str, schema: Any, is_required: bool) -> Member:
        return self._opened(literal(escaped(name, self._notation.escapes)), name, schema, is_required)

    def _other(self, names: Expression, schema: Any, named: Mapping[str, Any]) -> Member:
        known = union(*(literal(escaped(name, self._notation.escapes)) for name in named))
        return self._opened(without(names, known), "", schema, False)

    def _opened(self, written: Expression, name: str, schema: Any, is_required: bool) -> Member:
        before = self._notation.member.partition("{name}")[0]
        opening, prefix = self._call.marks.opening(self._space, before, written)
        rest = self._rules.rule("member")
        element = self._element(schema, self._notation.member, self._notation.member_end, name)
        self._rules.define(rest, sequence(prefix, element))
        return Member(opening, rest, is_required)

    def array(self, schema: Mapping[str, Any]) -> int:
        """The symbol of a list's items, with the notation's brackets."""
        prefix = checked(schema, "prefixItems", list) if "prefixItems" in schema else []
        low = checked(schema, "minItems", int) if "minItems" in schema else 0
        high = checked(schema, "maxItems", int) if "maxItems" in schema else None
        given = [self._item(one) for one in prefix]
        others = schema.get("items", True)
        other = None if others is False else self._item(others)
        separator = self._unless_empty("COMMA", literal(self._notation.separator.encode()))
        parts: list[Body] = []
        spend(len(given) ** 2)
        lengths = [n for n in range(len(given) + 1) if low <= n and (high is None or n <= high)]
        parts += [self._joined(given[:n], separator) for n in lengths]
        if other is not None:
            least, most = max(low - len(given), 1), None if high is None else high - len(given)
            if most is None or most >= least:
                more = repeated(sequence(separator, other), least - 1, None if most is None else most - 1)
                parts.append(sequence(self._joined([*given, other], separator), more))
        if not parts:
            raise GrammarError("no list is valid under the schema of an argument")
        rule = self._rules.rule("items")
        self._rules.define(rule, sequence(alternatives(*parts), self._unless_empty("SPACE", self._space)))
        return self._bracketed("array", rule)

    @staticmethod
    def _joined(items: list[int], separator: Body) -> Body:
        rest = [body for item in items[1:] for body in (separator, item)]
        return sequence(*items[:1], *rest)

    def _item(self, schema: Any) -> int:
        rule = self._rules.rule("item")
        element = self._element(schema, self._notation.item, self._notation.item_end, "")
        self._rules.define(rule, sequence(self._unless_empty("SPACE", self._space), element))
        return rule

    def _unless_empty(self, name: str, expression: Expression) -> Body:
        return sequence() if expression == EPSILON else self._rules.terminal(name, expression)

    def _bracketed(self, kind: str, content: int) -> int:
        if kind not in self._notation.brackets:
            return content
        opening, closing = (
            self._rules.terminal("BRACKET", literal(mark.encode())) for mark in self._notation.brackets[kind]
        )
        rule = self._rules.rule(kind)
        self._rules.define(rule, sequence(opening, content, closing))
        return rule

    # --- Values ---

    def _element(self, schema: Any, begin: str, end: str, name: str) -> int:
        """The symbol of a value and all that follows the name in its marks."""
        after = begin.partition("{name}")[2] if "{name}" in begin else begin
        key = (json.dumps(schema), "{name}" in begin, name if "{name}" in end else "")
        if key not in self._known:
            rule = self._known[key] = self._rules.rule("element")
            bodies = [
                sequence(
                    self._marks(after.replace("{kind}", kind)), body, self._marks(end.replace("{name}", name))
                )
                for reading in self._readings.of(schema)
                for kind, body in self._values(reading)
            ]
            if not bodies:
                raise GrammarError("no value is valid under the schema of an argument")
            self._rules.define(rule, alternatives(*bodies))
        return self._known[key]

    def _marks(self, text: str) -> Body:
        return self._call.marks.text(text)

    def _values(self, reading: Reading) -> Iterator[tuple[str, Body]]:
        """The values of a reading, by the notation's kinds."""
        notation, terminal = self._notation, self._rules.terminal
        kinds = notation.kinds or dict.fromkeys(TYPES, "")
        if "string" in reading.types:
            text = terminal("TEXT", text_of(reading, notation.stop, frozenset(), self._padding))
            yield kinds["string"], sequence(self._marks(notation.quote), text, self._marks(notation.quote))
        space = self._unless_empty("SPACE", self._padding)
        is_enum = "enum" in reading.schema
        scalars = [one for one in reading.types if one in TYPES[1:4] or (is_enum and one != "string")]
        if scalars:
            schema = {**self._readings.shared, **reading.schema}
            if "enum" not in schema and "type" not in schema:
                schema["type"] = scalars
            value = add_schema(schema, self._rules, self._call.options)
            written_as = scalars[0] if scalars[0] in TYPES[:4] else "null"  # an object of an enum is JSON
            yield kinds[written_as], sequence(space, value, space)
        for kind, build, known in (("object", self.object, OBJECT), ("array", self.array, _ARRAY)):
            if kind in reading.types and kind not in scalars:
                schema = {key: one for key, one in reading.schema.items() if key in known}
                self._check(reading.schema)
                yield kinds[kind], sequence(space, build(schema), space)

    def _check(self, schema: Mapping[str, Any]) -> None:
        for keyword in schema:
            if keyword not in OBJECT | _ARRAY | ANNOTATIONS | SHARED:
                raise UnsupportedKeywordError(f"the keyword {keyword!r} is not supported in this style")
