"""What schemas say about the types of values: enough to read what a family writes without them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ..base.errors import quoted
from ..contract import ParameterError
from ..grammar.derivatives.limits import ReadingMeter
from ..grammar.derivatives.states import State, states_of
from ..grammar.errors import GrammarError, GrammarLimitError
from ..grammar.limits import Limits
from ..grammar.schema.formula import PATTERN
from ..grammar.schema.scalars.strings import content_set
from ..grammar.work import counted_work, kept_while_reading, spend, spend_on_each

TYPES = frozenset(("string", "number", "boolean", "null", "object", "array"))
READING = Limits(reading=100_000)
"""The most steps, each of about a microsecond, in which the schemas of one parser are read."""

_MAX_DEPTH = 16
"""The deepest nesting of choices, parts and references of one value; what is deeper may be any value."""
_SCHEMA, _LISTED = 4, 1 / 8
"""The steps of a schema, and of a listed value."""
_MAX_PATTERNS = 16
"""The most patterns for names that are followed in one reading: others match nothing, or all that is left."""
_MAX_STATES, _PATTERN_STEPS = 64, 1_000
"""The most states of such a pattern, and the most steps in which they are found."""
_SIMPLE = re.compile(r"(?=.{0,64}\Z)(?:[^{\\]|\\[^pPuUxk0-9])*", re.DOTALL)
"""A pattern of which the states are soon found."""
_ANY_NAME: Sequence[State] = [(True, [((1 << 256) - 1, 0)])]
_NAMES = {
    **dict.fromkeys(("integer", "int", "float"), "number"),
    "str": "string",
    "bool": "boolean",
    "dict": "object",
    "list": "array",
}
"""Other names of types: those of Python occur in tools that are written by hand."""


class SchemaView:
    """The values that a schema allows, so far as their types and listed strings go; any value where it cannot
    be followed.

    types    the types of its values; whole numbers are numbers
    strings  the strings that it lists; None if it does not list them. Empty if its values are no strings
    """

    __slots__ = ("_first", "_items", "_members", "_others", "_owns_members", "_patterns", "strings", "types")

    def __init__(self) -> None:
        self.types = TYPES
        self.strings: frozenset[str] | None = None
        self._members: dict[str, SchemaView] = {}
        self._owns_members = False
        self._patterns: tuple[tuple[Sequence[State], SchemaView], ...] = ()
        self._others: SchemaView | None = None
        self._first: tuple[SchemaView, ...] = ()
        self._items: SchemaView | None = None

    @property
    def names(self) -> Collection[str]:
        """The names of the members that it declares."""
        return self._members.keys()

    def member(self, name: str) -> SchemaView:
        """The schema of a member of an object, the same one each time: the first that says a type."""
        named = self._members.get(name)
        if named is None or named.types == TYPES:
            named = next((one for states, one in self._patterns if _matches(states, name)), named)
        return named or self._others or ANYTHING

    def item(self, index: int) -> SchemaView:
        """The schema of an item of a list, the same one each time."""
        return self._first[index] if index < len(self._first) else self._items or ANYTHING

    def next_index(self, index: int) -> int:
        """What counts as the index of the next item: that of any whose schema is the same, and never 0."""
        return min(index, max(len(self._first) - 1, 0)) + 1

    def narrow(self, types: frozenset[str], strings: frozenset[str] | None) -> None:
        """Allow only values of these types, and only these strings, unless that is None."""
        self.types &= types
        if "string" not in self.types:
            self.strings = frozenset()
        elif strings is not None:
            self.strings = strings if self.strings is None else self.strings & strings

    def take_parts(self, other: SchemaView) -> None:
        """Take the schemas of members and items from another view, where there are none here."""
        if not self._members:
            self._members, self._owns_members = other._members, False
        elif other._members:
            if not self._owns_members:
                spend(len(self._members))
                self._members, self._owns_members = self._members.copy(), True
            for name, one in spend_on_each(other._members.items()):
                self._members.setdefault(name, one)
        self._patterns = self._patterns or other._patterns
        self._others = self._others or other._others
        self._first = self._first or other._first
        self._items = self._items or other._items


ANYTHING = SchemaView()
"""The schema of any value."""


CUSTOM_INPUT = {"type": "object", "properties": {"input": {"type": "string"}}}
"""The schema of a custom tool's arguments, as far as readers need it."""

TEXT = SchemaView()
"""The view of what is no JSON, but the input of a custom tool as it is."""


def view_of(schema: Any, what: str = "the arguments") -> SchemaView:
    """The view of a schema. References are followed within it.

    Raises `ParameterError`, which names it by `what`, if it takes too many steps (`READING`): all that are
    read within one `counted_work` count together.
    """
    views = _Views(schema)
    with counted_work(READING):
        try:
            return views.whole(schema)
        except GrammarLimitError:
            at = f" at {quoted(views.place)}" if views.place else ""
            raise ParameterError(
                f"{what} are too large{at}: all schemas that a parser reads may take {READING.reading:,} "
                f"steps, {_SCHEMA} for each schema, and one for each member and for each "
                f"{int(1 / _LISTED)} listed values"
            ) from None


def function_views(schemas: Mapping[str, Any]) -> dict[str, SchemaView]:
    """The views of the parameters of functions, by name. Raises `ParameterError`, as `view_of` does."""
    with counted_work(READING):
        return {
            name: view_of(one, f"tools: the parameters of {quoted(name)}") for name, one in schemas.items()
        }


class _Patterns:
    """The number of patterns that have been followed."""

    def __init__(self) -> None:
        self.count = 0


