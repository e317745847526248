"""A grammar printed as Lark.

    print(lark_text(rules_from_schema({"type": "array"})))

Rules are printed as automata, with one Lark rule for each state. An automaton with registers is expanded:
one rule for each state with each value of its registers, so a schema with many optional keys becomes too
large to print. Terminals are printed as regular expressions over characters; see `regex`. Lark reads the
result with `parser="earley", lexer="dynamic_complete"`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..errors import GrammarError, GrammarLimitError
from ..program.expression import (
    AUTOMATON,
    BOTH,
    CLASS,
    CONCAT,
    GUARD,
    LITERAL,
    NOT,
    REPEAT,
    UNION,
    Expression,
)
from ..program.operations import AT_LEAST, CLAUSE, CLEAR, COUNT, RESET, SATURATE, SET, Operation
from ..program.reaching import nodes_reaching
from ..program.rules import ACCEPT, Program, Rules
from .regex import terminal_text

MAX_RULES = 5_000
"""Maximum number of rules that are printed."""

Registers = tuple[frozenset[int], tuple[int, ...]]
"""The set bits, and the values of the counters."""

ExpandedState = tuple[int, Registers]
"""A state of a rule, and the contents of its registers."""


def lark_text(grammar: Rules | Program) -> str:
    """The grammar as Lark text.

    Raises GrammarError for a grammar given as parser tables, with budgets of tokens, or with parameters or
    captures of rules; GrammarLimitError if the text would be too long, or if a terminal cannot be expressed
    as a regular expression of reasonable size.
    """
    program = grammar.program() if isinstance(grammar, Rules) else grammar
    if program.parser:
        raise GrammarError("parser tables cannot be printed as Lark text")
    if program.budgets:
        raise GrammarError("budgets of tokens cannot be printed as Lark text")
    if program.settings:
        raise GrammarError("sampling parameters of rules cannot be printed as Lark text")
    if program.captures:  # of a rule whose first state is entered again, its rest would be captured, too
        raise GrammarError("captures of rules cannot be printed as Lark text")
    return _Printer(program).text()


class _Edge(NamedTuple):
    symbol: int
    target: int
    operations: tuple[Operation, ...]


class _Printer:
    """Prints one program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._expressions = decoded_expressions(program.expressions)
        self._names = _unique(_plain(name).upper() for name in program.terminal_names)
        self._rule_names = _unique(_plain(name).lower() for name in program.rule_names)
        self._used: dict[int, None] = {}
        self._waiting: list[int] = []
        self._seen: set[int] = set()
        self._count = 0

    def text(self) -> str:
        lines = [f"start: {self._rule(self._program.start)}", ""]
        while self._waiting:
            lines += [*self._automaton(self._waiting.pop()), ""]
        ignored = [f"%ignore {self._terminal(symbol)}" for symbol in self._program.ignore]
        lines += [f"{self._names[symbol]}: {self._pattern(symbol)}" for symbol in self._used]
        return "\n".join([*lines, *ignored]) + "\n"

    def _pattern(self, symbol: int) -> str:
        name = self._names[symbol]
        return terminal_text(self._expressions[self._program.terminals[symbol]], name)

    def _terminal(self, symbol: int) -> str:
        if self._program.terminals[symbol] < 0:
            starts = self._program.special_starts
            ids = self._program.special_ids[starts[symbol] : starts[symbol + 1]]
            return "<[" + ",".join(map(str, ids)) + "]>"
        self._used[symbol] = None
        return self._names[symbol]

    def _rule(self, number: int) -> str:
        if number not in self._seen:
            self._seen.add(number)
            self._waiting.append(number)
        return self._rule_names[number]

    def _automaton(self, number: int) -> list[str]:
        """A rule of the program, as one Lark rule for each reachable state with its register contents."""
        first, _, counters = self._program.rules[3 * number : 3 * number + 3]
        start = first, (frozenset[int](), (0,) * counters)
        outgoing: dict[ExpandedState, list[tuple[int, ExpandedState | None]]] = {}
        waiting: list[ExpandedState] = [start]
        for state in waiting:
            if state in outgoing:
                continue
            outgoing[state] = self._outgoing(state)
            waiting += [target for _, target in outgoing[state] if target is not None]
            self._count += 1
            if self._count > MAX_RULES:
                raise GrammarLimitError(f"the grammar needs more than {MAX_RULES} Lark rules")
        alive = _alive(outgoing)
        base = self._rule_names[number]
        names = {state: f"{base}_{index}" if index else base for index, state in enumerate(outgoing)}
        lines = []
        for state in (state for state in outgoing if state in alive):
            texts = []
            for symbol, target in outgoing[state]:
                if target is None or target in alive:
                    texts.append(self._alternative(symbol, None if target is None else names[target]))
            lines.append(f"{names[state]}: " + " | ".join(dict.fromkeys(texts)))
        return lines

    def _outgoing(self, state: ExpandedState) -> list[tuple[int, ExpandedState | None]]:
        """The symbols that may come next, and the state after each: None if the rule ends there."""
        outgoing: list[tuple[int, ExpandedState | None]] = []
        for edge in self._edges(state[0]):
            after = _apply(state[1], edge.operations)
            if after is not None:
                ends = edge.symbol == ACCEPT or self._is_end(edge.target)
                outgoing.append((edge.symbol, None if ends else (edge.target, after)))
        return outgoing

    def _alternative(self, symbol: int, target: str | None) -> str:
        if symbol == ACCEPT:
            return ""
        text = self._terminal(symbol) if symbol >= 0 else self._rule(-1 - symbol)
        return text if target is None else f"{text} {target}"

    def _is_end(self, state: int) -> bool:
        """Whether the only edge of a state ends the rule unconditionally."""
        begin, end = 4 * self._program.states[state], 4 * self._program.states[state + 1]
        operations = self._program.edges[begin + 2] < self._program.edges[begin + 3] if begin < end else True
        return end - begin == 4 and self._program.edges[begin] == ACCEPT and not operations

    def _edges(self, state: int) -> Iterable[_Edge]:
        program = self._program
        for at in range(4 * program.states[state], 4 * program.states[state + 1], 4):
            symbol, target, begin, end = program.edges[at : at + 4]
            operations = []
            while begin < end:
                length = program.operations[begin]
                operations.append(tuple(program.operations[begin + 1 : begin + 1 + length]))
                begin += 1 + length
            yield _Edge(symbol, target, tuple(operations))


