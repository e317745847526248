"""What the rules of a grammar need at least until they end, with what their registers demand."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import TypeVar

from ..engines.reference.automata import Automata, Registers
from ..program.rules import ACCEPT, AT_LEAST, CLAUSE, COUNT, RESET, SATURATE, SET, Edge, Operation

NEVER = 1 << 40
"""The cost of what cannot be."""

MAX_TABLE = 20_000
"""States times counts that are looked at for one counter; of higher counts only so much is demanded."""

Node = TypeVar("Node", bound=Hashable)


def cheapest(
    ways: Mapping[Node, Iterable[tuple[Node, int]]], ends: Iterable[tuple[Node, int]]
) -> dict[Node, int]:
    """The cost from each node to an end (Dijkstra 1959). ways: of each node where one comes from, at what
    cost; ends: nodes with their own cost."""
    found: dict[Node, int] = {}
    number = 0
    waiting: list[tuple[int, int, Node]] = []
    for node, cost in ends:
        heappush(waiting, (cost, number, node))
        number += 1
    while waiting:
        cost, _, node = heappop(waiting)
        if node in found or cost >= NEVER:
            continue
        found[node] = cost
        for source, more in ways.get(node, ()):
            if source not in found:
                heappush(waiting, (cost + more, number, source))
                number += 1
    return found


def rule_lengths(automata: Automata, terminals: Sequence[int]) -> Callable[[int], int]:
    """A function: what a place needs until its rule ends. terminals: the cost of each."""
    free = _without_registers(automata, terminals)
    of_place: dict[int, int] = {}
    if not any(edge.operations for edges in automata.edges for edge in edges):
        return lambda place: free[automata.state_of(place)[0]]
    rules = RuleLengths(automata, terminals, free)

    def needed(place: int) -> int:
        found = of_place.get(place)
        if found is None:
            found = of_place[place] = rules.of(*automata.state_of(place))
        return found

    return needed


def _without_registers(automata: Automata, terminals: Sequence[int]) -> list[int]:
    """Of each state what it needs until its rule ends, if all operations pass (Knuth 1977)."""
    firsts = {first: -1 - rule for rule, (first, _) in enumerate(automata.rules)}
    behind: list[list[tuple[int, int]]] = [[] for _ in automata.edges]
    callers: dict[int, list[tuple[int, int]]] = {}
    found = [NEVER] * len(automata.edges)
    waiting: list[tuple[int, int]] = []
    for state, edges in enumerate(automata.edges):
        for symbol, target, _ in edges:
            if symbol == ACCEPT:
                waiting.append((0, state))
            else:
                behind[target].append((state, symbol))
                if symbol < 0:
                    callers.setdefault(symbol, []).append((state, target))
    waiting = sorted(set(waiting))
    lengths: dict[int, int] = {}
    while waiting:
        cost, state = heappop(waiting)
        if found[state] < NEVER or cost >= NEVER:
            continue
        found[state] = cost
        for source, symbol in behind[state]:
            more = terminals[symbol] if symbol >= 0 else lengths.get(symbol, NEVER)
            if more < NEVER:
                heappush(waiting, (cost + more, source))
        rule = firsts.get(state)
        if rule is not None:
            lengths[rule] = cost
            for source, target in callers.get(rule, ()):
                if found[target] < NEVER:
                    heappush(waiting, (cost + found[target], source))
    return found


class RuleLengths:
    """The needs of all rules, called rules first."""

    def __init__(self, automata: Automata, terminals: Sequence[int], free: Sequence[int]) -> None:
        self._automata = automata
        self._terminals = terminals
        self._lengths = {-1 - rule: free[first] for rule, (first, _) in enumerate(automata.rules)}
        firsts = [first for first, _ in automata.rules] + [len(automata.edges)]
        self._demands: dict[int, RuleDemands] = {}
        for rule in self._called_first():
            states = range(firsts[rule], firsts[rule + 1])
            edges = [
                (state, edge, self._cost(edge.symbol)) for state in states for edge in automata.edges[state]
            ]
            demands = self._demands[rule] = RuleDemands(edges, len(states))
            start = demands.of(states[0], (0,) * (automata.rules[rule][1] + 1))
            self._lengths[-1 - rule] = max(self._lengths[-1 - rule], start)

    def _cost(self, symbol: int) -> int:
        if symbol == ACCEPT:
            return 0
        return self._terminals[symbol] if symbol >= 0 else self._lengths[symbol]

    def _called_first(self) -> list[int]:
        """The rules that the goal leads to, those that a rule calls before it, but for recursion."""
        goal = len(self._automata.rules) - 1
        order: list[int] = []
        seen = {goal}
        waiting = [(goal, iter(self._called(goal)))]
        while waiting:
            rule, called = waiting[-1]
            following = next((other for other in called if other not in seen), None)
            if following is None:
                order.append(rule)
                waiting.pop()
            else:
                seen.add(following)
                waiting.append((following, iter(self._called(following))))
        return order

    def _called(self, rule: int) -> list[int]:
        firsts = [first for first, _ in self._automata.rules[rule : rule + 2]]
        states = self._automata.edges[firsts[0] : firsts[1] if len(firsts) > 1 else None]
        symbols = dict.fromkeys(edge.symbol for edges in states for edge in edges)
        return [-1 - symbol for symbol in symbols if ACCEPT < symbol < 0]

    def of(self, state: int, registers: Registers) -> int:
        """What a state needs until its rule ends, with these registers."""
        return self._demands[self._automata.rule_of_state[state]].of(state, registers)


class RuleDemands:
    """The needs of one rule: the greatest of what its shortest way costs, what the bits cost that must
    still be set, and what each counter costs that must still be raised.

    edges  (state, edge, cost) of all states
    """

    def __init__(self, edges: Sequence[tuple[int, Edge, int]], states: int) -> None:
        self._edges = [(state, edge, cost) for state, edge, cost in edges if cost < NEVER]
        self._ends = [(state, 0) for state, edge, _ in edges if edge.symbol == ACCEPT]
        self._shortest = cheapest(_backwards(self._edges), self._ends)
        operations = {one for _, edge, _ in self._edges for one in edge.operations}
        self._last: list[tuple[int, frozenset[Operation]]] = []
        self._into: dict[int, list[tuple[int, frozenset[Operation]]]] = {}
        for state, edge, _ in self._edges:
            way = self._last if edge.symbol == ACCEPT else self._into.setdefault(edge.target, [])
            way.append((state, frozenset(edge.operations)))
        self._bits(
            sorted({one[1] >> 1 for one in operations if one[0] == CLAUSE and len(one) == 2 and one[1] & 1})
        )
        demanded: dict[int, int] = {}
        for kind, counter, *values in sorted(operations):
            if kind == AT_LEAST:
                demanded[counter] = min(max(demanded.get(counter, 0), values[0]), 1 + MAX_TABLE // states)
        self._counters = {
            counter: (top, _counted(self._edges, counter, top)) for counter, top in demanded.items() if top
        }

    def _bits(self, bits: Sequence[int]) -> None:
        """Share the costs among the bits that may be demanded: to each what lies from where it is set to
        where the next one may be set, or to the end."""
        sets: dict[int, list[tuple[Edge, int, int]]] = {bit: [] for bit in bits}
        sources: set[int] = set()
        for state, edge, cost in self._edges:
            mine = {one[1] for one in edge.operations if one[0] == SET and one[1] in sets}
            for bit in mine:
                sets[bit].append((edge, cost, len(mine)))
            if mine:
                sources.add(state)
        self._to_next = cheapest(_backwards(self._edges), [*self._ends, *((state, 0) for state in sources)])
        never = NEVER
        self._shares = {
            bit: min(
                ((cost + self._to_next.get(edge.target, never)) // among for edge, cost, among in given),
                default=NEVER,
            )
            for bit, given in sets.items()
        }
        self._without = {bit: self._reach_without(bit) for bit in bits}

    def _reach_without(self, bit: int) -> set[int]:
        """The states from which the rule can end though `bit` is never set."""
        stops = {(CLAUSE, bit << 1 | 1), (SET, bit)}
        found = {state for state, operations in self._last if stops.isdisjoint(operations)}
        waiting = list(found)
        while waiting:
            for state, operations in self._into.get(waiting.pop(), ()):
                if state not in found and stops.isdisjoint(operations):
                    found.add(state)
                    waiting.append(state)
        return found

    def of(self, state: int, registers: Registers) -> int:
        """What a state needs until the end of the rule, with these registers."""
        bits, *counters = registers
        found = self._shortest.get(state, NEVER)
        missing = [
            share
            for bit, share in self._shares.items()
            if not bits >> bit & 1 and state not in self._without[bit]
        ]
        if missing:
            found = max(found, self._to_next.get(state, NEVER) + sum(missing))
        for counter, (top, table) in self._counters.items():
            found = max(found, table.get((state, min(counters[counter], top)), NEVER))
        return min(found, NEVER)


def _backwards(edges: Iterable[tuple[int, Edge, int]]) -> dict[int, list[tuple[int, int]]]:
    ways: dict[int, list[tuple[int, int]]] = {}
    for state, edge, cost in edges:
        if edge.symbol != ACCEPT:
            ways.setdefault(edge.target, []).append((state, cost))
    return ways


def _counted(edges: Sequence[tuple[int, Edge, int]], counter: int, top: int) -> dict[tuple[int, int], int]:
    """What each state with each value of a counter needs, values above `top` taken for `top`."""
    ways: dict[tuple[int, int], list[tuple[tuple[int, int], int]]] = {}
    ends = []
    for state, edge, cost in edges:
        mine = [one for one in edge.operations if one[0] in _COUNTING and one[1] == counter]
        for value in range(top + 1):
            after = _after(mine, value, top)
            if after is not None and edge.symbol == ACCEPT:
                ends.append(((state, value), 0))
            elif after is not None:
                ways.setdefault((edge.target, after), []).append(((state, value), cost))
    return cheapest(ways, ends)


_COUNTING = (COUNT, SATURATE, AT_LEAST, RESET)


def _after(operations: Sequence[Sequence[int]], value: int, top: int) -> int | None:
    """A counter's value after operations, at most `top`; None where one does not pass for sure."""
    for kind, _, *limit in operations:
        if kind == RESET:
            value = 0
        elif kind == AT_LEAST:
            if value < min(limit[0], top):
                return None
        elif kind == SATURATE:
            value = min(value + 1, max(value, limit[0]), top)
        elif value + 1 > limit[0]:
            return None
        else:
            value = min(value + 1, top)
    return value
