"""The automata of objects and arrays, and the rules that connect them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, Protocol

from ..errors import GrammarError, GrammarLimitError
from ..program.expression import EMPTY, Expression, literal
from ..program.operations import Operation, any_clear, at_least, clause, clear, count, saturate, set_bit
from ..program.rules import ACCEPT, UNIQUE_MARK, PlainEdge, Rules
from ..work import sort, spend, spend_on_each
from .arrays import ArrayShape
from .document import Document
from .layout import Punctuation
from .limits import MAX_CELLS
from .listed import Listed, ListedAutomaton
from .nodes import Expander
from .objects import ObjectShape, Plan, Region
from .options import KeyOrder
from .ordering import MemberWriter, ordered_object
from .outlines import CONSTANTS, json_kind
from .scalars.numbers import decimal, plain_numbers
from .scalars.strings import holds
from .scalars.texts import quoted_key
from .values import Literals, Shape, Values

_MAX_INLINE = 8
"""Maximum number of symbols of a value that are put on edges directly; a value with more gets a rule."""


_NAMES = {Plan: "object", ArrayShape: "array", Listed: "listed"}


class ItemWriter(Protocol):
    """How the items of arrays are written."""

    def symbols(self, literals: Literals) -> tuple[int, ...]:
        """The symbols of a value's alternatives; empty if no such value exists."""


