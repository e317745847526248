"""The parameters of a call in the format of Qwen3-Coder: `<parameter=city>Paris</parameter>`.

The schema of a function's arguments declares the parameters. They come in any order, each at most once,
all required ones included, with white space around them. A value that may be a string is literal text
up to `</parameter>`; all others are JSON, with white space around them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import GrammarError, UnsupportedKeywordError
from ..program.expression import Expression, both, concat, literal, optional, repeat, union, without
from ..program.rules import ACCEPT, Body, Edge, Rules, alternatives, clause, clear, sequence, set_bit
from ..program.unicode import ANY_CHARACTER, characters, invert, ranges
from ..regex.pattern import pattern_expression
from ..schema import SchemaOptions, add_schema
from ..schema.layout import spacing_of
from ..schema.texts import WHITESPACE
from .text import text_until, utf8

MAX_REFERENCES = 32
"""Maximum length of the chain of `$ref` from a parameter to its type."""

CLOSING_TAG = "</parameter>"

_NAME: Expression = repeat(characters(invert(ranges(((0, 32), (60, 60), (62, 62))))), 1)
"""The name of a parameter that the schema does not declare: no white space, `<` or `>`."""

_ANNOTATIONS = {"title", "description", "default", "examples", "deprecated", "$comment", "$schema", "$id"}
_SHARED = {"$defs", "definitions"}
_STRING = {"minLength", "maxLength", "pattern"}


def add_parameters(schema: Any, rules: Rules, options: SchemaOptions) -> int:
    """Add the parameters of an object that is valid under `schema` to `rules`, and return their symbol.

    Raises GrammarError, and UnsupportedKeywordError for keywords that this format cannot enforce.
    """
    if isinstance(schema, bool):
        schema = {} if schema else {"type": "nothing"}
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        raise GrammarError("the schema of a call's parameters must describe an object")
    _reject_unknown_keywords(schema, {"type", "properties", "required", "additionalProperties"} | _SHARED)
    return _Parameters(schema, rules, options).add()


def _space(whitespace: str | int) -> Expression:
    """The white space around parameters and values; with "compact", the line break of Qwen's own format."""
    spacing = spacing_of(whitespace)
    if spacing is None:
        return repeat(WHITESPACE)
    return optional(literal(b"\n")) if whitespace == "compact" else spacing.outer


def _reject_unknown_keywords(schema: Mapping[str, Any], known: set[str]) -> None:
    for keyword in schema:
        if keyword not in known and keyword not in _ANNOTATIONS:
            raise UnsupportedKeywordError(f"the keyword {keyword!r} is not supported for parameters in XML")


def _checked(schema: Mapping[str, Any], keyword: str, kind: type) -> Any:
    value = schema[keyword]
    if not isinstance(value, kind) or (isinstance(value, int) and value < 0):
        raise GrammarError(f"the keyword {keyword!r} cannot be {value!r:.80}")
    return value


