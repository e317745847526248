"""Values by the literals that they must satisfy, and which of these sets of values are not empty.

A `Value` is a set of literals. It has scalars (expressions of their texts) and shapes (objects and arrays,
which name the literals of their members). It is **productive** if at least one such value exists; this is
the least fixed point over the requirements of its shapes, computed before anything is emitted. So no emitted
automaton ever leads to a dead end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeAlias

from ...base.cached import cached_property
from ..errors import GrammarError, GrammarLimitError
from ..program.expression import EMPTY, Expression, literal, union
from ..work import limited_work, spend
from .alternatives import Atoms, Deciding, disjuncts
from .array_assertions import array_shapes
from .document import Document
from .formula import FALSE, LISTED, NEVER, TRUE, Formula, conjunction
from .limits import MAX_VALUES
from .nodes import Expander
from .objects import object_shape
from .outlines import (
    ARRAY,
    CONSTANTS,
    NUMBER,
    OBJECT,
    STRING,
    type_mask,
)
from .plain_objects import PlainObject, plain_object
from .scalars.numbers import any_integer, any_number, number_set
from .scalars.strings import string_set
from .scalars.texts import STRING as STRINGS

_MULTIPLYING = 270_000
"""The most steps in which a formula is multiplied out; with more, its alternatives are decided."""

Literals: TypeAlias = frozenset[int]
Productive: TypeAlias = Callable[[Literals], bool]


class Shape(Protocol):
    """An object or an array."""

    def members(self) -> Iterable[Literals]:
        """The literals that its members may have to satisfy: most of the values that will be needed later."""

    def is_productive(self, productive: Productive) -> bool:
        """Whether such an object or array exists, given which members exist."""


class Scalar(NamedTuple):
    """A set of scalars: a name for it, and the expression of its texts."""

    name: str
    expression: Expression


_CONSTANT_KINDS = sum(CONSTANTS)


def _constants(texts: list[bytes]) -> Scalar:
    """Some of null, false and true."""
    name = "_".join(text.decode().upper() for text in texts)
    return Scalar(name, union(*map(literal, texts)))


@lru_cache(maxsize=128)
def _scalars_of(types: tuple[str, ...], digits: int | None) -> tuple[Scalar, ...]:
    """The values of some types without other constraints; () if some are no scalars."""
    kinds = type_mask(list(types))
    if not kinds or kinds & (OBJECT | ARRAY):
        return ()
    scalars = []
    if kinds & _CONSTANT_KINDS:
        scalars.append(_constants([text for kind, text in CONSTANTS.items() if kinds & kind]))
    if kinds & NUMBER:
        scalars.append(Scalar("NUMBER", (any_number if "number" in types else any_integer)(digits)))
    if kinds & STRING:
        scalars.append(Scalar("STRING", STRINGS))
    return tuple(scalars)


class Value:
    """The values that satisfy all of some literals."""

    __slots__ = ("literals", "productive", "scalars", "shapes", "waiting")

    def __init__(self, literals: Literals) -> None:
        self.literals = literals
        self.scalars: list[Scalar] = []
        self.shapes: list[Shape] = []
        self.productive = False
        self.waiting: dict[Value, None] = {}

    def add(self, name: str, expression: Expression) -> None:
        """Add a set of scalars, if it is not empty."""
        if expression != EMPTY:
            self.scalars.append(Scalar(name, expression))


class Values:
    """All values that can be reached from the root value."""

    def __init__(self, expander: Expander) -> None:
        self.expander = expander
        self._values: dict[Literals, Value] = {}
        self._new: list[Value] = []
        self._shapes: dict[tuple[int, Formula] | PlainObject, list[Shape]] = {}

    @cached_property
    def _deciding(self) -> Deciding:
        return Deciding(self.expander)

    def get(self, literals: Literals) -> Value:
        """The value of these literals; if it is new, `settle` examines it later."""
        value = self._values.get(literals)
        if value is None:
            if len(self._values) >= MAX_VALUES:
                raise GrammarLimitError(f"the JSON Schema leads to more than {MAX_VALUES} kinds of values")
            if literals:
                value = Value(literals)
                self._new.append(value)
            else:
                value = _anything(self.expander.digits)
            self._values[literals] = value
        return value

    def is_productive(self, literals: Literals) -> bool:
        """Whether such a value exists; settles it and all its members first."""
        if not literals:
            return True
        if NEVER in literals:
            return False
        value = self._values.get(literals) or self.get(literals)
        if self._new:
            self.settle()
        return value.productive

    def strings(self, literals: Literals) -> Formula:
        """The strings among the values."""
        return self._formula(sorted(literals), STRING)

    def settle(self) -> None:
        """Determine which of the values requested so far, and of their members, are productive."""
        while self._new:
            filled = []
            while self._new:
                value = self._new.pop()
                try:
                    self._fill(value)
                except GrammarError as error:
                    self.expander.place(error, value.literals)
                    raise
                filled.append(value)
                for shape in value.shapes:
                    for literals in shape.members():
                        self.get(literals)
            self._check(reversed(filled))  # members before their containers

    def _check(self, values: Iterable[Value]) -> None:
        """Record which of these values are productive, and then which of those that wait for one of them."""
        waiting = dict.fromkeys(values)
        while waiting:
            later: dict[Value, None] = {}
            for value in waiting:
                if value.productive:
                    continue
                spend(10)
                if value.scalars or self._has_shape(value):
                    value.productive = True
                    later.update(value.waiting)
                    value.waiting = {}
            waiting = later

    def _has_shape(self, value: Value) -> bool:
        """Whether an object or an array of the value exists; if not, it waits for what they lack."""
        missing = self.missing(value)
        for other in missing or ():
            other.waiting[value] = None
        return missing is None

    def missing(self, value: Value) -> list[Value] | None:
        """The values, none of which exists, that objects and arrays of a value need; None if one exists."""
        missing: list[Value] = []

        def productive(literals: Literals) -> bool:
            if not literals:
                return True
            if NEVER in literals:
                return False
            other = self.get(literals)
            if not other.productive:
                missing.append(other)
            return other.productive

        for shape in value.shapes:
            if shape.is_productive(productive):
                return None
        return missing

    def _fill(self, value: Value) -> None:
        literals = sorted(value.literals)
        spend(10 + 10 * len(literals))
        if len(literals) == 1 and self._fill_plain(value, literals[0]):
            return
        kinds = self.expander.outlines.kinds(literals)
        if kinds & _CONSTANT_KINDS:
            self._add_constants(value, kinds, literals)
        if kinds & NUMBER and (formula := self._formula(literals, NUMBER)) != FALSE:
            value.add("NUMBER", number_set(formula, self.expander.digits))
        if kinds & STRING and (formula := self._formula(literals, STRING)) != FALSE:
            value.add("STRING", string_set(formula))
        for kind in (OBJECT, ARRAY):
            if kinds & kind:
                value.shapes += self._shapes_of(self._formula(literals, kind), kind)

    def _fill_plain(self, value: Value, literal: int) -> bool:
        """Fill the value of a literal that says nothing but types, or the keys of an object; whether it is
        one."""
        types = self.expander.only_types(literal)
        if types and (scalars := _scalars_of(types, self.expander.digits)):
            value.scalars += scalars
            return True
        plain = plain_object(literal, self.expander)
        if plain is None:
            return False
        found = self._shapes.get(plain)
        if found is None:
            found = self._shapes[plain] = [plain.shape()]
        value.shapes += found
        return True

    def _add_constants(self, value: Value, kinds: int, literals: list[int]) -> None:
        """Add those of null, false and true that satisfy the literals."""
        found = [
            text for kind, text in CONSTANTS.items() if kinds & kind and self._formula(literals, kind) == TRUE
        ]
        if found:
            value.scalars.append(_constants(found))

    def _shapes_of(self, formula: Formula, kind: int) -> list[Shape]:
        """The objects or arrays of a formula; values with equal formulas share them."""
        if formula[0] == LISTED:
            return [formula[1]]
        shapes = self._shapes.get((kind, formula))
        if shapes is None:
            shapes = self._shapes[kind, formula] = []
            for atoms in self._alternatives(formula):
                if kind == OBJECT:
                    shapes.append(object_shape(atoms, self.expander))
                else:
                    shapes += array_shapes(atoms, self.expander)
        return shapes

    def _alternatives(self, formula: Formula) -> list[Atoms]:
        """The disjuncts of a formula about objects or arrays."""
        found: list[Atoms] | None = None
        with limited_work(_MULTIPLYING):
            found = disjuncts(formula, self.expander)
        return self._deciding.disjuncts(formula) if found is None else found

    def _formula(self, literals: list[int], kind: int) -> Formula:
        if len(literals) == 1:
            return self.expander.formula(literals[0], kind)
        return conjunction(self.expander.formula(literal, kind) for literal in literals)


@lru_cache(maxsize=16)
def _anything(digits: int | None) -> Value:
    """The value that satisfies no literals in particular: the same in all schemas."""
    values = Values(Expander(Document(True), {}, "error", "assert", digits))
    value = Value(frozenset())
    values._values[value.literals] = value
    values._new.append(value)
    values.settle()
    return value
