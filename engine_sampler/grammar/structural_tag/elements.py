"""Arguments of a call as elements within elements, for formats that mark every value in their own way.

In Cohere's, `<cofl:value name="tags" type="list"><cofl:value type="raw">new</cofl:value></cofl:value>`, say.
A notation says how the members of objects and the items of lists are marked, by the types of their values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import GrammarError
from ..program.expression import EMPTY, EPSILON, Expression, literal
from ..program.json_text import loaded_json
from ..program.rules import Body, alternatives, sequence
from ..schema.compiling import add_schema
from ..schema.objects import Literals, Region
from .arguments import TYPES, Arguments, Separators
from .parameters import STYLES, CallContext, add_parameters, space_around, text_of, types_beside
from .pythonic import add_keywords
from .spellings import in_python

_NAMESPACE = "]<]minimax[>["


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
    python              as in `Style`
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
    python: str = ""


def _gemma(quote: str) -> Notation:
    return Notation(
        "{name}:",
        "",
        "",
        "",
        stop=quote,
        quote=quote,
        brackets={"object": ("{", "}"), "array": ("[", "]")},
        separator=",",
        is_spaced=False,
        names=r"[A-Za-z_][A-Za-z0-9_.-]*",
        python="constants",
    )


NOTATIONS = {
    "cohere_xml": Notation(
        '<cofl:value name="{name}" type="{kind}">',
        "</cofl:value>",
        '<cofl:value type="{kind}">',
        "</cofl:value>",
        stop="</cofl:value>",
        kinds={**dict.fromkeys(TYPES, "json"), "string": "raw", "object": "dict", "array": "list"},
        around_values=True,
        names=r"[^\x00]+",
        escapes={"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"},
    ),
    "minimax_m3_xml": Notation(
        f"{_NAMESPACE}<{{name}}>",
        f"{_NAMESPACE}</{{name}}>",
        f"{_NAMESPACE}<item>",
        f"{_NAMESPACE}</item>",
        stop=_NAMESPACE,
    ),
    "gemma": _gemma('<|"|>'),
    "function_gemma": _gemma("<escape>"),
}
"""The notations by name: those of xgrammar, and those of Gemma's models."""


STYLE_NAMES = ("json", "pythonic", *STYLES, *NOTATIONS)
"""The names of all ways to write a value that has a schema."""


def add_arguments(schema: Any, style: str, call: CallContext) -> int:
    """Add the values of a schema, or of its JSON text, to the rules in a style; returns their symbol."""
    if style == "json":
        return add_schema(schema, call.rules, call.options)
    if isinstance(schema, str):
        schema = loaded_json("the schema", schema)
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
    return _Elements(schema, notation, call).add()


