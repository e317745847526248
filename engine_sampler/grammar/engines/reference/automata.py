"""The rules as automata, and positions in them.

A **position** is a state of a rule's automaton together with the values of the rule's registers, as a
number. It corresponds to the dot in an Earley item: an item is a position and an origin. The transitions
and the closure of a position depend on nothing else, so they are computed once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from ...derivatives.limits import MAX_CLOSURE, Meter
from ...errors import GrammarError, GrammarLimitError
from ...program.operations import AT_LEAST, CLAUSE, CLEAR, COUNT, RESET, SATURATE, SET
from ...program.reaching import states_reaching_ends
from ...program.rules import ACCEPT, Edge, Program

Registers = tuple[int, ...]
"""The bits as one number, then the counters."""


def apply(registers: Registers, operations: Sequence[Sequence[int]]) -> Registers | None:
    """The registers after the operations, None if one does not pass."""
    if not operations:
        return registers
    bits, *counters = registers
    for kind, *values in operations:
        register = values[0]
        if kind == SET:
            bits |= 1 << register
        elif kind == RESET:
            counters[register] = 0
        elif kind == CLEAR:
            if bits >> register & 1:
                return None
        elif kind == CLAUSE:
            if not any(bits >> (value >> 1) & 1 == value & 1 for value in values):
                return None
        elif kind == AT_LEAST:
            if counters[register] < values[1]:
                return None
        elif kind == SATURATE:
            counters[register] = min(counters[register] + 1, max(counters[register], values[1]))
        elif kind == COUNT:
            counters[register] += 1
            if counters[register] > values[1]:
                return None
    return (bits, *counters)


class Transitions(NamedTuple):
    """The transitions of a position.

    targets    for each symbol that may follow, the positions after it
    completes  whether the rule may end here
    """

    targets: dict[int, tuple[int, ...]]
    completes: bool


class Closure(NamedTuple):
    """The positions that can be reached from a position over symbols that match the empty text.

    positions  those that have transitions over symbols, possibly including the position itself
    completes  whether the rule may end at one of the reached positions
    """

    positions: tuple[int, ...]
    completes: bool


class Automata:
    """The rules of a program. The last rule is the goal: the start rule, then the end.

    productive      for each terminal, whether it matches anything
    empty           the terminals, and the rules, that match the empty text
    rules           for each rule its first state and its number of counters
    rule_of_state   for each state the number of its rule
    edges           for each state its edges, without those that lie on no path of a finite text
    """

    def __init__(
        self, program: Program, productive: Sequence[bool], empty: Collection[int], meter: Meter
    ) -> None:
        self._meter = meter
        self.rules: list[tuple[int, int]] = []
        self.rule_of_state: list[int] = []
        self.edges: list[list[Edge]] = []
        self._read(program)
        self._prune(productive)
        self._states: list[tuple[int, Registers]] = []
        self._numbers: dict[tuple[int, Registers], int] = {}
        self._transitions: dict[int, Transitions] = {}
        self._closures: dict[int, Closure] = {}
        self.empty = set(empty)
        self._find_empty_rules()

    @property
    def goal(self) -> int:
        """The symbol of the rule for the whole text."""
        return -len(self.rules)

    def _read(self, program: Program) -> None:
        ops = program.operations
        known: dict[tuple[int, int], tuple[tuple[int, ...], ...]] = {}
        for state in range(len(program.states) - 1):
            edges = []
            for edge in range(program.states[state], program.states[state + 1]):
                symbol, target, begin, end = program.edges[4 * edge : 4 * edge + 4]
                if (begin, end) not in known:
                    known[begin, end] = tuple(_operations(ops, begin, end))
                edges.append(Edge(symbol, target, known[begin, end]))
            self.edges.append(edges)
        firsts = list(program.rules[::3])
        self.rules = list(zip(firsts, program.rules[2::3], strict=True))
        for rule, (first, end) in enumerate(zip(firsts, [*firsts[1:], len(self.edges)], strict=True)):
            self.rule_of_state += [rule] * (end - first)
        goal = len(self.edges)
        self.edges += [[Edge(-1 - program.start, goal + 1)], [Edge(ACCEPT, goal + 1)]]
        self.rule_of_state += [len(self.rules)] * 2
        self.rules.append((goal, 0))

    def _prune(self, productive: Sequence[bool]) -> None:
        """Drop the edges that lie on no path of a finite text, whatever the values of the registers."""
        firsts = {first: -1 - rule for rule, (first, _) in enumerate(self.rules)}
        terminals = (terminal for terminal, matches in enumerate(productive) if matches)
        live, symbols = states_reaching_ends(self.edges, firsts, terminals)
        if self.rules[-1][0] not in live:
            raise GrammarError("no text at all matches the grammar")
        for state, edges in enumerate(self.edges):
            self.edges[state] = [
                edge
                for edge in edges
                if edge.symbol in symbols and (edge.symbol == ACCEPT or edge.target in live)
            ]

    def _find_empty_rules(self) -> None:
        """Find the rules that match the empty text; iterate until no more are found."""
        users: dict[int, set[int]] = {}
        for state, edges in enumerate(self.edges):
            for edge in edges:
                if edge.symbol != ACCEPT:
                    users.setdefault(edge.symbol, set()).add(self.rule_of_state[state])
        waiting = list(range(len(self.rules)))
        while waiting:
            rule = waiting.pop()
            if -1 - rule not in self.empty and self._find_closure(self.start(-1 - rule)).completes:
                self.empty.add(-1 - rule)
                waiting += users.get(-1 - rule, ())

    def start(self, rule: int) -> int:
        """The first position of a rule."""
        first, counters = self.rules[-1 - rule]
        return self._position(first, (0,) * (counters + 1))

    def state_of(self, position: int) -> tuple[int, Registers]:
        """The state of a position, numbered across all rules, and its registers."""
        return self._states[position]

    def rule_of(self, position: int) -> int:
        """The symbol of a position's rule."""
        return -1 - self.rule_of_state[self._states[position][0]]

    def _position(self, state: int, registers: Registers) -> int:
        number = self._numbers.get((state, registers))
        if number is None:
            self._meter.add_state()
            number = len(self._states)
            self._states.append((state, registers))  # first, in case of an interruption
            self._numbers[state, registers] = number
        return number

    def transitions(self, position: int) -> Transitions:
        """The transitions of a position."""
        transitions = self._transitions.get(position)
        if transitions is not None:
            return transitions
        state, registers = self._states[position]
        targets: dict[int, dict[int, None]] = {}
        completes = False
        edges = self.edges[state]
        self._meter.spend(len(edges))
        for symbol, target, operations in edges:
            after = apply(registers, operations)
            if after is None:
                continue
            if symbol == ACCEPT:
                completes = True
            else:
                targets.setdefault(symbol, {})[self._position(target, after)] = None
        transitions = Transitions({symbol: tuple(to) for symbol, to in targets.items()}, completes)
        self._transitions[position] = transitions
        return transitions

    def closure(self, position: int) -> Closure:
        """The closure of a position over symbols that match the empty text."""
        found = self._closures.get(position)
        if found is None:
            found = self._closures[position] = self._find_closure(position)
        return found

    def _find_closure(self, position: int) -> Closure:
        seen = {position: None}
        queue = [position]
        completes = False
        for reached in queue:
            targets, ends = self.transitions(reached)
            completes |= ends
            for symbol in targets.keys() & self.empty:
                for target in targets[symbol]:
                    if target not in seen:
                        seen[target] = None
                        queue.append(target)
            if len(seen) > MAX_CLOSURE:
                raise GrammarLimitError(
                    f"a rule has more than {MAX_CLOSURE} positions with no text between them"
                )
        self._meter.spend(len(seen))
        return Closure(tuple(reached for reached in seen if self.transitions(reached).targets), completes)


def _operations(code: Sequence[int], begin: int, end: int) -> Iterator[tuple[int, ...]]:
    while begin < end:
        length = code[begin]
        yield tuple(code[begin + 1 : begin + 1 + length])
        begin += length + 1
