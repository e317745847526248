"""Whether the order of preference of a pattern affects the texts that it matches.

`re.match` prefers one of the ways in which a pattern can match. If that way is always the only one that can
read the next character (so the next character decides every choice), then the texts that it prefers are the
plain language of the pattern, and no ordered automaton is needed.
"""

from __future__ import annotations

from itertools import pairwise

from ..program.unicode import Ranges, overlap, ranges
from .tree import Choice, Lookaround, Node, Repeat, Sequence, Set


def order_matters(node: Node) -> bool:
    """False only if a preferred shorter match never hides a match of the pattern."""
    if node.lazy:
        return True
    try:
        _Firsts().settle(node, ())
    except _Ambiguous:
        return True
    return False


class _Ambiguous(Exception):
    """Two ways can read the same next character, or an empty way is preferred."""


class _Firsts:
    """The first characters of the parts of a pattern."""

    def __init__(self) -> None:
        self._known: dict[int, Ranges] = {}

    def of(self, node: Node) -> Ranges:
        """The characters that a match of the node can begin with."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = self._find(node)
        return known

    def _find(self, node: Node) -> Ranges:
        if isinstance(node, Set):
            return node.ranges
        if isinstance(node, Repeat):
            return () if node.high == 0 else self.of(node.item)
        if isinstance(node, Choice):
            return ranges(piece for item in node.items for piece in self.of(item))
        found: list[tuple[int, int]] = []
        for item in node.items if isinstance(node, Sequence) else ():
            found += self.of(item)
            if item.shortest:
                break
        return ranges(found)

    def settle(self, node: Node, after: Ranges) -> Ranges:
        """The first characters of the node followed by a rest; `after` are those of the rest.

        Raises _Ambiguous where the next character does not decide which way to take, or where an empty
        way is preferred.
        """
        if isinstance(node, Set):
            return node.ranges
        if isinstance(node, Lookaround):  # it only removes ways
            return after
        if isinstance(node, Sequence):
            for item in reversed(node.items):
                after = self.settle(item, after)
            return after
        if isinstance(node, Choice):
            if not all(item.shortest for item in node.items[:-1]):
                raise _Ambiguous
            return _disjoint([self.settle(item, after) for item in node.items])
        assert isinstance(node, Repeat)
        return self._settle_repeat(node, after)

    def _settle_repeat(self, node: Repeat, after: Ranges) -> Ranges:
        if node.high == 0:
            return after
        if not node.item.shortest:
            raise _Ambiguous
        follows = after if node.high == 1 else ranges((*self.of(node.item), *after))
        inside = self.settle(node.item, follows)
        if node.low != node.high and overlap(inside, after):
            raise _Ambiguous
        return inside if node.low else ranges((*inside, *after))


def _disjoint(sets: list[Ranges]) -> Ranges:
    pieces = sorted(piece for members in sets for piece in members)
    if any(later[0] <= earlier[1] for earlier, later in pairwise(pieces)):
        raise _Ambiguous
    return ranges(pieces)
