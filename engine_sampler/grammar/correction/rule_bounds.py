"""Lower bounds on the cost from a state of a rule to the rule's end, with the demands of its registers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from ..engines.reference.automata import Automata, Registers, apply
from ..program.operations import AT_LEAST, CLAUSE, COUNT, RESET, SATURATE, SET, Operation
from ..program.rules import ACCEPT, Edge
from .least_costs import NEVER, LeastCosts, Making, Node

CostlyEdge: TypeAlias = tuple[int, Edge, int]
"""The state that an edge leaves, the edge, and the cost of its symbol."""

Bound: TypeAlias = Callable[[int, Registers], int]
"""The cost from a state with some registers to the end of its rule, or less."""

MAX_TABLE = 20_000
"""The most edges times counts of one counter; higher counts are treated as the highest."""

_COUNTING = (COUNT, SATURATE, AT_LEAST, RESET)


class RuleBounds:
    """The bounds of all rules, computed for called rules first.

    terminals  the cost of each terminal
    """

    def __init__(self, automata: Automata, terminals: Sequence[int]) -> None:
        self._automata = automata
        self._firsts = [first for first, _ in automata.rules] + [len(automata.edges)]
        self._of_symbol = {ACCEPT: 0, **dict(enumerate(terminals))}
        self._of_position: dict[int, int] = {}
        free = LeastCosts(self._ways)
        for rule, first in enumerate(self._firsts[:-1]):
            self._of_symbol[-1 - rule] = free(first)
        self._of_rule: dict[int, list[Bound]] = {}
        for rule in self._called_first():
            states = range(self._firsts[rule], self._firsts[rule + 1])
            edges = [(state, e, self._of_symbol[e.symbol]) for state in states for e in automata.edges[state]]
            self._of_rule[rule] = _bounds([one for one in edges if one[2] < NEVER])
            start = self._bound(states[0], (0,) * (automata.rules[rule][1] + 1))
            self._of_symbol[-1 - rule] = max(self._of_symbol[-1 - rule], start)

    def __call__(self, position: int) -> int:
        """The cost of the cheapest way from a position to the end of its rule, or less."""
        if position not in self._of_position:
            self._of_position[position] = self._bound(*self._automata.state_of(position))
        return self._of_position[position]

    def _bound(self, state: int, registers: Registers) -> int:
        bounds = self._of_rule[self._automata.rule_of_state[state]]
        return min(NEVER, max(bound(state, registers) for bound in bounds))

    def _ways(self, node: Node) -> Iterable[Making]:
        """From a state to the end of its rule, if all operations pass."""
        for symbol, target, _ in self._automata.edges[node[0]]:
            if ACCEPT < symbol < 0:
                yield Making(0, ((self._firsts[-1 - symbol],), (target,)))
            else:
                yield Making(self._of_symbol[symbol], ((target,),) if symbol != ACCEPT else ())

    def _called_first(self) -> Iterable[int]:
        """The rules that are reachable from the goal, each after those that it calls, recursion aside."""
        order: dict[int, None] = {}
        seen: set[int] = set()
        path = [len(self._firsts) - 2]
        while path:
            rule = path[-1]
            edges = self._automata.edges[self._firsts[rule] : self._firsts[rule + 1]] * (rule not in seen)
            seen.add(rule)
            called = {-1 - edge.symbol for some in edges for edge in some if ACCEPT < edge.symbol < 0} - seen
            path += called
            if not called:
                order[path.pop()] = None
        return order


def _bounds(edges: Sequence[CostlyEdge]) -> list[Bound]:
    """The bounds of one rule: its shortest way, what its bits demand, and what each of its counters does."""
    shortest = _costs_to(edges, frozenset())
    bits, tops = set(), dict[int, int]()
    for kind, register, *values in {one for _, edge, _ in edges for one in edge.operations}:
        if kind == CLAUSE and not values and register & 1:
            bits.add(register >> 1)
        elif kind == AT_LEAST:
            tops[register] = max(tops.get(register, 0), min(values[0], 1 + MAX_TABLE // len(edges)))
    counted = [_counted(edges, counter, top) for counter, top in tops.items()]
    return [lambda state, _: shortest(state), _set(edges, bits), *counted]


def _set(edges: Sequence[CostlyEdge], bits: Iterable[int]) -> Bound:
    """What bits that must be set cost together. The cost from an edge that sets some of them to the next such
    edge, or to the end, is shared among those."""
    setting = [{bit for bit in bits if (SET, bit) in edge.operations} for _, edge, _ in edges]
    to_next = _costs_to(edges, frozenset(at for (at, *_), own in zip(edges, setting, strict=True) if own))
    shares = dict.fromkeys(bits, NEVER)
    for (_, edge, cost), own in zip(edges, setting, strict=True):
        for bit in own:
            rest = to_next(edge.target) if edge.symbol != ACCEPT else 0
            shares[bit] = min(shares[bit], (cost + rest) // len(own))
    without = {bit: _reach_without(edges, {(SET, bit), (CLAUSE, bit << 1 | 1)}) for bit in bits}

    def bound(state: int, registers: Registers) -> int:
        missing = (bit for bit in shares if not registers[0] >> bit & 1 and state not in without[bit])
        needed = sum(shares[bit] for bit in missing)
        return to_next(state) + needed if needed else 0

    return bound


def _counted(edges: Sequence[CostlyEdge], counter: int, top: int) -> Bound:
    """What a counter demands; values above `top` count as that."""
    leaving: dict[int, list[tuple[Edge, int, list[Operation]]]] = {}
    for state, edge, cost in edges:
        own = [one for one in edge.operations if one[0] in _COUNTING and one[1] == counter]
        tests = [
            (kind, 0, *(min(value, top) if kind == AT_LEAST else value for value in values))
            for kind, _, *values in own
        ]
        leaving.setdefault(state, []).append((edge, cost, tests))

    def ways(node: Node) -> Iterable[Making]:
        for edge, cost, tests in leaving.get(node[0], ()):
            after = apply((0, node[1]), tests)
            if after is not None:
                behind = edge.target, min(after[1], top)
                yield Making(cost, (behind,) if edge.symbol != ACCEPT else ())

    costs = LeastCosts(ways)
    return lambda state, registers: costs(state, min(registers[1 + counter], top))


def _costs_to(edges: Sequence[CostlyEdge], ends: frozenset[int]) -> LeastCosts:
    """From each state to one of `ends`, or to the end of the rule."""
    ways: dict[int, list[Making]] = {state: [Making(0)] for state in ends}
    for state, edge, cost in edges:
        ways.setdefault(state, []).append(Making(cost, ((edge.target,),) if edge.symbol != ACCEPT else ()))
    return LeastCosts(lambda node: ways.get(node[0], ()))


def _reach_without(edges: Sequence[CostlyEdge], stops: set[Operation]) -> frozenset[int]:
    """The states from which the rule can end without some operations."""
    allowed = [(state, edge) for state, edge, _ in edges if stops.isdisjoint(edge.operations)]
    into: dict[int, list[int]] = {}
    for state, edge in allowed:
        into.setdefault(edge.target if edge.symbol != ACCEPT else -1, []).append(state)
    reaching = into.get(-1, [])
    seen = set(reaching)
    for at in reaching:  # which grows
        reaching += dict.fromkeys(state for state in into.get(at, ()) if state not in seen)
        seen.update(into.get(at, ()))
    return frozenset(seen)
