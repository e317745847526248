"""The arguments of a call as the members of an object, however a style writes these.

The schema is read as that of a JSON value, with all its keywords; a style says how members and items are
written, and which texts and which JSON stand for a value.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ..derivatives.states import byte_ranges, states_of
from ..errors import GrammarError, GrammarLimitError, UnsupportedKeywordError
from ..program.expression import Expression, both, literal, repeat, union, without
from ..program.free_text import utf8
from ..program.rules import Rules, alternatives, sequence
from ..program.unicode import ANY_CHARACTER
from ..schema.arrays import ArrayShape
from ..schema.compiling import open_schema, tell
from ..schema.document import LATEST, Resource, locate
from ..schema.emitting import ItemWriter
from ..schema.formula import AND, NOT, WITHIN, Formula, conjunction
from ..schema.keywords.contradictions import no_value
from ..schema.layout import Punctuation
from ..schema.objects import Literals, ObjectShape, Region
from ..schema.options import SchemaOptions
from ..schema.ordering import MemberWriter
from ..schema.scalars.lifting import respelled
from ..schema.scalars.strings import content_set
from ..schema.scalars.texts import is_encodable

TYPES = ("string", "number", "boolean", "null", "object", "array")
"""The types of JSON; whole numbers are of the type number."""

MAX_NAME = 1_024
"""Maximum number of characters of an argument's name as it is written: readers hold it back until its end."""

MAX_STATES = 1_000
"""The most states of the names of parameters that a pattern describes, in a style that escapes characters."""

_UP_TO_MAX_NAME = repeat(ANY_CHARACTER, 0, MAX_NAME)

_MAX_CACHED_LENGTH = 200
"""Maximum length of a description of names whose escaped form is cached."""


class Separators(NamedTuple):
    """What stands between members or items.

    separator  the terminal between two of them; None: nothing
    end        the terminal after the last one, white space perhaps; None: nothing
    """

    separator: int | None = None
    end: int | None = None


