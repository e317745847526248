"""The ways to write an argument of a call, by the JSON types that its schema allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..errors import GrammarError, UnsupportedKeywordError
from ..program.expression import Expression, both, concat, literal, repeat, union
from ..program.unicode import ANY_CHARACTER
from ..regex.pattern import pattern_expression
from ..schema.formats import FORMATS, format_expression
from ..work import spend
from .conjunction import conjunction
from .text import free_text, utf8

MAX_REFERENCES = 32
"""Maximum length of the chain of `$ref` and `anyOf` from an argument to its type."""

TYPES = ("string", "number", "boolean", "null", "object", "array")
"""The types of JSON; whole numbers are of the type number."""

ANNOTATIONS = {"title", "description", "default", "examples", "deprecated", "$comment", "$schema", "$id"}
ANNOTATIONS |= {"readOnly", "writeOnly", "nullable"}
SHARED = {"$defs", "definitions"}
_STRING = {"type", "minLength", "maxLength", "pattern", "format"}
_OTHER_TYPES = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "items"}
_OTHER_TYPES |= {"prefixItems", "minItems", "maxItems", "uniqueItems", "properties", "required"}
_OTHER_TYPES |= {"additionalProperties", "minProperties", "maxProperties", "patternProperties"}
"""Keywords that say nothing about strings."""


class Reading(NamedTuple):
    """One way to write a value.

    types   the types that it may have
    schema  the schema of a value of these types
    texts   all strings that it may be; None: those that the schema allows
    """

    types: tuple[str, ...]
    schema: Mapping[str, Any]
    texts: tuple[str, ...] | None = None


class Readings:
    """Finds the readings of the schemas within one schema, the target of their references."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self.shared = {name: root[name] for name in SHARED if name in root}

    def of(self, schema: Any, depth: int = 0) -> Iterator[Reading]:
        """The readings of a value that is valid under `schema`; none if no value is."""
        spend(20)
        if not isinstance(schema, dict | bool):
            raise GrammarError(f"a schema must be an object or a boolean, not {schema!r:.80}")
        if isinstance(schema, bool) or not set(schema) - ANNOTATIONS - SHARED:
            if schema is not False:
                yield Reading(TYPES, {})
            return
        if depth > MAX_REFERENCES:
            raise GrammarError(f"the type of an argument is more than {MAX_REFERENCES} references away")
        if "$ref" in schema or "allOf" in schema:
            yield from self.of(self.plain(schema), depth + 1)
            return
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                reject_unknown_keywords(schema, {keyword})
                for one in checked(schema, keyword, list):
                    yield from self.of(one, depth + 1)
                return
        yield from _typed(schema)

    def plain(self, schema: Any, depth: int = 0) -> Any:
        """The schema without `$ref` and `allOf` at its top."""
        if not isinstance(schema, dict) or not {"$ref", "allOf"} & set(schema):
            return schema
        if depth > MAX_REFERENCES:
            raise GrammarError(f"the type of an argument is more than {MAX_REFERENCES} references away")
        spend(20)
        parts = checked(schema, "allOf", list) if "allOf" in schema else []
        if "$ref" in schema:
            parts = [self.target(schema["$ref"]), *parts]
        own = {name: value for name, value in schema.items() if name not in ("$ref", "allOf")}
        if not set(own) - ANNOTATIONS:
            own = {}
        return conjunction([*(self.plain(one, depth + 1) for one in parts), own])

    def target(self, reference: Any) -> Any:
        """The target of a `$ref` within the schema."""
        found: Any = self._root
        parts = str(reference).split("/")
        for part in parts[1:]:
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        if parts[0] != "#" or not isinstance(found, dict | bool):
            raise GrammarError(f"$ref {reference!r} does not point to a subschema")
        return found


def checked(schema: Mapping[str, Any], keyword: str, kind: type) -> Any:
    """The value of a keyword. Raises GrammarError if it is not of the type `kind`, or a negative number."""
    value = schema[keyword]
    if not isinstance(value, kind) or (isinstance(value, int) and value < 0):
        raise GrammarError(f"the keyword {keyword!r} cannot be {value!r:.80}")
    return value


def reject_unknown_keywords(schema: Mapping[str, Any], known: set[str]) -> None:
    """Raise UnsupportedKeywordError for a keyword that is neither known nor an annotation."""
    for keyword in schema:
        if keyword not in known and keyword not in ANNOTATIONS:
            raise UnsupportedKeywordError(f"the keyword {keyword!r} is not supported for arguments in XML")


def text_of(reading: Reading, stop: str, excludes: frozenset[str], space: Expression) -> Expression:
    """The text of a string: without `stop`, which ends it, and without `excludes`; where more is said about
    it, with white space around it."""
    if reading.texts is not None:
        texts = (utf8(text) for text in reading.texts if not any(one in text for one in (*excludes, stop)))
        return concat(space, union(*map(literal, texts)), space)
    schema = reading.schema
    reject_unknown_keywords(schema, _STRING | _OTHER_TYPES)
    parts = []
    low = checked(schema, "minLength", int) if "minLength" in schema else 0
    high = checked(schema, "maxLength", int) if "maxLength" in schema else None
    if low or high is not None:
        parts.append(repeat(ANY_CHARACTER, low, high))
    if "pattern" in schema:
        parts.append(pattern_expression(checked(schema, "pattern", str), dialect="ecma", search=True))
    if "format" in schema and checked(schema, "format", str) in FORMATS:
        parts.append(format_expression(schema["format"]))
    text = free_text((stop,), excludes)
    return concat(space, both(text, *parts), space) if parts else text


def type_of(value: Any) -> str:
    """The type of a value of JSON."""
    if value is None:
        return "null"
    kinds = ((bool, "boolean"), ((int, float), "number"), (str, "string"), (list, "array"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "object")


def _typed(schema: Mapping[str, Any]) -> Iterator[Reading]:
    schema = {"type": list(TYPES), **schema}
    names = [schema["type"]] if isinstance(schema["type"], str) else list(checked(schema, "type", list))
    types = tuple(dict.fromkeys("number" if name == "integer" else name for name in names))
    if "enum" in schema or "const" in schema:
        reject_unknown_keywords(schema, {"enum", "const", "type"})
        values = checked(schema, "enum", list) if "enum" in schema else [schema["const"]]
        texts = tuple(value for value in values if isinstance(value, str))
        if texts and "string" in types:
            yield Reading(("string",), {}, texts)
        for one in TYPES[1:]:
            if one in types and (of_type := [value for value in values if type_of(value) == one]):
                yield Reading((one,), {**schema, "enum": of_type})
        return
    if names == ["integer"] or ("integer" in names and "number" not in names):
        yield Reading(("number",), {**schema, "type": "integer"})
        types = tuple(one for one in types if one != "number")
    if types:
        yield Reading(types, {key: value for key, value in schema.items() if key != "type"})
