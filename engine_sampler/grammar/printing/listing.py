"""A program as engines read it, for people: its terminals, and its rules state by state.

print(Listing(program).text())
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ..program.expression import BOTH, CONCAT, LITERAL, REPEAT, UNION, Expression, nodes_of
from ..program.notation import expression_text, literal_text
from ..program.operations import AT_LEAST, CLAUSE, CLEAR, COUNT, RESET, SATURATE, SET
from ..program.rules import ACCEPT, Program


class Listing:
    """The names of a program's symbols and the text of its parts.

    Terminals that share a name are told apart by their text, or by their numbers.

    first_side  the symbol of the first left side of an LALR parser's rules; the next ones count down
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._expressions = _decoded_expressions(program.expressions)
        self._firsts = [*program.rules[::3], len(program.states) - 1]
        self._counts = Counter(program.terminal_names)
        self.first_side = -len(self._firsts)

    def text(self) -> str:
        """All rules, then all terminals, a line for each state and each terminal."""
        lines = [line for rule in range(len(self._firsts) - 1) for line in self._rule(rule)]
        return "\n".join([*lines, *(self._terminal(i) for i in range(len(self._program.terminals)))])

    def name(self, symbol: int) -> str:
        """The name of a terminal (0, 1, …), a rule (-1, -2, …) or a left side."""
        program = self._program
        if symbol < 0:
            names, number = program.rule_names, -1 - symbol
            return names[number] if number < len(names) else f"rule_{number}"
        if symbol >= len(program.terminal_names):
            return f"TERMINAL_{symbol}"
        name = program.terminal_names[symbol]
        if self._counts[name] == 1:
            return name
        node = program.terminals[symbol]
        if node >= 0 and self._expressions[node][0] == LITERAL:
            return f"{name} {literal_text(self._expressions[node][1])}"
        return f"{name} #{symbol}"

    def state_in_rule(self, state: int) -> tuple[int, int]:
        """The rule of a state, as a symbol, and the number of the state within it. What is beyond all rules
        is the goal, whose symbol is one less than that of the last rule."""
        rule = max(number for number, first in enumerate(self._firsts) if first <= state)
        return -1 - rule, state - self._firsts[rule]

    def _rule(self, rule: int) -> Iterator[str]:
        yield f"{self.name(-1 - rule)}:"
        first, end = self._firsts[rule : rule + 2]
        for state in range(first, end):
            yield f"  {state - first}: " + (", ".join(self._edges(state, first)) or "nothing")

    def _terminal(self, symbol: int) -> str:
        node = self._program.terminals[symbol]
        if node < 0:
            ids = ",".join(map(str, self._program.special_ids_of(symbol)))
            return f"{self.name(symbol)}: <[{ids}]>"
        ignored = "  (ignored)" if symbol in self._program.ignore else ""
        return f"{self.name(symbol)}: {expression_text(self._expressions[node])}{ignored}"

    def _edges(self, state: int, first: int) -> Iterator[str]:
        program = self._program
        for edge in range(program.states[state], program.states[state + 1]):
            symbol, target, begin, end = program.edges[4 * edge : 4 * edge + 4]
            after = "end" if symbol == ACCEPT else f"{self.name(symbol)} → {target - first}"
            operations = ", ".join(_operations(program.operations, begin, end))
            yield f"{after} [{operations}]" if operations else after


def _operations(code: Sequence[int], begin: int, end: int) -> Iterator[str]:
    while begin < end:
        length = code[begin]
        yield _operation_text(*code[begin + 1 : begin + 1 + length])
        begin += 1 + length


def _operation_text(kind: int, *values: int) -> str:
    """An operation on a rule's registers: the bits b0, b1, … and the counters c0, c1, …"""
    if kind == CLAUSE:
        return " or ".join(f"b{value >> 1} = {value & 1}" for value in values)
    register, value = values[0], values[-1]
    texts = {
        CLEAR: f"b{register} = 0",
        SET: f"b{register} := 1",
        RESET: f"c{register} := 0",
        AT_LEAST: f"c{register} ≥ {value}",
        SATURATE: f"c{register} + 1, up to {value}",
        COUNT: f"c{register} + 1 ≤ {value}",
    }
    return texts[kind]


def _decoded_expressions(code: Sequence[int]) -> list[Expression]:
    """The expressions of a program by number."""
    expressions: list[Expression] = []
    for node in nodes_of(code):
        parts = tuple(expressions[number] for number in node.parts)
        if node.kind in (CONCAT, UNION, BOTH):
            expressions.append((node.kind, parts))
        elif node.kind == REPEAT:
            expressions.append((REPEAT, *parts, *node.value))
        else:
            expressions.append((node.kind, *parts) if parts else (node.kind, node.value))
    return expressions
