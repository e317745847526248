"""The rules as automata whose places are numbers: a state of a rule with its registers.

A place is what an Earley item is beside its origin. What a place offers depends on nothing else, so it
is found once: the symbols that may come, where they lead, and what can be passed without reading.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from ...derivatives.limits import MAX_CLOSURE, Meter
from ...errors import GrammarError, GrammarLimitError
from ...program.rules import ACCEPT, AT_LEAST, CLAUSE, CLEAR, COUNT, RESET, SATURATE, SET, Edge, Program

Registers = tuple[int, ...]
"""The bits as one number, then the counters."""


def apply(registers: Registers, operations: Sequence[Sequence[int]]) -> Registers | None:
    """The registers after the operations, None if one does not pass."""
    if not operations:
        return registers
    bits, *counters = registers
    for kind, *values in operations:
        at = values[0]
        if kind == SET:
            bits |= 1 << at
        elif kind == RESET:
            counters[at] = 0
        elif kind == CLEAR:
            if bits >> at & 1:
                return None
        elif kind == CLAUSE:
            if not any(bits >> (one >> 1) & 1 == one & 1 for one in values):
                return None
        elif kind == AT_LEAST:
            if counters[at] < values[1]:
                return None
        elif kind == SATURATE:
            counters[at] = min(counters[at] + 1, max(counters[at], values[1]))
        elif kind == COUNT:
            counters[at] += 1
            if counters[at] > values[1]:
                return None
    return (bits, *counters)


class Offer(NamedTuple):
    """What a place offers.

    leads      of each symbol, the places behind it
    completes  whether the rule may end here
    """

    leads: dict[int, tuple[int, ...]]
    completes: bool


class Landing(NamedTuple):
    """Where one is who has come to a place, with all that may be passed without reading.

    places     the places that offer symbols
    completes  whether the rule may end
    """

    places: tuple[int, ...]
    completes: bool


class Automata:
    """The rules of a program. The last rule is the goal: the start rule, then the end.

    productive, empty    of each terminal, whether it matches anything, and the empty text
    rules, edges         of each rule its first state and its counters; of each state its edges, but for
                         those that no finite text leads through
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
        self._offers: dict[int, Offer] = {}
        self._landings: dict[int, Landing] = {}
        self._empty = set(empty)
        self._find_empty_rules()

    @property
    def goal(self) -> int:
        """The symbol of the rule that is the whole text."""
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
        """Drop what no finite text leads through, whatever the registers say."""
        sources: list[list[int]] = [[] for _ in self.edges]
        users: dict[int, list[int]] = {}
        for state, edges in enumerate(self.edges):
            for symbol, target, _ in edges:
                sources[target].append(state)
                users.setdefault(symbol, []).append(state)
        firsts = {first: -1 - rule for rule, (first, _) in enumerate(self.rules)}
        good: set[int] = set()
        done = {ACCEPT, *(symbol for symbol, good_one in enumerate(productive) if good_one)}
        waiting = [state for symbol in done for state in users.get(symbol, ())]
        while waiting:
            state = waiting.pop()
            if state in good or not any(
                symbol in done and (symbol == ACCEPT or target in good)
                for symbol, target, _ in self.edges[state]
            ):
                continue
            good.add(state)
            waiting += sources[state]
            if state in firsts:
                done.add(firsts[state])
                waiting += users.get(firsts[state], ())
        if self.rules[-1][0] not in good:
            raise GrammarError("no text at all matches the grammar")
        for state, edges in enumerate(self.edges):
            self.edges[state] = [
                edge
                for edge in edges
                if edge.symbol in done and (edge.symbol == ACCEPT or edge.target in good)
            ]

    def _find_empty_rules(self) -> None:
        """Find the rules that match the empty text: again and again, until no more are found."""
        users: dict[int, set[int]] = {}
        for state, edges in enumerate(self.edges):
            for edge in edges:
                if edge.symbol != ACCEPT:
                    users.setdefault(edge.symbol, set()).add(self.rule_of_state[state])
        waiting = list(range(len(self.rules)))
        while waiting:
            rule = waiting.pop()
            if -1 - rule not in self._empty and self._land(self.start(-1 - rule)).completes:
                self._empty.add(-1 - rule)
                waiting += users.get(-1 - rule, ())

    def start(self, rule: int) -> int:
        """The place where a rule begins."""
        first, counters = self.rules[-1 - rule]
        return self._place(first, (0,) * (counters + 1))

    def state_of(self, place: int) -> tuple[int, Registers]:
        """The state of a place, counted through all rules, and its registers."""
        return self._states[place]

    def rule_of(self, place: int) -> int:
        """The symbol of a place's rule."""
        return -1 - self.rule_of_state[self._states[place][0]]

    def _place(self, state: int, registers: Registers) -> int:
        number = self._numbers.get((state, registers))
        if number is None:
            self._meter.add_state()
            number = self._numbers[state, registers] = len(self._states)
            self._states.append((state, registers))
        return number

    def offer(self, place: int) -> Offer:
        """What a place offers."""
        found = self._offers.get(place)
        if found is not None:
            return found
        state, registers = self._states[place]
        leads: dict[int, dict[int, None]] = {}
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
                leads.setdefault(symbol, {})[self._place(target, after)] = None
        found = self._offers[place] = Offer({symbol: tuple(to) for symbol, to in leads.items()}, completes)
        return found

    def landing(self, place: int) -> Landing:
        """Where one is who has come to a place."""
        found = self._landings.get(place)
        if found is None:
            found = self._landings[place] = self._land(place)
        return found

    def _land(self, place: int) -> Landing:
        seen = {place: None}
        waiting = [place]
        completes = False
        for at in waiting:
            leads, ends = self.offer(at)
            completes |= ends
            for symbol in leads.keys() & self._empty:
                for target in leads[symbol]:
                    if target not in seen:
                        seen[target] = None
                        waiting.append(target)
            if len(seen) > MAX_CLOSURE:
                raise GrammarLimitError(f"a rule has more than {MAX_CLOSURE} places with nothing between")
        self._meter.spend(len(seen))
        return Landing(tuple(at for at in seen if self.offer(at).leads), completes)


def _operations(code: Sequence[int], begin: int, end: int) -> Iterator[tuple[int, ...]]:
    while begin < end:
        length = code[begin]
        yield tuple(code[begin + 1 : begin + 1 + length])
        begin += length + 1