class _Elements:
    """Writes members of objects and items of lists as elements: a `MemberWriter` and an `ItemWriter`."""

    def __init__(self, schema: Any, notation: Notation, call: CallContext) -> None:
        self._notation, self._call = notation, call
        self._rules = in_python(call.rules, notation.python)
        space = space_around(call.options.whitespace)
        self._space = space if notation.is_spaced else EPSILON
        self._padding = space if notation.around_values else EPSILON
        names = {"pattern": f"^{notation.names}$"} if notation.names else None
        self._arguments = Arguments(schema, self._rules, call.options, names, notation.escapes)
        separator, terminal = notation.separator.encode(), call.rules.terminal
        self._layout = Separators(
            terminal("COMMA", literal(separator)) if separator else None,
            None if self._space == EPSILON else terminal("SPACE", self._space),
        )
        self._elements: dict[tuple[Literals, str, str], int] = {}
        self._openings: dict[str | Region, tuple[int, Body]] = {}
        self._members: dict[tuple[Body, int], int] = {}
        self._waiting: list[tuple[int, Literals, str, str]] = []

    def add(self) -> int:
        """The symbol of all arguments."""
        found = self._object(self._arguments.root)
        while self._waiting:
            self._define_element(*self._waiting.pop())
        self._arguments.finish()
        return found

    # --- Objects and lists ---

    def _object(self, literals: Literals) -> int:
        """Objects; those with members whose names the notation cannot write are JSON."""
        if self._arguments.restricts_others(literals):
            rule = self._rules.rule("object")
            self._rules.define(rule, alternatives(*self._arguments.json(literals, ("object",))))
            return rule
        return self._bracketed("object", self._arguments.object(literals, self, self._layout))

    def _array(self, literals: Literals) -> int:
        return self._bracketed("array", self._arguments.array(literals, self, self._layout))

    def opening(self, keys: str | Region) -> int:
        """The terminal with which a member begins."""
        return self._opening(keys)[0]

    def _opening(self, keys: str | Region) -> tuple[int, Body]:
        if keys not in self._openings:
            before, name = self._notation.member.partition("{name}")[0], self._arguments.written_names(keys)
            self._openings[keys] = self._call.marks.opening(self._space, before, name)
        return self._openings[keys]

    def rest(self, keys: str | Region, literals: Literals) -> tuple[int, ...]:
        """What follows the opening of a member; nothing if there is no such value."""
        if not self._arguments.is_possible(literals):
            return ()
        notation, name = self._notation, keys if isinstance(keys, str) else ""
        element = self._element(literals, notation.member, notation.member_end, name)
        return (self._after("member", self._opening(keys)[1], element),)

    def symbols(self, literals: Literals) -> tuple[int, ...]:
        """The item of a list, with the white space before it; nothing if there is no such value."""
        if not self._arguments.is_possible(literals):
            return ()
        element = self._element(literals, self._notation.item, self._notation.item_end, "")
        return (self._after("item", self._unless_empty("SPACE", self._space), element),)

    def _after(self, name: str, before: Body, element: int) -> int:
        """The rule of an element and what stands before it: one for all places that are alike."""
        key = before, element
        if key not in self._members:
            rule = self._members[key] = self._rules.rule(name)
            self._rules.define(rule, sequence(*key))
        return self._members[key]

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

    def _element(self, literals: Literals, begin: str, end: str, name: str) -> int:
        """The symbol of a value and all that follows the name in its marks."""
        after = begin.partition("{name}")[2] if "{name}" in begin else begin
        end = end.replace("{name}", name)
        key = literals, after, end
        if key not in self._elements:
            self._elements[key] = self._rules.rule("element")
            self._waiting.append((self._elements[key], *key))
        return self._elements[key]

    def _define_element(self, rule: int, literals: Literals, begin: str, end: str) -> None:
        marks = self._call.marks.text
        bodies = [
            sequence(marks(begin.replace("{kind}", kind)), body, marks(end))
            for kind, body in self._values(literals)
        ]
        if not bodies:
            raise GrammarError("no value is valid under the schema of an argument")
        self._rules.define(rule, alternatives(*bodies))

    def _values(self, literals: Literals) -> Iterator[tuple[str, Body]]:
        """The values, by the notation's kinds; objects and lists of an enum are JSON."""
        notation, arguments, marks = self._notation, self._arguments, self._call.marks
        kinds = notation.kinds or dict.fromkeys(TYPES, "")
        strings = arguments.strings(literals)
        if strings is not None:
            text = text_of(strings, notation.stop, frozenset())
            if text != EMPTY:
                quote = marks.text(notation.quote)
                yield kinds["string"], sequence(quote, self._call.rules.terminal("TEXT", text), quote)
        space = self._unless_empty("SPACE", self._padding)
        is_listed = arguments.is_listed(literals)
        others = types_beside(strings, bool(notation.kinds or notation.quote))
        if values := arguments.json(literals, others if is_listed else others[:3]):
            yield kinds["null"], sequence(space, alternatives(*values), space)
        for kind, build in () if is_listed else (("object", self._object), ("array", self._array)):
            of_kind = arguments.of_types(literals, kind)
            if arguments.is_possible(of_kind):
                yield kinds[kind], sequence(space, build(of_kind), space)
