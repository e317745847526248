"""What may follow in the rules of a grammar, whatever the values of their registers."""

from __future__ import annotations

from collections.abc import Iterable

from ...program.reaching import nodes_reaching, unite
from ...program.rules import ACCEPT
from ..reference.automata import Automata

MAX_BITS = 1 << 28
"""The most bits of all the sets of terminals of a grammar; beyond that, any terminal may follow."""

_ANY = -1
"""The set of all terminals."""


class Expectations:
    """Sets of terminals as bits of integers; the end of a text is the terminal `end`.

    first      for each rule, the terminals with which it may begin
    follow     for each rule, the terminals that may come after it
    relevant   the rules that are captured, or that lead to one
    cycle      for each rule, a number that rules share which may consist of each other alone
    """

    def __init__(self, automata: Automata, terminals: int, captured: Iterable[int]) -> None:
        self._automata = automata
        self.end = terminals
        rules, states = len(automata.rules), len(automata.edges)
        if (rules + 2 * states) * (terminals + 1) > MAX_BITS:
            self.first, self.follow = [_ANY] * rules, [_ANY] * rules
        else:
            begun = self._firsts()
            self.first = [begun[first] for first, _ in automata.rules]
            self.follow = self._follows(begun)
        uses = [
            (-1 - automata.rule_of_state[state], edge.symbol)
            for state, edges in enumerate(automata.edges)
            for edge in edges
        ]
        self.relevant = nodes_reaching(uses, captured)
        self.cycle = self._cycles()

    def _firsts(self) -> list[int]:
        """The terminals with which the rest of a rule may begin, for each state."""
        automata = self._automata
        sets = [0] * len(automata.edges)
        edges: list[list[int]] = [[] for _ in sets]
        for state, some in enumerate(automata.edges):
            for symbol, target, _ in some:
                if symbol >= 0:
                    sets[state] |= 1 << symbol
                elif symbol != ACCEPT:
                    edges[state].append(automata.rules[-1 - symbol][0])
                if symbol in automata.empty:
                    edges[state].append(target)
        unite(sets, edges)
        return sets

    def _follows(self, begun: list[int]) -> list[int]:
        automata = self._automata
        ending = self._ending()
        sets = [0] * len(automata.rules)
        sets[-1 - automata.goal] = 1 << self.end
        edges: list[list[int]] = [[] for _ in sets]
        for state, some in enumerate(automata.edges):
            for symbol, target, _ in some:
                if symbol < 0 and symbol != ACCEPT:
                    sets[-1 - symbol] |= begun[target]
                    if target in ending:
                        edges[-1 - symbol].append(automata.rule_of_state[state])
        unite(sets, edges)
        return sets

    def _ending(self) -> set[int]:
        """The states in which a rule may end without any more text."""
        automata = self._automata
        steps = (
            (state, edge.target)
            for state, edges in enumerate(automata.edges)
            for edge in edges
            if edge.symbol in automata.empty
        )
        ends = (
            state
            for state, edges in enumerate(automata.edges)
            if any(edge.symbol == ACCEPT for edge in edges)
        )
        return nodes_reaching(steps, ends)

    def _cycles(self) -> list[int]:
        """The groups of rules that may consist of each other: of those that reach each other over rules with
        nothing beside them."""
        automata, ending = self._automata, self._ending()
        beginning = nodes_reaching(
            (
                (edge.target, state)
                for state, edges in enumerate(automata.edges)
                for edge in edges
                if edge.symbol in automata.empty
            ),
            (first for first, _ in automata.rules),
        )
        edges: list[list[int]] = [[] for _ in automata.rules]
        for state in beginning:
            for symbol, target, _ in automata.edges[state]:
                if symbol < 0 and symbol != ACCEPT and target in ending:
                    edges[automata.rule_of_state[state]].append(-1 - symbol)
        return unite([0] * len(edges), edges)
