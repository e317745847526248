"""The automata of objects and arrays, and the rules that hold them together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from ..errors import GrammarLimitError
from ..program.expression import EPSILON, Expression, concat, literal, repeat
from ..program.rules import ACCEPT, Edge, Operation, Rules, at_least, clause, clear, count, saturate, set_bit
from .arrays import ArrayShape
from .limits import MAX_CELLS
from .objects import ObjectShape, Plan, Region
from .strings import holds
from .texts import WHITESPACE, key
from .values import Literals, Value, Values

_INLINE = 8
"""A value of so many symbols or fewer stands on the edges themselves; a larger one has a rule."""

SPACES: Expression = repeat(WHITESPACE, 1)


class Punctuation(NamedTuple):
    """The symbols of `{ } [ ] : ,`."""

    open_object: int
    close_object: int
    open_array: int
    close_array: int
    colon: int
    comma: int


def punctuation(rules: Rules, *, with_spaces: bool) -> Punctuation:
    """The symbols of punctuation; with white space around them where rules do not ignore it."""
    space = repeat(WHITESPACE) if with_spaces else EPSILON
    marks = (
        ("OBJECT_BEGIN", (literal(b"{"), space)),
        ("OBJECT_END", (space, literal(b"}"))),
        ("ARRAY_BEGIN", (literal(b"["), space)),
        ("ARRAY_END", (space, literal(b"]"))),
        ("COLON", (space, literal(b":"), space)),
        ("COMMA", (space, literal(b","), space)),
    )
    symbols = [rules.terminal(name, concat(*parts)) for name, parts in marks]
    return Punctuation(*symbols)


class Emitter:
    """Turns settled values into rules."""

    def __init__(self, values: Values, rules: Rules, marks: Punctuation) -> None:
        self._values = values
        self._rules = rules
        self._marks = marks
        self._symbols: dict[Literals, tuple[int, ...]] = {}
        self._waiting: list[tuple[int, Plan | ArrayShape]] = []
        self._keys: dict[str, int] = {}

    def emit(self, literals: Literals, name: str) -> int:
        """The symbol of a rule for the value, with all the rules that it needs."""
        rule = self._rules.rule(name)
        symbols = self.symbols(literals)
        self._define_choice(rule, symbols)
        while self._waiting:
            symbol, shape = self._waiting.pop()
            if isinstance(shape, Plan):
                self._object(symbol, shape)
            else:
                self._array(symbol, shape)
        return rule

    def symbols(self, literals: Literals) -> tuple[int, ...]:
        """The symbols, one of which a value must be; none for a value that there is not."""
        found = self._symbols.get(literals)
        if found is None:
            self._values.expander.budget.spend(2)
            self._values.is_productive(literals)
            value = self._values.get(literals)
            found = tuple(self._rules.terminal(name, text) for name, text in value.scalars)
            found += self._shapes(value)
            if len(found) > _INLINE:
                rule = self._rules.rule("value")
                self._define_choice(rule, found)
                found = (rule,)
            self._symbols[literals] = found
        return found

    def _define_choice(self, rule: int, symbols: Sequence[int]) -> None:
        self._rules.define_automaton(rule, [[Edge(symbol, 1) for symbol in symbols], [Edge(ACCEPT, 1)]])

    def _shapes(self, value: Value) -> tuple[int, ...]:
        found: list[int] = []
        for shape in value.shapes:
            ways: Sequence[Plan | ArrayShape]
            if isinstance(shape, ObjectShape):
                ways = shape.plans(self._values.is_productive)
            elif isinstance(shape, ArrayShape):
                ways = [shape] if shape.is_productive(self._values.is_productive) else []
            for way in ways:
                rule = self._rules.rule("object" if isinstance(way, Plan) else "array")
                self._waiting.append((rule, way))
                found.append(rule)
        return tuple(found)

    def key(self, name: str) -> int:
        """The terminal of a key."""
        found = self._keys.get(name)
        if found is None:
            found = self._keys[name] = self._rules.terminal("KEY", key(name))
        return found

    def _object(self, rule: int, plan: Plan) -> None:
        automaton = ObjectAutomaton(self, self._rules, self._marks, plan)
        self._values.expander.budget.spend(sum(map(len, automaton.states)) // 4)
        self._rules.define_automaton(rule, automaton.states, automaton.bits, automaton.counters)

    def _array(self, rule: int, shape: ArrayShape) -> None:
        if shape.counts_by_registers:
            states, bits, counters = _counted_array(self, self._marks, shape, self._values)
        else:
            states, bits, counters = _listed_array(self, self._marks, shape, self._values), 0, 0
        self._values.expander.budget.spend(sum(map(len, states)) // 4)
        self._rules.define_automaton(rule, states, bits, counters)


class ObjectAutomaton:
    """The automaton of one plan.

    States: 0 before the object, 1 behind its brace, 2 its end, 3 behind a member, 4 and 5 behind a comma;
    then two for each kind of value, before and behind the colon. A comma is only offered where another
    member can follow. Where members are counted, a comma before one that has to be there (4) is told
    apart from one before any other (5), which it counts.
    """

    def __init__(self, emitter: Emitter, rules: Rules, marks: Punctuation, plan: Plan) -> None:
        self._emitter = emitter
        self._rules = rules
        self._marks = marks
        self._plan = plan
        self.bits = 0
        self.counters = 0
        self._places: dict[Literals, int] = {}
        self.states: list[list[Edge]] = [
            [Edge(marks.open_object, 1)],
            [],
            [Edge(ACCEPT, 2)],
            [],
            [],
            [],
        ]
        self._needed: list[Edge] = []
        self._free: list[Edge] = []
        self._needed_bits: list[int] = []
        self._free_bits: list[int] = []
        self._at_end: list[Operation] = []
        self._wish_bits = {number: self._bit() for number in plan.wishes}
        for bit in self._wish_bits.values():
            self._at_end.append(clause((bit, True)))
        self._optional = self._count_optional()
        self._named = {name: self._bit() for name in plan.names}
        self._members()
        self._join(Edge(marks.close_object, 2, tuple(self._at_end)))

    def _join(self, close: Edge) -> None:
        """Fill the states before members, and let commas lead to them."""
        counting = self._optional
        free = [] if counting is None else self._free
        unused = () if self._plan.regions else (clause(*((bit, False) for bit in self._free_bits)),)
        commas = []
        if counting == ():
            self.states[4] = self._needed + free
            bits = self._needed_bits + self._free_bits
            commas.append((4, () if self._plan.regions else (clause(*((bit, False) for bit in bits)),)))
        else:
            self.states[4], self.states[5] = self._needed, free
            commas.append((4, (clause(*((bit, False) for bit in self._needed_bits)),)))
            commas.append((5, (*unused, *(counting or ()))))
        self.states[3] = [
            Edge(self._marks.comma, state, operations) for state, operations in commas if self.states[state]
        ]
        self.states[3].append(close)
        counted = [Edge(edge.symbol, edge.target, edge.operations + (counting or ())) for edge in free]
        self.states[1] = [close, *self._needed, *counted]

    def _bit(self) -> int:
        self.bits += 1
        return self.bits - 1

    def _count_optional(self) -> tuple[Operation, ...] | None:
        """The operations of a member that may be there or not; None if there may be no such."""
        plan = self._plan
        least = plan.required_count()
        low = max(plan.low - least, 0)
        if plan.high is None and not low:
            return ()
        if plan.high == least:
            return None
        self.counters = 1
        if low:
            self._at_end.append(at_least(0, low))
        return (saturate(0, low),) if plan.high is None else (count(0, plan.high - least),)

    def _members(self) -> None:
        plan = self._plan
        for name, literals in plan.names.items():
            bit = self._named[name]
            needed = name in plan.required
            (self._needed_bits if needed else self._free_bits).append(bit)
            fulfils = [number for number, wish in plan.wishes.items() if holds(wish.keys, name)]
            edges = self._needed if needed else self._free
            self._edges(edges, self._emitter.key(name), literals, (clear(bit), set_bit(bit)), fulfils)
        for region in plan.regions:
            self._region(self._free, region, ())
        for slot in plan.slots:
            bit = self._bit()
            self._needed_bits.append(bit)
            self._region(self._needed, slot, (clear(bit), set_bit(bit)))
            self._at_end.append(clause((bit, True)))
        for name in sorted(plan.required):
            self._at_end.append(clause((self._named[name], True)))
        for demand in plan.demands:
            self._at_end.append(clause(*((self._named[name], value) for name, value in demand)))

    def _region(self, edges: list[Edge], region: Region, operations: tuple[Operation, ...]) -> None:
        symbol = self._rules.terminal("STRING", region.keys)
        fulfils = [number for number in self._plan.wishes if number in region.wishes]
        self._edges(edges, symbol, region.literals, operations, fulfils)

    def _edges(
        self,
        edges: list[Edge],
        symbol: int,
        literals: Literals,
        operations: tuple[Operation, ...],
        fulfils: list[int],
    ) -> None:
        """The edges of a key: to its value, and to its value with every set of wishes that it can fulfil."""
        if not fulfils:
            edges.append(Edge(symbol, self._place(literals), operations))
            return
        wishes = self._plan.wishes
        given = [number for number in fulfils if wishes[number].literals <= literals]
        free = [number for number in fulfils if number not in given]
        if 1 << len(free) > MAX_CELLS // 2:
            raise GrammarLimitError("a member of an object may fulfil too many demands at once")
        for size in range(len(free) + 1):
            for chosen in combinations(free, size):
                of = literals.union(*(wishes[number].literals for number in chosen))
                if size and not self._emitter.symbols(of):
                    continue
                bits = tuple(set_bit(self._wish_bits[number]) for number in (*given, *chosen))
                edges.append(Edge(symbol, self._place(of), operations + bits))

    def _place(self, literals: Literals) -> int:
        found = self._places.get(literals)
        if found is None:
            found = self._places[literals] = len(self.states)
            self.states.append([Edge(self._marks.colon, found + 1)])
            self.states.append([Edge(symbol, 3) for symbol in self._emitter.symbols(literals)])
        return found


def _listed_array(
    emitter: Emitter, marks: Punctuation, shape: ArrayShape, values: Values
) -> list[list[Edge]]:
    """The automaton of an array whose states are listed: each is one behind an item, one before one."""
    listed = shape.states(values.is_productive)
    numbers = {state: 2 + 2 * number for number, state in enumerate(listed)}
    states: list[list[Edge]] = [[Edge(marks.open_array, 0)], [Edge(ACCEPT, 1)]]
    for state, steps in listed.items():
        number = numbers[state]
        before = [
            Edge(symbol, numbers[target])
            for literals, target in steps
            for symbol in emitter.symbols(literals)
        ]
        close = [Edge(marks.close_array, 1)] if shape.accepts(state) else []
        states += [[*([Edge(marks.comma, number + 1)] if before else []), *close], before]
    first = next(iter(listed))
    begin = len(states)
    close = [Edge(marks.close_array, 1)] if shape.accepts(first) else []
    states.append([*states[numbers[first] + 1], *close])
    states[0] = [Edge(marks.open_array, begin)]
    return states


def _counted_array(
    emitter: Emitter, marks: Punctuation, shape: ArrayShape, values: Values
) -> tuple[list[list[Edge]], int, int]:
    """The automaton of an array of some items of their own and any number of others, which are counted.

    States: 0 before the array, 1 its end, 2 behind its bracket; then behind and before each item, the
    last two for all items that registers count.
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
    unused = (clause(*((bit, False) for bit in range(len(shape.distinct)))),) if shape.distinct else ()
    states: list[list[Edge]] = [[Edge(marks.open_array, 2)], [Edge(ACCEPT, 1)], []]
    for index in range(prefix + loops):
        behind = len(states)
        looping = index == prefix
        following = behind + 1 if looping else behind + 3
        goes_on = looping or index + 1 < prefix + loops
        entering = (*unused, *counting) if looping or index + 1 == prefix else ()
        enough = (at_least(0, low),) if looping and low else ()
        close = [Edge(marks.close_array, 1, enough)] if looping or index + 1 >= shape.low else []
        states.append([*([Edge(marks.comma, following, entering)] if goes_on else []), *close])
        states.append(_items(emitter, shape, index, behind))
    if len(states) > 4:
        entering = () if prefix else counting
        states[2] = [Edge(symbol, target, done + entering) for symbol, target, done in states[4]]
    if not shape.low:
        states[2].append(Edge(marks.close_array, 1))
    return states, len(shape.distinct or ()), 1 if counting else 0


def _items(emitter: Emitter, shape: ArrayShape, index: int, target: int) -> list[Edge]:
    literals = shape.literals(index)
    if shape.distinct is None:
        return [Edge(symbol, target) for symbol in emitter.symbols(literals)]
    return [
        Edge(symbol, target, (clear(bit), set_bit(bit)))
        for bit, constant in enumerate(shape.distinct)
        for symbol in emitter.symbols(literals | {constant})
    ]