class _Parameters:
    def __init__(self, schema: Mapping[str, Any], rules: Rules, options: SchemaOptions) -> None:
        self._root, self._rules, self._options = schema, rules, options
        self._space = _space(options.whitespace)
        self._shared = {name: schema[name] for name in _SHARED if name in schema}
        self._others = schema.get("additionalProperties", True)
        named = _checked(schema, "properties", dict) if "properties" in schema else {}
        required = _checked(schema, "required", list) if "required" in schema else []
        if not all(isinstance(name, str) for name in required):
            raise GrammarError("required must be a list of strings")
        self._required = set(required)
        self._named = dict(named) | {name: self._others for name in required if name not in named}

    def add(self) -> int:
        """Define the rule. States: 0 between parameters, 1 the end, then one within each parameter."""
        terminal, symbol = self._rules.terminal, self._rules.rule("parameters")
        states: list[list[Edge]] = [[], [Edge(ACCEPT, 0)]]
        at_end = []
        for bit, (name, schema) in enumerate(self._named.items()):
            opening = concat(self._space, literal(utf8(f"<parameter={name}>")))
            states[0].append(Edge(terminal("PARAMETER", opening), len(states), (clear(bit), set_bit(bit))))
            states.append([Edge(self._value(schema), 0)])
            if name in self._required:
                at_end.append(clause((bit, True)))
        if self._others is not False:
            others = without(_NAME, union(*(literal(utf8(name)) for name in self._named)))
            opening = concat(self._space, literal(b"<parameter="), others, literal(b">"))
            states[0].append(Edge(terminal("PARAMETER", opening), len(states)))
            states.append([Edge(self._value(self._others), 0)])
        states[0].append(Edge(terminal("SPACE", self._space), 1, tuple(at_end)))
        self._rules.define_automaton(symbol, states, len(self._named))
        return symbol

    def _value(self, schema: Any) -> int:
        """The symbol of a value and its closing tag."""
        rule = self._rules.rule("value")
        self._rules.define(rule, alternatives(*self._bodies(schema, 0)))
        return rule

    def _bodies(self, schema: Any, depth: int) -> Iterator[Body]:
        """The alternatives for a value, closing tag included."""
        if not isinstance(schema, dict | bool):
            raise GrammarError(f"a schema must be an object or a boolean, not {schema!r:.80}")
        if isinstance(schema, bool) or not set(schema) - _ANNOTATIONS - _SHARED:
            if schema is not False:
                yield self._text({})
            return
        if depth > MAX_REFERENCES:
            raise GrammarError(f"the type of a parameter is more than {MAX_REFERENCES} references away")
        if "$ref" in schema:
            _reject_unknown_keywords(schema, {"$ref"})
            yield from self._bodies(self._target(schema["$ref"]), depth + 1)
            return
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                _reject_unknown_keywords(schema, {keyword})
                for one in _checked(schema, keyword, list):
                    yield from self._bodies(one, depth + 1)
                return
        yield from self._typed(schema)

    def _typed(self, schema: Mapping[str, Any]) -> Iterator[Body]:
        if "enum" in schema or "const" in schema:
            _reject_unknown_keywords(schema, {"enum", "const", "type"})
            values = _checked(schema, "enum", list) if "enum" in schema else [schema["const"]]
            texts = [value for value in values if isinstance(value, str)]
            others = [value for value in values if not isinstance(value, str)]
            if texts:
                yield self._closed(union(*(literal(utf8(text)) for text in texts)))
            if others:
                yield self._json({**schema, "enum": others})
            return
        types = schema.get("type", "any")
        types = [types] if isinstance(types, str) else list(_checked(schema, "type", list))
        if "string" in types or "any" in types:
            _reject_unknown_keywords(schema, {"type"} | _STRING)
            yield self._text(schema)
            types.remove("string" if "string" in types else "any")
        if types:
            yield self._json({**schema, "type": types})

    def _target(self, reference: Any) -> Any:
        """The target of a `$ref` within the schema."""
        found: Any = self._root
        parts = str(reference).split("/")
        for part in parts[1:]:
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        if parts[0] != "#" or not isinstance(found, dict | bool):
            raise GrammarError(f"$ref {reference!r} does not point to a subschema")
        return found

    def _text(self, schema: Mapping[str, Any]) -> Body:
        """Literal text and its closing tag."""
        whole = text_until(frozenset((CLOSING_TAG,)))
        low = _checked(schema, "minLength", int) if "minLength" in schema else 0
        high = _checked(schema, "maxLength", int) if "maxLength" in schema else None
        parts = []
        if low or high is not None:
            parts.append(repeat(ANY_CHARACTER, low, high))
        if "pattern" in schema:
            parts.append(pattern_expression(_checked(schema, "pattern", str), dialect="ecma", search=True))
        if parts:
            whole = both(whole, concat(both(*parts), literal(CLOSING_TAG.encode())))
        return self._rules.terminal("TEXT", whole)

    def _json(self, schema: Mapping[str, Any]) -> Body:
        value = add_schema({**self._shared, **schema}, self._rules, self._options)
        space = self._rules.terminal("SPACE", self._space)
        return sequence(space, value, self._closed(literal(b"")))

    def _closed(self, value: Expression) -> int:
        parts = (self._space, value, self._space, literal(CLOSING_TAG.encode()))
        return self._rules.terminal("VALUE", concat(*parts))