class Emitter:
    """Converts settled values to rules."""

    def __init__(self, values: Values, rules: Rules, marks: Punctuation, key_order: KeyOrder) -> None:
        self.values = values
        self._rules = rules
        self._marks = marks
        self._ordered = key_order == "schema"
        self._symbols: dict[Literals, tuple[int, ...]] = {}
        self._shapes: dict[int, tuple[int, ...]] = {}  # by identity: the values keep them alive
        self._constants: dict[Any, tuple[int, ...]] = {}
        self._waiting: list[tuple[int, Plan | ArrayShape | Listed, Literals]] = []
        self._keys: dict[str, int] = {}
        self.unique_keys = False
        """Whether it matters that no object repeats a key."""
        self.reads_items = True
        """Whether a matcher can read the items of arrays: what is written is JSON."""

    def emit(self, literals: Literals, name: str) -> int:
        """The symbol of a rule for the value; also defines all the rules that it uses."""
        rule = self._rules.rule(name)
        symbols = self.symbols(literals)
        self._define_choice(rule, symbols)
        self.finish()
        return rule

    def finish(self) -> None:
        """Define all the rules that are used so far."""
        while self._waiting:
            symbol, shape, literals = self._waiting.pop()
            try:
                self._define(symbol, shape)
            except GrammarError as error:
                self.values.expander.place(error, literals)
                raise

    def _define(self, symbol: int, shape: Plan | ArrayShape | Listed) -> None:
        if isinstance(shape, Plan):
            self.unique_keys |= shape.counts_other_keys
            self.define_object(symbol, shape, self, self._marks)
        elif isinstance(shape, Listed):
            self._listed(symbol, shape.values)
        else:
            self.define_array(symbol, shape, self, self._marks)

    def symbols(self, literals: Literals) -> tuple[int, ...]:
        """The symbols of a value's alternatives; empty if no such value exists."""
        found = self._symbols.get(literals)
        if found is None:
            spend(20)
            found = self._symbols[literals] = self._new_symbols(literals) if literals else self._any_value()
        return found

    def _new_symbols(self, literals: Literals) -> tuple[int, ...]:
        self.values.is_productive(literals)
        value = self.values.get(literals)
        scalars = [self._rules.terminal(name, text) for name, text in value.scalars]
        found = (*scalars, *(rule for shape in value.shapes for rule in self._rules_of(shape, literals)))
        if len(found) <= _MAX_INLINE:
            return found
        rule = self._rules.rule("value")
        self._define_choice(rule, found)
        return (rule,)

    def _any_value(self) -> tuple[int, ...]:
        """The symbols of any value; its rules are copied."""
        rules, symbols = _rules_of_any_value(self._ordered, self.values.expander.digits)
        terminals, first = list(self._marks), len(self._marks)
        for name, text in zip(rules.terminal_names[first:], rules.expressions[first:], strict=True):
            terminals.append(self._rules.terminal(name, text or EMPTY))
        moved = self._rules.append(rules, terminals)
        self._rules.after_items |= {(rule - moved, state) for rule, state in rules.after_items}
        return tuple([terminals[one] if one >= 0 else one - moved for one in symbols])

    def _define_choice(self, rule: int, symbols: Sequence[int]) -> None:
        self._rules.define_automaton(rule, [[(symbol, 1, ()) for symbol in symbols], [(ACCEPT, 1, ())]])

    def _rules_of(self, shape: Shape, literals: Literals) -> tuple[int, ...]:
        """The rules of an object or array, which several values may share."""
        rules = self._shapes.get(id(shape))
        if rules is None:
            parts: Sequence[Plan | ArrayShape | Listed] = ()
            if isinstance(shape, ObjectShape):
                parts = self.plans(shape)
            elif isinstance(shape, ArrayShape | Listed) and shape.is_productive(self.values.is_productive):
                parts = (shape,)
            rules = self._shapes[id(shape)] = tuple([self._rule_of(part, literals) for part in parts])
        return rules

    def _rule_of(self, part: Plan | ArrayShape | Listed, literals: Literals) -> int:
        rule = self._rules.rule(_NAMES[type(part)])
        self._waiting.append((rule, part, literals))
        return rule

    def opening(self, keys: str | Region) -> int:
        """The terminal of a key."""
        return self.key(keys) if isinstance(keys, str) else self._rules.terminal("STRING", keys.keys)

    def rest(self, keys: str | Region, literals: Literals) -> tuple[int, ...]:
        """The symbols of a member's value."""
        return self.symbols(literals)

    def key(self, name: str) -> int:
        """The terminal of a key that the schema names."""
        found = self._keys.get(name)
        if found is None:
            found = self._keys[name] = self._rules.terminal("KEY", quoted_key(name))
        return found

    def constant(self, value: Any, same: Hashable) -> tuple[int, ...]:
        """The symbols of a constant that a text can express; `same` is its `identity`."""
        found = self._constants.get(same)
        if found is None:
            found = self._constants[same] = self._new_constant(value, same)
        return found

    def _new_constant(self, value: Any, same: Hashable) -> tuple[int, ...]:
        if isinstance(value, (dict, list)):
            rule = self._rules.rule("constant")
            self._listed(rule, {same: value})
            return (rule,)
        if isinstance(value, str):
            return (self._rules.terminal("STRING", quoted_key(value)),)
        if value is None or isinstance(value, bool):
            return (self._rules.terminal("CONSTANT", literal(CONSTANTS[json_kind(value)])),)
        number = plain_numbers([decimal(value, "const")], self.values.expander.digits)
        return (self._rules.terminal("NUMBER", number),)

    def _listed(self, rule: int, values: Mapping[Hashable, Any]) -> None:
        automaton = ListedAutomaton(values, self, self._marks, self._ordered)
        self._rules.define_automaton(rule, automaton.states, automaton.bits)
        self._may_repeat(rule, automaton.states, self._marks)

    def plans(self, shape: ObjectShape) -> list[Plan]:
        """The finished plans of an object."""
        return shape.plans(self.values.is_productive, self._ordered)

    def define_object(self, rule: int, plan: Plan, writer: MemberWriter, marks: Punctuation) -> None:
        """Define the rule of an object, whose members `writer` writes, with `marks` around them."""
        if self._ordered:
            states = ordered_object(writer, marks, plan)
            self._rules.define_automaton(rule, states)
            return
        automaton = ObjectAutomaton(writer, marks, plan)
        spend(2 * sum(map(len, automaton.states)))
        self._rules.define_automaton(rule, automaton.states, automaton.bits, automaton.counters)

    def _mark(self, rule: int, states: list[list[PlainEdge]], marks: Punctuation) -> bool:
        """Have a matcher remember the items of an array, if it can."""
        if marks is not self._marks or not self.reads_items:
            self.values.expander.leave_out("uniqueItems", "the items are not written as JSON")
            return False
        self._rules.unique_items = True
        _, target, operations = states[0][0]
        symbol = self._rules.terminal("UNIQUE_ARRAY", literal(b"[" + UNIQUE_MARK))
        states[0].append((symbol, target, operations))
        return True

    def _may_repeat(self, rule: int, states: Sequence[Sequence[PlainEdge]], marks: Punctuation) -> None:
        """Note that an array may repeat items, as far as its rule says: behind them is a comma or the end."""
        behind = {marks.comma, marks.close_array}
        for number, edges in enumerate(states):
            if any(edge[0] in behind for edge in edges):
                self._rules.after_items.add((rule, number))

    def define_array(self, rule: int, shape: ArrayShape, writer: ItemWriter, marks: Punctuation) -> None:
        """Define the rule of an array, whose items `writer` writes, with `marks` around them."""
        if shape.counts_by_registers:
            states, bits, counters = _counted_array(writer, marks, shape, self.values)
        else:
            states, bits, counters = _listed_array(writer, marks, shape, self.values), 0, 0
        if shape.remembers and self._mark(rule, states, marks):
            self._rules.indexed_items |= bool(shape.prefix or shape.counts)
        elif marks is self._marks:
            self._may_repeat(rule, states, marks)
        self._rules.define_automaton(rule, states, bits, counters)