def _alive(outgoing: dict[ExpandedState, list[tuple[int, ExpandedState | None]]]) -> set[ExpandedState]:
    """The states from which the end can be reached."""
    steps = (
        (state, target) for state, edges in outgoing.items() for _, target in edges if target is not None
    )
    ends = (state for state, edges in outgoing.items() if any(target is None for _, target in edges))
    return nodes_reaching(steps, ends)


def _apply(registers: Registers, operations: Iterable[Operation]) -> Registers | None:
    """The registers after some operations; None if one of the operations fails."""
    bits, counters = set(registers[0]), list(registers[1])
    for kind, *operands in operations:
        register = operands[0]
        if kind == CLEAR:
            passes = register not in bits
        elif kind == AT_LEAST:
            passes = counters[register] >= operands[1]
        elif kind == CLAUSE:
            passes = any((literal >> 1 in bits) == bool(literal & 1) for literal in operands)
        else:
            passes = _apply_change(kind, operands, bits, counters)
        if not passes:
            return None
    return frozenset(bits), tuple(counters)


def _apply_change(kind: int, operands: Sequence[int], bits: set[int], counters: list[int]) -> bool:
    """Apply an operation that changes registers; return whether it passes."""
    register = operands[0]
    if kind == SET:
        bits.add(register)
    elif kind == RESET:
        counters[register] = 0
    elif kind == SATURATE:
        counters[register] = min(counters[register] + 1, operands[1])
    elif kind == COUNT:
        counters[register] += 1
        return counters[register] <= operands[1]
    return True


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "x"


def _unique(names: Iterable[str]) -> list[str]:
    """The names, with a number appended to repeated ones; none is `start`."""
    taken = {"start"}
    result = []
    counts: dict[str, int] = {}
    for name in names:
        name = name if name[0].isalpha() else f"x{name}" if name.islower() else f"X{name}"
        unique = name
        while unique in taken:
            counts[name] = counts.get(name, 0) + 1
            unique = f"{name}_n{counts[name]}" if name.islower() else f"{name}_N{counts[name]}"
        taken.add(unique)
        result.append(unique)
    return result


def decoded_expressions(code: Sequence[int]) -> list[Expression]:
    """The expressions of a program by number: decodes the output of `expression.Encoder`."""
    expressions: list[Expression] = []
    at = 0
    while at < len(code):
        kind, at = code[at], at + 1
        if kind == CLASS:
            words = (word & 0xFFFFFFFF for word in code[at : at + 8])
            expressions.append((kind, sum(word << 32 * i for i, word in enumerate(words))))
            at += 8
        elif kind in (LITERAL, CONCAT, UNION, BOTH):
            end = at + 1 + code[at]
            operands = code[at + 1 : end]
            members = (
                bytes([*operands]) if kind == LITERAL else tuple(expressions[number] for number in operands)
            )
            expressions.append((kind, members))
            at = end
        elif kind == REPEAT:
            child, low, high = code[at : at + 3]
            expressions.append((kind, expressions[child], low, None if high < 0 else high))
            at += 3
        elif kind in (NOT, GUARD):
            count = 1 if kind == NOT else 2
            expressions.append((kind, *(expressions[number] for number in code[at : at + count])))
            at += count
        else:
            states, at = _states(code, at)
            expressions.append((AUTOMATON, states))
    return expressions


def _states(code: Sequence[int], at: int) -> tuple[tuple[tuple[bool, tuple[tuple[int, ...], ...]], ...], int]:
    states = []
    count, at = code[at], at + 1
    for _ in range(count):
        accepts, edges = code[at], code[at + 1]
        at += 2
        states.append((bool(accepts), tuple(tuple(code[i : i + 3]) for i in range(at, at + 3 * edges, 3))))
        at += 3 * edges
    return tuple(states), at