class _Views:
    """The views of the schemas in a document, one for each.

    place  the member of the whole in which the schema that is read stands; "" for the whole itself
    """

    def __init__(self, document: Any) -> None:
        self._document = document
        self._views: dict[int, SchemaView] = {}
        self._is_known: dict[int, bool] = {}
        self._left: list[tuple[str, Mapping[str, Any]]] = []
        self.place = ""

    def whole(self, schema: Any) -> SchemaView:
        """The view of a schema, with those of all members and items in it."""
        view = self._known(schema, 0)
        while self._left:
            self.place, one = self._left.pop()
            self._known(one, 0)
        return view

    def _of(self, schema: Any, name: str = "") -> SchemaView:
        """The view of a schema, which may become known later."""
        if not isinstance(schema, Mapping):
            return ANYTHING
        view = self._views.get(id(schema))
        if view is None:
            spend(_SCHEMA)
            view = self._views[id(schema)] = SchemaView()
            self._left.append((self.place or name, schema))
        return view

    def _known(self, schema: Any, depth: int) -> SchemaView:
        """The view of a schema; ANYTHING for one that contains itself, or is nested too deep."""
        view = self._of(schema)
        is_known = self._is_known.get(id(schema))
        if view is ANYTHING or is_known:
            return view
        if is_known is False or depth == _MAX_DEPTH:
            return ANYTHING
        self._is_known[id(schema)] = False
        self._read(schema, view)
        for choices in (schema.get("anyOf"), schema.get("oneOf")):
            if isinstance(choices, list) and choices:
                self._take(view, _either([self._known(one, depth + 1) for one in spend_on_each(choices)]))
        parts = schema.get("allOf")
        for part in spend_on_each(parts) if isinstance(parts, list) else ():
            self._take(view, self._known(part, depth + 1))
        if "$ref" in schema:
            self._take(view, self._known(self._target(schema["$ref"]), depth + 1))
        self._is_known[id(schema)] = True
        return view

    def _take(self, view: SchemaView, part: SchemaView) -> None:
        view.narrow(part.types, part.strings)
        view.take_parts(part)

    def _read(self, schema: Mapping[str, Any], view: SchemaView) -> None:
        """What a schema says itself."""
        view.narrow(_types_of(schema.get("type")), None)
        listed = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(listed, list):
            spend(int(_LISTED * len(listed)))
            kinds = {type(value): value for value in listed}.values()
            strings = frozenset(value for value in listed if isinstance(value, str))
            view.narrow(frozenset(map(type_of, kinds)), strings)
        members, patterns = schema.get("properties"), schema.get("patternProperties")
        others = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
        first, items = schema.get("prefixItems"), schema.get("items")
        if isinstance(members, Mapping):
            view._members = {name: self._of(member, name) for name, member in spend_on_each(members.items())}
        if isinstance(patterns, Mapping):
            unknown = _ANY_NAME if others is False else ()  # there are no names but those
            found = (
                (self._states_of(one) or unknown, self._of(member))
                for one, member in spend_on_each(patterns.items())
            )
            view._patterns = tuple((states, member) for states, member in found if states)
        if isinstance(others, Mapping):
            view._others = self._of(others)
        if isinstance(first, list):
            view._first = tuple(self._of(item) for item in spend_on_each(first))
        if isinstance(items, Mapping):
            view._items = self._of(items)

    @staticmethod
    def _states_of(pattern: Any) -> Sequence[State]:
        """The states of a pattern for names; none if it has too many, or is none."""
        followed = kept_while_reading(_Patterns)
        is_simple = isinstance(pattern, str) and _SIMPLE.fullmatch(pattern)
        if not is_simple or followed.count == _MAX_PATTERNS:
            return ()
        followed.count += 1
        try:
            found = states_of(content_set((PATTERN, pattern)), _MAX_STATES, ReadingMeter(_PATTERN_STEPS))
        except GrammarError:
            spend(0)  # the limit may be that on reading
            return ()
        return found or ()

    def _target(self, reference: Any) -> Any:
        """What a reference leads to; None for what cannot be followed."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        target = self._document
        for step in spend_on_each(reference[1:].split("/")[1:]):
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, Mapping) or name not in target:
                return None
            target = target[name]
        return target


def _matches(states: Sequence[State], name: str) -> bool:
    number = 0
    for byte in name.encode("utf-8", "surrogatepass"):
        number = next((after for mask, after in states[number][1] if mask >> byte & 1), -1)
        if number < 0:
            return False
    return states[number][0]


def _either(views: list[SchemaView]) -> SchemaView:
    """The values of any of some views."""
    either = SchemaView()
    either.types = frozenset().union(*(view.types for view in views))
    listed = {id(view.strings): view.strings for view in views if view.strings != frozenset()}
    if None not in listed.values():
        spend(int(_LISTED * sum(len(strings) for strings in listed.values() if strings)))
        either.strings = _union(strings for strings in listed.values() if strings is not None)
    for view in views:
        either.take_parts(view)
    return either


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    """All members of some sets; of one, the set itself."""
    several = list(sets)
    return several[0] if len(several) == 1 else frozenset().union(*several)


def _types_of(given: Any) -> frozenset[str]:
    """The types that a keyword `type` names."""
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list):
        return TYPES
    spend(int(_LISTED * len(names)))
    return frozenset(_NAMES.get(name, name) for name in names if isinstance(name, str)) & TYPES or TYPES


def type_of(value: Any) -> str:
    """The type of a value in JSON."""
    if value is None:
        return "null"
    kinds = ((bool, "boolean"), (str, "string"), (int | float, "number"), (Mapping, "object"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "array")
