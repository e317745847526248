"""The arguments of a call as the members of an object, however a style writes these.

The schema is read as that of a JSON value, with all its keywords; a style says how a member is written,
and which texts and which JSON stand for its value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from ..errors import GrammarError, UnsupportedKeywordError
from ..program.rules import Rules, alternatives, sequence
from ..schema import SchemaOptions, open_schema
from ..schema.document import LATEST, Resource
from ..schema.formula import Formula
from ..schema.layout import Punctuation
from ..schema.objects import ObjectShape
from ..schema.ordering import MemberWriter
from .members import Separators

Literals: TypeAlias = "frozenset[int]"


class Arguments:
    """The arguments that are valid under a schema.

    names  a schema for the names that the schema does not name: what a style can write

    Raises GrammarError if no object is valid under the schema, and what `add_schema` raises.
    """

    def __init__(self, schema: Any, rules: Rules, options: SchemaOptions, names: dict[str, Any]) -> None:
        self._rules = rules
        self._emitter, root = open_schema(schema, rules, options)
        self._values = self._emitter.values
        self._own: dict[str, tuple[dict[str, Any], int]] = {}
        self._resource = Resource("", {}, LATEST)
        literals = root | {self._literal({"type": "object"})}
        if not self._values.is_productive(literals):
            raise GrammarError("the schema of a call's parameters must describe an object")
        self.names = list(dict.fromkeys(name for shape in self._shapes(literals) for name in shape.names))
        writable = {"propertyNames": {"anyOf": [{"enum": self.names}, names] if self.names else [names]}}
        self._objects = literals | {self._literal(writable)}

    def _literal(self, schema: dict[str, Any]) -> int:
        """The literal of one more schema, which follows the latest draft; it is kept, as literals are found
        by identity."""
        key = json.dumps(schema)
        if key not in self._own:
            self._own[key] = schema, self._values.expander.literal(schema, self._resource, ())
        return self._own[key][1]

    def _shapes(self, literals: Literals) -> Iterator[ObjectShape]:
        self._values.is_productive(literals)
        for shape in self._values.get(literals).shapes:
            if not isinstance(shape, ObjectShape):
                raise UnsupportedKeywordError("a long enum of objects is not supported for arguments")
            yield shape

    def add(self, writer: MemberWriter, layout: Separators) -> int:
        """Add the members, each as `writer` writes it, to the rules, and return their symbol."""
        nothing = self._rules.rule("nothing")
        self._rules.define(nothing, sequence())
        end = nothing if layout.end is None else layout.end
        comma = nothing if layout.separator is None else layout.separator
        marks = Punctuation(nothing, end, end, nothing, nothing, nothing, nothing, comma)
        symbols = []
        for shape in self._shapes(self._objects):
            for plan in self._emitter.plans(shape):
                if plan.counts_other_keys:
                    raise UnsupportedKeywordError(
                        "the keywords of the parameters count names that they do not name, which may repeat "
                        "here: only minProperties of one more than the required names is supported then"
                    )
                symbols.append(self._rules.rule("members"))
                self._emitter.define_object(symbols[-1], plan, writer, marks)
        if not symbols:
            raise GrammarError("no arguments are valid under the schema of a call's parameters")
        self._emitter.finish()
        found = self._rules.rule("arguments")
        self._rules.define(found, alternatives(*symbols))
        return found

    def is_possible(self, literals: Literals) -> bool:
        """Whether any value is valid."""
        return self._values.is_productive(literals)

    def strings(self, literals: Literals) -> Formula | None:
        """The strings that a value may be; None if it is never one."""
        of_type = literals | {self._literal({"type": "string"})}
        return self._values.strings(of_type) if self._values.is_productive(of_type) else None

    def values(self, literals: Literals) -> tuple[int, ...]:
        """The symbols of a value as JSON."""
        return self._emitter.symbols(literals)

    def json(self, literals: Literals, types: Sequence[str]) -> tuple[int, ...]:
        """The symbols of the values of some types, as JSON."""
        return self._emitter.symbols(literals | {self._literal({"type": list(types)})})
