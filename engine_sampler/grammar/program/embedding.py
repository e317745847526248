"""Embed a finished grammar in another one."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence

from .expression import (
    AUTOMATON,
    CLASS,
    CONCAT,
    EPSILON,
    GUARD,
    LITERAL,
    NOT,
    REPEAT,
    UNION,
    Expression,
    automaton,
    concat,
    guard,
    repeat,
    union,
)
from .operations import Operation
from .rules import ACCEPT, Edge, Program, Rules, sequence
from .settings import Mark
from .special_names import Binding


def embed(inner: Rules, rules: Rules, replaced: Mapping[int, Callable[[], int]] | None = None) -> int:
    """Add the rules of another grammar to `rules`, and return the symbol of its start rule.

    replaced   functions that add the rules which stand for some of its terminals, and return a symbol

    Text that the grammar ignores is read around its own terminals, and nowhere else; each match, such as
    white space or the rest of a line, is as long as possible.
    """
    marks, inner.marks = inner.marks, {}
    budgets, inner.part_budgets = inner.part_budgets, {}
    bindings = {binding.symbol: binding for binding in inner.bindings}
    found = _Embedding(inner.program(), rules, bindings, replaced or {})
    found.define(marks, budgets)
    inner.marks, inner.part_budgets = marks, budgets  # it may be embedded again
    return found.start


class _Embedding:
    def __init__(
        self,
        program: Program,
        rules: Rules,
        bindings: Mapping[int, Binding],
        replaced: Mapping[int, Callable[[], int]],
    ) -> None:
        self._program, self._rules = program, rules
        self._bindings = bindings
        self._replaced = replaced
        self._expressions = expressions(program)
        names = program.rule_names or ("rule",) * (len(program.rules) // 3)
        self._symbols = [rules.rule(name) for name in names]
        self._skip = self._ignored()
        self._terminals: dict[int, int] = {}
        """By the terminals of the program."""
        self._operations: dict[tuple[int, int], tuple[Operation, ...]] = {}
        self.start = self._symbols[program.start]
        if self._skip is not None:
            self.start = rules.rule("embedded")
            rules.define(self.start, sequence(self._symbols[program.start], self._skip))

    def _ignored(self) -> int | None:
        """The terminal of the text that may be ignored at one position; None if nothing is ignored."""
        if not self._program.ignore:
            return None
        ignored = (
            _whole(self._expressions[self._program.terminals[symbol]]) for symbol in self._program.ignore
        )
        skipped = self._rules.terminal("IGNORED", repeat(union(*ignored)), shared=False)
        self._rules.skipped.add(skipped)
        return skipped

    def define(self, marks: Mapping[int, Mark], budgets: Mapping[int, int]) -> None:
        """Give each rule its automaton, and what it sets."""
        self._rules.unenforced |= dict.fromkeys(self._program.unenforced)
        self._rules.unique_items |= self._program.unique_items
        self._rules.indexed_items |= self._program.indexed_items
        self._rules.unique_keys |= self._program.unique_keys
        self._rules.marks |= {self._symbols[-1 - rule]: mark for rule, mark in marks.items()}
        self._rules.part_budgets |= {self._symbols[-1 - rule]: one for rule, one in budgets.items()}
        self._rules.captures |= {self._symbols[-1 - rule]: name for rule, name in self._program.captures}
        starts = self._program.rules[::3]
        ends = [*starts[1:], len(self._program.states) - 1]
        for rule, symbol in enumerate(self._symbols):
            first, bits, counters = self._program.rules[3 * rule : 3 * rule + 3]
            states = [list(self._edges(state, first)) for state in range(starts[rule], ends[rule])]
            self._rules.define_automaton(symbol, states, bits, counters)

    def _edges(self, state: int, first: int) -> Iterator[Edge]:
        edges = self._program.edges
        for at in range(4 * self._program.states[state], 4 * self._program.states[state + 1], 4):
            symbol, target, begin, end = edges[at : at + 4]
            yield Edge(self._symbol(symbol), target - first, self._operations_between(begin, end))

    def _symbol(self, symbol: int) -> int:
        if symbol == ACCEPT:
            return symbol
        if symbol < 0:
            return self._symbols[-1 - symbol]
        if symbol not in self._terminals:
            self._terminals[symbol] = self._terminal(symbol)
        return self._terminals[symbol]

    def _terminal(self, symbol: int) -> int:
        program, rules = self._program, self._rules
        name = program.terminal_names[symbol] if program.terminal_names else "TERMINAL"
        node = program.terminals[symbol]
        if symbol in self._replaced:
            added = self._replaced[symbol]()
        elif node < 0:
            ids = program.special_ids[program.special_starts[symbol] : program.special_starts[symbol + 1]]
            added = rules.special(name, ids)
        else:
            budget = program.budgets[symbol] if program.budgets else 0
            shared = symbol not in program.skipped and symbol not in self._bindings
            added = rules.terminal(name, self._expressions[node], shared=shared, budget=budget)
        if symbol in self._bindings:
            rules.bindings.append(self._bindings[symbol]._replace(symbol=added))
        if symbol in program.skipped:
            rules.skipped.add(added)
        if self._skip is None:
            return added
        after = rules.rule(name)
        rules.define(after, sequence(self._skip, added))
        return after

    def _operations_between(self, begin: int, end: int) -> tuple[Operation, ...]:
        operations = self._operations.get((begin, end))
        if operations is None:
            code, at, decoded = self._program.operations, begin, []
            while at < end:
                decoded.append(tuple(code[at + 1 : at + 1 + code[at]]))
                at += 1 + code[at]
            operations = self._operations[begin, end] = tuple(decoded)
        return operations


def _whole(part: Expression) -> Expression:
    """`part`, restricted to its longest matches if it ends in an unbounded repetition."""
    if part[0] == UNION:
        return union(*map(_whole, part[1]))
    last = part[1][-1] if part[0] == CONCAT else part
    if last[0] == REPEAT and last[3] is None:
        return concat(part, guard(EPSILON, last[1]))
    return part


def expressions(program: Program) -> list[Expression]:
    """The expressions of a program by number: decodes the output of `expression.Encoder`."""
    code, at = program.expressions, 0
    found: list[Expression] = []
    while at < len(code):
        node, at = _node(code, at, found)
        found.append(node)
    return found


def _node(code: array[int], at: int, decoded: Sequence[Expression]) -> tuple[Expression, int]:
    """The expression whose code begins at `at`, and the end of that code."""
    kind, at = code[at], at + 1
    if kind == CLASS:
        words = (word & 0xFFFFFFFF for word in code[at : at + 8])
        return (kind, sum(word << 32 * index for index, word in enumerate(words))), at + 8
    if kind == REPEAT:
        child, low, high = code[at : at + 3]
        return (kind, decoded[child], low, None if high < 0 else high), at + 3
    if kind == NOT:
        return (kind, decoded[code[at]]), at + 1
    if kind == GUARD:
        return (kind, decoded[code[at]], decoded[code[at + 1]]), at + 2
    count, at = code[at], at + 1
    if kind == AUTOMATON:
        return _states(code, at, count)
    members = code[at : at + count]
    if kind == LITERAL:
        return (kind, bytes(members.tolist())), at + count
    return (kind, tuple(decoded[child] for child in members)), at + count


def _states(code: array[int], at: int, count: int) -> tuple[Expression, int]:
    states = []
    for _ in range(count):
        accepts, ranges = bool(code[at]), code[at + 1]
        end = at + 2 + 3 * ranges
        flat = code[at + 2 : end]
        states.append((accepts, tuple(zip(flat[::3], flat[1::3], flat[2::3], strict=True))))
        at = end
    return automaton(tuple(states)), at
