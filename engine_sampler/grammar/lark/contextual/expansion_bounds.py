"""The size of rules when lark expands them to plain sequences, which can take exponential time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lark import Token, Tree
from lark.grammar import Symbol

from ...errors import GrammarLimitError
from ...work import spend_on_each
from ..messages import Messages
from ..statements import ENDLESS

MAX_SYMBOLS = 50_000
"""The most symbols in all sequences that rules are expanded to."""

_CAP = MAX_SYMBOLS + 1
_MIN_SPLIT = 50
"""Lark expands counts below this one; larger ones become rules of at most `_PIECE` parts."""
_PIECE = 10


def without_endless_counts(tree: Any) -> None:
    """Replace counts without an upper bound, which lark lacks: `x~2..` becomes `x~2 x*`."""
    for node in tree.iter_subtrees():
        if node.data == "expr" and len(node.children) == 4 and int(node.children[3]) == ENDLESS:
            item, operator, low, _ = node.children
            star = Tree("expr", [item, Token("OP", "*")])
            counted = Tree("expr", [item, operator, low])
            node.data, node.children = "expansions", [Tree("expansion", [counted, star])]
            if int(low) == 0:
                node.children = [Tree("expansion", [star])]


def check_expansion(trees: Mapping[str, Any], messages: Messages) -> None:
    """Raise GrammarLimitError if the sequences that the rules are expanded to have too many symbols.

    trees   those of the rules by name
    """
    count, name = _SymbolCount(), ""
    with messages.within_rule(lambda: name):
        for name, tree in spend_on_each(list(trees.items()), 5):  # noqa: B007  (an error is about it)
            ways, length = count.size(tree)
            count.add(ways * length)


class _SymbolCount:
    """Counts the symbols that lark expands rules to: the ways of parts in sequence multiply."""

    def __init__(self) -> None:
        self._symbols = 0

    def add(self, symbols: int) -> None:
        self._symbols += symbols
        if self._symbols > MAX_SYMBOLS:
            text = f"the rules have more than {MAX_SYMBOLS} symbols when all choices are expanded"
            raise GrammarLimitError(text)

    def size(self, node: Any) -> tuple[int, int]:
        """The number of sequences that `node` is expanded to, and the length of the longest."""
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
                ways = min(ways * factor, _CAP)
            return ways, min(max(sum(lengths), 1), _CAP)
        ways = sum(ways for ways, _ in sizes) + (node.data == "maybe")
        return min(ways, _CAP), max(lengths, default=1)

    def _repetition(self, item: Any, operator: Any, low: Any = 0, high: Any = None) -> tuple[int, int]:
        ways, length = self.size(item)
        if operator == "?":
            return min(ways + 1, _CAP), length
        if operator != "~":
            self.add(ways * (2 * length + 1))
            return 1 + (operator == "*"), 1
        least, most = int(low), int(low if high is None else high)
        if most >= _MIN_SPLIT:
            self.add(_power(ways, _PIECE) * _PIECE * length * most.bit_length())
            return _power(ways, 2), 2
        total = sum(_power(ways, count) for count in range(least, most + 1))
        return min(max(total, 1), _CAP), min(max(most * length, 1), _CAP)


def _power(base: int, exponent: int) -> int:
    return base if base <= 1 else min(base ** min(exponent, 64), _CAP)