@lru_cache(maxsize=16)
def _rules_of_any_value(ordered: bool, digits: int | None) -> tuple[Rules, tuple[int, ...]]:
    """The rules of any value, which most schemas need, and its symbols; the first terminals are the marks."""
    rules, anything = Rules(), frozenset[int]()
    marks = Punctuation(*(rules.special(name, ()) for name in Punctuation._fields))
    values = Values(Expander(Document(True), {}, "error", "assert", digits))
    emitter = Emitter(values, rules, marks, "schema" if ordered else "any")
    emitter._symbols[anything] = emitter._new_symbols(anything)
    emitter.finish()
    return rules, emitter._symbols[anything]


def expressions_of_any_value(digits: int | None) -> list[Expression]:
    """The expressions of the terminals of any value."""
    return [one for one in _rules_of_any_value(False, digits)[0].expressions if one is not None]


@lru_cache(maxsize=256)
def _once(bit: int) -> tuple[Operation, ...]:
    """The operations of something that may occur once, which the bit records."""
    return clear(bit), set_bit(bit)


@lru_cache(maxsize=256)
def _needed(bit: int) -> Operation:
    """The operation at the end of what must have occurred, as the bit records."""
    return clause((bit, True))


class ObjectAutomaton:
    """The automaton of one plan.

    States: 0 before the object, 1 after its brace, 2 its end, 3 after a member, 4 and 5 after a comma;
    then two for each kind of value, before and after the colon. A comma is allowed only if another
    member can follow. If members are counted, a comma before a required member (4) is distinguished
    from a comma before any other member (5), which it counts.
    """

    def __init__(self, writer: MemberWriter, marks: Punctuation, plan: Plan) -> None:
        self._writer = writer
        self._marks = marks
        self._plan = plan
        self.bits = 0
        self.counters = 0
        self._value_states: dict[tuple[int, ...], int] = {}
        self.states: list[list[PlainEdge]] = [
            [(marks.open_object, 1, ())],
            [],
            [(ACCEPT, 2, ())],
            [],
            [],
            [],
        ]
        self._required_edges: list[PlainEdge] = []
        self._optional_edges: list[PlainEdge] = []
        self._required_bits: list[int] = []
        self._optional_bits: list[int] = []
        self._at_end: list[Operation] = []
        self._requirement_bits = {number: self._bit() for number in plan.requirements}
        for bit in self._requirement_bits.values():
            self._at_end.append(_needed(bit))
        self._counting = self._count_optional()
        first = self.bits
        self.bits += len(plan.names)
        self._named = dict(zip(plan.names, range(first, self.bits), strict=True))
        self._members()
        self._join()

    def _join(self) -> None:
        """Fill the states before members, and connect commas to them."""
        at_end = tuple(self._at_end)
        counting = self._counting
        optional = [] if counting is None else self._optional_edges
        unused = () if self._plan.regions else (any_clear(self._optional_bits),)
        commas = []
        if counting == ():
            self.states[4] = self._required_edges + optional
            bits = self._required_bits + self._optional_bits
            commas.append((4, () if self._plan.regions else (any_clear(bits),)))
        else:
            self.states[4], self.states[5] = self._required_edges, optional
            commas.append((4, (any_clear(self._required_bits),)))
            commas.append((5, (*unused, *(counting or ()))))
        self.states[3] = [
            (self._marks.comma, state, operations) for state, operations in commas if self.states[state]
        ]
        self.states[3].append((self._marks.close_object, 2, at_end))
        if counting:
            optional = [(symbol, target, done + counting) for symbol, target, done in optional]
        close = (self._marks.close_empty_object, 2, at_end)
        self.states[1] = [close, *self._required_edges, *optional]

    def _bit(self) -> int:
        self.bits += 1
        return self.bits - 1

    def _count_optional(self) -> tuple[Operation, ...] | None:
        """The operations of an optional member; None if no optional member is allowed."""
        plan = self._plan
        required = plan.required_count()
        low = max(plan.low - required, 0)
        if plan.high is None and not low:
            return ()
        if plan.high == required:
            return None
        self.counters = 1
        if low:
            self._at_end.append(at_least(0, low))
        return (saturate(0, low),) if plan.high is None else (count(0, plan.high - required),)

    def _members(self) -> None:
        plan = self._plan
        satisfiable: list[int] = []
        for name, literals in spend_on_each(plan.names.items(), 2):
            bit = self._named[name]
            if name in plan.required:
                bits, edges = self._required_bits, self._required_edges
            else:
                bits, edges = self._optional_bits, self._optional_edges
            bits.append(bit)
            if plan.requirements:
                satisfiable = [number for number, one in plan.requirements.items() if holds(one.keys, name)]
            self._edges(edges, name, literals, _once(bit), satisfiable)
        for region in plan.regions:
            self._region(self._optional_edges, region, ())
        for slot in plan.slots:
            bit = self._bit()
            self._required_bits.append(bit)
            self._region(self._required_edges, slot, _once(bit))
            self._at_end.append(_needed(bit))
        for name in sort(plan.required):
            self._at_end.append(_needed(self._named[name]))
        for key_clause in plan.clauses:
            self._at_end.append(clause(*((self._named[name], value) for name, value in key_clause)))

    def _region(self, edges: list[PlainEdge], region: Region, operations: tuple[Operation, ...]) -> None:
        satisfiable = [number for number in self._plan.requirements if number in region.requirements]
        self._edges(edges, region, region.literals, operations, satisfiable)

    def _edges(
        self,
        edges: list[PlainEdge],
        keys: str | Region,
        literals: Literals,
        operations: tuple[Operation, ...],
        satisfiable: list[int],
    ) -> None:
        """The edges of a key: to its value, and to its value with each set of requirements it can satisfy."""
        symbol = self._writer.opening(keys)
        if not satisfiable:
            edges.append((symbol, self._value_state(self._writer.rest(keys, literals)), operations))
            return
        requirements = self._plan.requirements
        satisfied = [number for number in satisfiable if requirements[number].literals <= literals]
        undecided = [number for number in satisfiable if number not in satisfied]
        if 1 << len(undecided) > MAX_CELLS // 2:
            raise GrammarLimitError("a member of an object may satisfy too many requirements at once")
        for size in range(len(undecided) + 1):
            for chosen in combinations(undecided, size):
                spend(5 + len(literals) // 8)
                needed = literals.union(*(requirements[number].literals for number in chosen))
                values = self._writer.rest(keys, needed)
                if size and not values:
                    continue
                bits = tuple(set_bit(self._requirement_bits[number]) for number in (*satisfied, *chosen))
                edges.append((symbol, self._value_state(values), operations + bits))

    def _value_state(self, values: tuple[int, ...]) -> int:
        """The state before the colon of one of the values."""
        found = self._value_states.get(values)
        if found is None:
            found = self._value_states[values] = len(self.states)
            self.states.append([(self._marks.colon, found + 1, ())])
            self.states.append([(symbol, 3, ()) for symbol in values])
        return found


def _listed_array(
    writer: ItemWriter, marks: Punctuation, shape: ArrayShape, values: Values
) -> list[list[PlainEdge]]:
    """The automaton of an array with listed states: two for each, one after an item and one before."""
    listed = shape.states(values.is_productive)
    numbers = {state: 2 + 2 * number for number, state in enumerate(listed)}
    states: list[list[PlainEdge]] = [[(marks.open_array, 0, ())], [(ACCEPT, 1, ())]]
    for state, steps in listed.items():
        number = numbers[state]
        spend(5 + 2 * len(steps))
        before: list[PlainEdge] = [
            (symbol, numbers[target], ()) for literals, target in steps for symbol in writer.symbols(literals)
        ]
        after: list[PlainEdge] = [(marks.comma, number + 1, ())] if before else []
        if shape.accepts(state):
            after.append((marks.close_array, 1, ()))
        states += [after, before]
    first = next(iter(listed))
    begin = len(states)
    states.append(states[numbers[first] + 1][:])
    if shape.accepts(first):
        states[begin].append((marks.close_empty_array, 1, ()))
    states[0] = [(marks.open_array, begin, ())]
    return states


def _counted_array(
    writer: ItemWriter, marks: Punctuation, shape: ArrayShape, values: Values
) -> tuple[list[list[PlainEdge]], int, int]:
    """The automaton of an array of some items with their own schemas, then others, which registers count.

    States: 0 before the array, 1 its end, 2 after its bracket; then two for each item, after and before it;
    the last two are shared by all items that registers count.
    """
    high = shape.reachable(values.is_productive)
    prefix = shape.prefix if high is None else min(shape.prefix, high)
    loops = high is None or high > prefix
    low = max(shape.low - prefix, 0)
    counting: tuple[Operation, ...] = ()
    if loops and high is not None:
        counting = (count(0, high - prefix),)
    elif loops and low:
        counting = (saturate(0, low),)
    unused = (any_clear(range(len(shape.distinct))),) if shape.distinct else ()
    states: list[list[PlainEdge]] = [[(marks.open_array, 2, ())], [(ACCEPT, 1, ())], []]
    for index in spend_on_each(range(prefix + loops), 5):
        after = len(states)
        looping = index == prefix
        following = after + 1 if looping else after + 3
        continues = looping or index + 1 < prefix + loops
        entering = (*unused, *counting) if looping or index + 1 == prefix else ()
        enough = (at_least(0, low),) if looping and low else ()
        states += [[], _items(writer, shape, index, after)]
        if continues:
            states[after].append((marks.comma, following, entering))
        if looping or index + 1 >= shape.low:
            states[after].append((marks.close_array, 1, enough))
    if len(states) > 4:
        entering = () if prefix else counting
        states[2] = [(symbol, target, done + entering) for symbol, target, done in states[4]]
    if not shape.low:
        states[2].append((marks.close_empty_array, 1, ()))
    return states, len(shape.distinct or ()), 1 if counting else 0


def _items(writer: ItemWriter, shape: ArrayShape, index: int, target: int) -> list[PlainEdge]:
    literals = shape.literals(index)
    if shape.distinct is None:
        return [(symbol, target, ()) for symbol in writer.symbols(literals)]
    return [
        (symbol, target, _once(bit))
        for bit, constant in enumerate(spend_on_each(shape.distinct, 2))
        for symbol in writer.symbols(literals | {constant})
    ]
