"""How large rules get when lark writes them out as plain sequences, which can take exponential time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lark import Token, Tree
from lark.grammar import Symbol

from ..errors import GrammarLimitError
from .dialect import ENDLESS

MAX_SYMBOLS = 50_000
"""The most symbols in all sequences that rules are written out as."""

_MOST = MAX_SYMBOLS + 1
_SHORT = 50
"""Counts below this one are written out by lark; larger ones become rules of at most `_PIECE` parts."""
_PIECE = 10


def without_endless_counts(tree: Any) -> None:
    """Replace counts without end, which lark does not know: `x~2..` becomes `x~2 x*`."""
    for node in tree.iter_subtrees():
        if node.data == "expr" and len(node.children) == 4 and int(node.children[3]) == ENDLESS:
            item, operator, low, _ = node.children
            star = Tree("expr", [item, Token("OP", "*")])
            counted = Tree("expr", [item, operator, low])
            node.data, node.children = "expansions", [Tree("expansion", [counted, star])]
            if int(low) == 0:
                node.children = [Tree("expansion", [star])]


def written_out(trees: Iterable[Any]) -> int:
    """The symbols of all sequences of the rules. Raises GrammarLimitError where they are too many."""
    count = _Count()
    for tree in trees:
        ways, length = count.size(tree)
        count.add(ways * length)
    return count.symbols


class _Count:
    """Counts what lark makes of rules: ways are multiplied where they follow each other."""

    def __init__(self) -> None:
        self.symbols = 0

    def add(self, symbols: int) -> None:
        self.symbols += symbols
        if self.symbols > MAX_SYMBOLS:
            text = f"the rules are more than {MAX_SYMBOLS} symbols when all choices are written out"
            raise GrammarLimitError(text)

    def size(self, node: Any) -> tuple[int, int]:
        """Into how many sequences `node` is written out, and the length of the longest."""
        if isinstance(node, Symbol) or node.data in ("literal", "range", "template_usage"):
            return 1, 1
        if node.data == "expr":
            return self._repetition(*node.children)
        if node.data in ("alias", "value"):
            return self.size(node.children[0])
        sizes = [self.size(child) for child in node.children]
        lengths = [length for _, length in sizes]
        if node.data == "expansion":
            ways = 1
            for factor, _ in sizes:
                ways = min(ways * factor, _MOST)
            return ways, min(max(sum(lengths), 1), _MOST)
        ways = sum(ways for ways, _ in sizes) + (node.data == "maybe")
        return min(ways, _MOST), max(lengths, default=1)

    def _repetition(self, item: Any, operator: Any, low: Any = 0, high: Any = None) -> tuple[int, int]:
        ways, length = self.size(item)
        if operator == "?":
            return min(ways + 1, _MOST), length
        if operator != "~":
            self.add(ways * (2 * length + 1))
            return 1 + (operator == "*"), 1
        least, most = int(low), int(low if high is None else high)
        if most >= _SHORT:
            self.add(_power(ways, _PIECE) * _PIECE * length * most.bit_length())
            return _power(ways, 2), 2
        total = sum(_power(ways, count) for count in range(least, most + 1))
        return min(max(total, 1), _MOST), min(max(most * length, 1), _MOST)


def _power(base: int, exponent: int) -> int:
    return base if base <= 1 else min(base ** min(exponent, 64), _MOST)
