"""Loads a program's expressions into the tables."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import GrammarError
from ..program.expression import AUTOMATON, BOTH, CLASS, CONCAT, GUARD, LITERAL, NOT, REPEAT, UNION
from .expressions import Expressions


class Loader:
    """Reads the code that `engine_sampler.grammar.program.expression.Encoder` writes."""

    def __init__(self, expressions: Expressions, code: Sequence[int]) -> None:
        self.expressions = expressions
        self._code = list(code)
        self._at = 0
        self.numbers: list[int] = []
        while self._at < len(code):
            self.numbers.append(self._node())

    def _take(self) -> int:
        self._at += 1
        return self._code[self._at - 1]

    def _take_many(self, count: int) -> Sequence[int]:
        self._at += count
        return self._code[self._at - count : self._at]

    def _node(self) -> int:
        x = self.expressions
        kind = self._take()
        if kind == LITERAL:
            return x.literal(bytes(self._take_many(self._take())))
        if kind == CLASS:
            words = self._take_many(8)
            return x.byte_class(sum((word & 0xFFFFFFFF) << 32 * i for i, word in enumerate(words)))
        if kind in (CONCAT, UNION, BOTH):
            parts = [self.numbers[number] for number in self._take_many(self._take())]
            return x.concat(*parts) if kind == CONCAT else x.union(parts) if kind == UNION else x.both(parts)
        if kind == NOT:
            return x.complement(self._free_of_guards(self._take()))
        if kind == REPEAT:
            child, low, high = self._take_many(3)
            return x.repeat(self.numbers[child], low, None if high < 0 else high)
        if kind == GUARD:
            child = self.numbers[self._take()]
            return x.guard(child, self._free_of_guards(self._take()))
        if kind == AUTOMATON:
            return x.automaton([self._state() for _ in range(self._take())])
        raise GrammarError(f"the program has an expression of unknown kind {kind}")

    def _state(self) -> tuple[bool, list[tuple[int, int, int]]]:
        accepts = bool(self._take())
        ranges = []
        for _ in range(self._take()):
            low, high, target = self._take_many(3)
            ranges.append((low, high, target))
        return accepts, ranges

    def _free_of_guards(self, node: int) -> int:
        number = self.numbers[node]
        if self.expressions.guarded[number]:
            raise GrammarError("an excluded expression cannot contain a look-ahead")
        return number