class Arguments:
    """The values that are valid under a schema, by literals (see `schema.nodes`).

    names    a schema for the names that a style can write where the schema does not name them; None: it
             cannot write others
    escapes  what replaces a character of a name
    root     the literals of the object of all arguments

    Raises GrammarError if no object is valid under the schema, and what `add_schema` raises.
    """

    def __init__(
        self,
        schema: Any,
        rules: Rules,
        options: SchemaOptions,
        names: dict[str, Any] | None,
        escapes: Mapping[str, str],
    ) -> None:
        self._rules, self._options = rules, options
        self._names, self._escapes = names, escapes
        self._emitter, root = open_schema(schema, rules, options)
        self._emitter.reads_items = isinstance(rules, Rules)  # not in other spellings than those of JSON
        self._values = self._emitter.values
        self._own: dict[str, tuple[dict[str, Any], int]] = {}
        self._resource = Resource("", {}, LATEST)
        self._nothing = rules.rule("nothing")
        rules.define(self._nothing, sequence())
        self.root = self.of_types(root, "object")
        if not self.is_possible(self.root):
            error = no_value(self._values, root)
            if self.is_possible(root):
                error = GrammarError(
                    "no object is valid under the schema of a call's parameters: it must allow objects, and "
                    "a value of each property that it requires"
                )
            locate(error, schema, None)
            raise error

    # --- Values ---

    def _literal(self, schema: dict[str, Any]) -> int:
        """The literal of one more schema, which follows the latest draft; it is kept, as literals are found
        by identity."""
        key = json.dumps(schema)
        if key not in self._own:
            self._own[key] = schema, self._values.expander.literal(schema, self._resource, ())
        return self._own[key][1]

    def of_types(self, literals: Literals, *types: str) -> Literals:
        """The values of some types."""
        return literals | {self._literal({"type": list(types)})}

    def is_possible(self, literals: Literals) -> bool:
        """Whether there is such a value."""
        return self._values.is_productive(literals)

    def is_listed(self, literals: Literals) -> bool:
        """Whether `enum` or `const` lists the values."""
        nodes = (self._values.expander.node(literal) for literal in literals if literal & 1)
        return any(not {"enum", "const"}.isdisjoint(dict(getattr(node, "items", ()))) for node in nodes)

    def strings(self, literals: Literals) -> Formula | None:
        """The strings that a value may be; None if it is never one."""
        of_type = self.of_types(literals, "string")
        return self._values.strings(of_type) if self.is_possible(of_type) else None

    def constants(self, literals: Literals, types: Collection[str]) -> Iterator[Expression]:
        """The constants of some types as Python writes them."""
        for kind, value in (("boolean", True), ("boolean", False), ("null", None)):
            if kind in types and self.is_possible(literals | {self._literal({"const": value})}):
                yield literal(str(value).encode())

    def json(self, literals: Literals, types: Sequence[str] = TYPES) -> tuple[int, ...]:
        """The symbols of the values of some types, as JSON."""
        return self._emitter.symbols(literals if types is TYPES else self.of_types(literals, *types))

    # --- Objects and arrays ---

    def named(self, literals: Literals) -> list[str]:
        """The names of the members that objects may have, so far as the schema names them."""
        return list(dict.fromkeys(name for shape in self._objects(literals) for name in shape.names))

    def written_names(self, keys: str | Region) -> Expression:
        """A name, or those of a region, as they are written, in UTF-8."""
        if not isinstance(keys, str):
            return both(_written(keys.names, self._escapes), _UP_TO_MAX_NAME)
        written = escaped(keys, self._escapes)
        if len(written.decode()) > MAX_NAME:
            raise UnsupportedKeywordError(f"a parameter's name has more than {MAX_NAME} characters")
        return literal(written)

    def restricts_others(self, literals: Literals) -> bool:
        """Whether members that the schema does not name have schemas, and the style cannot write them."""
        return self._names is None and any(shape.restricts_others for shape in self._objects(literals))

    def _objects(self, literals: Literals) -> Iterator[ObjectShape]:
        self.is_possible(literals)
        for shape in self._values.get(literals).shapes:
            if not isinstance(shape, ObjectShape):
                raise UnsupportedKeywordError("a long enum of objects is not supported for arguments")
            yield shape

    def object(self, literals: Literals, writer: MemberWriter, layout: Separators) -> int:
        """The symbol of the members of objects, each as `writer` writes it."""
        named = self.named(literals)
        writable = [*([{"enum": named}] if named else []), *([self._names] if self._names else [])]
        limited = literals | {self._literal({"propertyNames": {"anyOf": writable} if writable else False})}
        symbols = []
        for shape in self._objects(limited):
            for plan in self._emitter.plans(shape):
                if plan.counts_other_keys:
                    raise UnsupportedKeywordError(
                        "minProperties and the like are not supported where they count members that the "
                        "schema does not name: these may repeat here"
                    )
                symbols.append(self._rules.rule("members"))
                self._emitter.define_object(symbols[-1], plan, writer, self._marks(layout))
        if not symbols:
            raise GrammarError("no object is valid under the schema of a call's parameters in this style")
        return self._any_of("arguments", symbols)

    def array(self, literals: Literals, writer: ItemWriter, layout: Separators) -> int:
        """The symbol of the items of arrays, each as `writer` writes it."""
        symbols = []
        for shape in self._values.get(literals).shapes:
            if not isinstance(shape, ArrayShape):
                raise UnsupportedKeywordError("a long enum of arrays is not supported for arguments")
            if shape.is_productive(self.is_possible):
                symbols.append(self._rules.rule("items"))
                self._emitter.define_array(symbols[-1], shape, writer, self._marks(layout))
        return self._any_of("array", symbols)

    def finish(self) -> None:
        """Define the rules of all JSON that is used, and say what has no effect."""
        self._emitter.finish()
        tell(self._values.expander, self._rules, self._options)

    def _any_of(self, name: str, symbols: Sequence[int]) -> int:
        found = self._rules.rule(name)
        self._rules.define(found, alternatives(*symbols))
        return found

    def _marks(self, layout: Separators) -> Punctuation:
        nothing = self._nothing
        end = nothing if layout.end is None else layout.end
        comma = nothing if layout.separator is None else layout.separator
        return Punctuation(nothing, end, end, nothing, end, end, nothing, comma)


def escaped(name: str, escapes: Mapping[str, str]) -> bytes:
    """A name in UTF-8, with its characters replaced by `escapes`."""
    return utf8("".join(escapes.get(character, character) for character in name))


def _written(names: Formula, escapes: Mapping[str, str]) -> Expression:
    """The names that a formula allows, as they are written."""
    if not escapes:
        return content_set(names)
    parts = names[1] if names[0] == AND else (names,)
    named = [part for part in parts if part[0] == NOT and part[1][0] == WITHIN]
    rest = conjunction(part for part in parts if part not in named)
    find = _escaped if len(repr(rest)) <= _MAX_CACHED_LENGTH else _escaped.__wrapped__
    taken = (literal(escaped(one, escapes)) for part in named for one in part[1][1] if is_encodable(one))
    return without(find(rest, tuple(escapes.items())), union(*taken))


@lru_cache(maxsize=16)
def _escaped(names: Formula, escapes: tuple[tuple[str, str], ...]) -> Expression:
    states = states_of(content_set(names), MAX_STATES)
    if states is None:
        raise GrammarLimitError(f"the names of members need more than {MAX_STATES} states")
    rows = [
        (accepts, [edge for mask, target in steps for edge in byte_ranges(mask, target)])
        for accepts, steps in states
    ]
    written = {character.encode()[0]: (replacement.encode(),) for character, replacement in escapes}
    return respelled(rows, lambda byte: written.get(byte, (bytes((byte,)),)))
