"""Lower bounds on the cost from a state of a rule to the rule's end, with the demands of its registers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import TypeVar

from ..engines.reference.automata import Automata, Registers
from ..program.operations import AT_LEAST, CLAUSE, COUNT, RESET, SATURATE, SET, Operation
from ..program.rules import ACCEPT, Edge

NEVER = 1 << 40
"""The cost of something impossible."""

MAX_TABLE = 20_000
"""The most states times counts in the table of one counter; higher counts are treated as the highest one."""

Node = TypeVar("Node", bound=Hashable)


def cheapest(
    ways: Mapping[Node, Iterable[tuple[Node, int]]], ends: Iterable[tuple[Node, int]]
) -> dict[Node, int]:
    """The cost from each node to an end (Dijkstra 1959).

    ways  for each node, the nodes with an edge to it and the costs of these edges
    ends  the end nodes, each with its own cost
    """
    costs: dict[Node, int] = {}
    number = 0
    queue: list[tuple[int, int, Node]] = []
    for node, cost in ends:
        heappush(queue, (cost, number, node))
        number += 1
    while queue:
        cost, _, node = heappop(queue)
        if node in costs or cost >= NEVER:
            continue
        costs[node] = cost
        for source, step in ways.get(node, ()):
            if source not in costs:
                heappush(queue, (cost + step, number, source))
                number += 1
    return costs


def position_bounds(automata: Automata, terminals: Sequence[int]) -> Callable[[int], int]:
    """A function that returns a lower bound on the cost from a position to the end of its rule.

    terminals  the cost of each terminal
    """
    free = _without_registers(automata, terminals)
    of_position: dict[int, int] = {}
    if not any(edge.operations for edges in automata.edges for edge in edges):
        return lambda position: free[automata.state_of(position)[0]]
    rules = RuleBounds(automata, terminals, free)

    def bound(position: int) -> int:
        found = of_position.get(position)
        if found is None:
            found = of_position[position] = rules.of(*automata.state_of(position))
        return found

    return bound


def _without_registers(automata: Automata, terminals: Sequence[int]) -> list[int]:
    """The cost from each state to the end of its rule, if all operations pass (Knuth 1977)."""
    firsts = {first: -1 - rule for rule, (first, _) in enumerate(automata.rules)}
    incoming: list[list[tuple[int, int]]] = [[] for _ in automata.edges]
    callers: dict[int, list[tuple[int, int]]] = {}
    costs = [NEVER] * len(automata.edges)
    queue: list[tuple[int, int]] = []
    for state, edges in enumerate(automata.edges):
        for symbol, target, _ in edges:
            if symbol == ACCEPT:
                queue.append((0, state))
            else:
                incoming[target].append((state, symbol))
                if symbol < 0:
                    callers.setdefault(symbol, []).append((state, target))
    queue = sorted(set(queue))
    of_rule: dict[int, int] = {}
    while queue:
        cost, state = heappop(queue)
        if costs[state] < NEVER or cost >= NEVER:
            continue
        costs[state] = cost
        for source, symbol in incoming[state]:
            step = terminals[symbol] if symbol >= 0 else of_rule.get(symbol, NEVER)
            if step < NEVER:
                heappush(queue, (cost + step, source))
        rule = firsts.get(state)
        if rule is not None:
            of_rule[rule] = cost
            for source, target in callers.get(rule, ()):
                if costs[target] < NEVER:
                    heappush(queue, (cost + costs[target], source))
    return costs


class RuleBounds:
    """The bounds of all rules, computed for called rules first."""

    def __init__(self, automata: Automata, terminals: Sequence[int], free: Sequence[int]) -> None:
        self._automata = automata
        self._terminals = terminals
        self._of_symbol = {-1 - rule: free[first] for rule, (first, _) in enumerate(automata.rules)}
        firsts = [first for first, _ in automata.rules] + [len(automata.edges)]
        self._of_rule: dict[int, RegisterBounds] = {}
        for rule in self._called_first():
            states = range(firsts[rule], firsts[rule + 1])
            edges = [
                (state, edge, self._cost(edge.symbol)) for state in states for edge in automata.edges[state]
            ]
            bounds = self._of_rule[rule] = RegisterBounds(edges, len(states))
            start = bounds.of(states[0], (0,) * (automata.rules[rule][1] + 1))
            self._of_symbol[-1 - rule] = max(self._of_symbol[-1 - rule], start)

    def _cost(self, symbol: int) -> int:
        if symbol == ACCEPT:
            return 0
        return self._terminals[symbol] if symbol >= 0 else self._of_symbol[symbol]

    def _called_first(self) -> list[int]:
        """The rules that are reachable from the goal, each after those that it calls, recursion aside."""
        goal = len(self._automata.rules) - 1
        order: list[int] = []
        seen = {goal}
        path = [(goal, iter(self._called(goal)))]
        while path:
            rule, called = path[-1]
            following = next((other for other in called if other not in seen), None)
            if following is None:
                order.append(rule)
                path.pop()
            else:
                seen.add(following)
                path.append((following, iter(self._called(following))))
        return order

    def _called(self, rule: int) -> list[int]:
        firsts = [first for first, _ in self._automata.rules[rule : rule + 2]]
        states = self._automata.edges[firsts[0] : firsts[1] if len(firsts) > 1 else None]
        symbols = dict.fromkeys(edge.symbol for edges in states for edge in edges)
        return [-1 - symbol for symbol in symbols if ACCEPT < symbol < 0]

    def of(self, state: int, registers: Registers) -> int:
        """A lower bound on the cost from a state with these registers to the end of its rule."""
        return self._of_rule[self._automata.rule_of_state[state]].of(state, registers)


class RegisterBounds:
    """The bounds of one rule: the greatest of the cost of its shortest way, the cost of the bits that must
    still be set, and the cost of each counter that must still be raised.

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
        self._share_costs(
            sorted({one[1] >> 1 for one in operations if one[0] == CLAUSE and len(one) == 2 and one[1] & 1})
        )
        demanded: dict[int, int] = {}
        for kind, counter, *values in sorted(operations):
            if kind == AT_LEAST:
                demanded[counter] = min(max(demanded.get(counter, 0), values[0]), 1 + MAX_TABLE // states)
        self._counters = {
            counter: (top, _counter_bounds(self._edges, counter, top))
            for counter, top in demanded.items()
            if top
        }

    def _share_costs(self, bits: Sequence[int]) -> None:
        """Share the costs among the bits that may be required: each gets the cost from the edge that sets it
        to the next one that may set a bit, or to the end."""
        setters: dict[int, list[tuple[Edge, int, int]]] = {bit: [] for bit in bits}
        sources: set[int] = set()
        for state, edge, cost in self._edges:
            own = {one[1] for one in edge.operations if one[0] == SET and one[1] in setters}
            for bit in own:
                setters[bit].append((edge, cost, len(own)))
            if own:
                sources.add(state)
        self._to_next = cheapest(_backwards(self._edges), [*self._ends, *((state, 0) for state in sources)])
        never = NEVER
        self._shares = {
            bit: min(
                ((cost + self._to_next.get(edge.target, never)) // count for edge, cost, count in edges),
                default=NEVER,
            )
            for bit, edges in setters.items()
        }
        self._without = {bit: self._reach_without(bit) for bit in bits}

    def _reach_without(self, bit: int) -> set[int]:
        """The states from which the rule can end although `bit` is never set."""
        stops = {(CLAUSE, bit << 1 | 1), (SET, bit)}
        reaching = {state for state, operations in self._last if stops.isdisjoint(operations)}
        waiting = list(reaching)
        while waiting:
            for state, operations in self._into.get(waiting.pop(), ()):
                if state not in reaching and stops.isdisjoint(operations):
                    reaching.add(state)
                    waiting.append(state)
        return reaching

    def of(self, state: int, registers: Registers) -> int:
        """A lower bound on the cost from a state with these registers to the end of the rule."""
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


def _counter_bounds(
    edges: Sequence[tuple[int, Edge, int]], counter: int, top: int
) -> dict[tuple[int, int], int]:
    """The cost from each state with each value of a counter; values above `top` count as `top`."""
    ways: dict[tuple[int, int], list[tuple[tuple[int, int], int]]] = {}
    ends = []
    for state, edge, cost in edges:
        own = [one for one in edge.operations if one[0] in _COUNTING and one[1] == counter]
        for value in range(top + 1):
            after = _after(own, value, top)
            if after is not None and edge.symbol == ACCEPT:
                ends.append(((state, value), 0))
            elif after is not None:
                ways.setdefault((edge.target, after), []).append(((state, value), cost))
    return cheapest(ways, ends)


_COUNTING = (COUNT, SATURATE, AT_LEAST, RESET)


def _after(operations: Sequence[Sequence[int]], value: int, top: int) -> int | None:
    """A counter's value after operations, at most `top`; None if one certainly does not pass."""
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
