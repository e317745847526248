"""Expressions as numbers: expressions that are equal by simple algebraic laws have the same number.

An expression has many derivatives, but most of them are equal. The constructors here normalise equal ones
to one form, so that few remain. The properties of an expression that follow from its parts are stored with
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from ..errors import GrammarLimitError
from ..program.expression import ALL_BYTES, AUTOMATON, BOTH, CLASS, CONCAT, GUARD, LITERAL, NOT, REPEAT, UNION
from ..program.notation import expression_text
from .dense import Dense, dense_tables
from .limits import MAX_ENDINGS, Meter
from .partitions import WHOLE, classes, meet, of_class

Node: TypeAlias = tuple[Any, ...]
Endings: TypeAlias = frozenset[int]

EMPTY, EPSILON, ANY_BYTE, ANYTHING = range(4)
"""The numbers of the expressions that match nothing, only the empty text, any single byte, every text."""

FUTURE = -1
"""A kind of expression that occurs in no program; see `Expressions.future`."""

CHUNK = 32
"""The maximum length of a literal node: a longer literal is split, so that its suffixes cost little."""

PLAIN: Endings = frozenset((EMPTY,))
"""The endings of an expression that matches the empty text, whatever follows."""

NEVER: Endings = frozenset()
"""The endings of an expression that does not match the empty text."""


class Expressions:
    """All expressions of one set of tables.

    nodes       (LITERAL, bytes), (CLASS, mask), (CONCAT, head, tail), (UNION or BOTH, children),
                (NOT, child), (REPEAT, child, low, high), (GUARD, child, forbidden),
                (AUTOMATON, automaton, state), (FUTURE, child)
    endings     the guards under which the text may end here: one of them has to hold; {EMPTY}: no guard
                needed, {}: the text cannot end here
    first       the possible first bytes, as a mask; perhaps too many
    partition   the classes of bytes with equal derivatives, see `partitions`
    guarded     whether it contains a guard
    searched    whether only a search can tell if it matches anything
    """

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.nodes: list[Node] = []
        self.endings: list[Endings] = []
        self.first: list[int] = []
        self.partition: list[bytes] = []
        self.guarded: list[bool] = []
        self.searched: list[bool] = []
        self.automata: list[Dense] = []
        self._numbers: dict[Node, int] = {}
        for node in ((UNION, ()), (LITERAL, b""), (CLASS, ALL_BYTES), (REPEAT, ANY_BYTE, 0, None)):
            self._intern(node)

    def __repr__(self) -> str:
        return f"<Expressions: {len(self.nodes)}>"

    def text(self, number: int) -> str:
        """An expression in the notation of regular expressions, for people."""
        return expression_text(number, self.nodes.__getitem__)

    def nullable(self, number: int) -> bool:
        """Whether it matches the empty text, perhaps under a guard."""
        return bool(self.endings[number])

    def literal(self, data: bytes) -> int:
        """Exactly `data`."""
        number = EPSILON
        for end in range(len(data), 0, -CHUNK):
            piece = self._intern((LITERAL, data[max(0, end - CHUNK) : end]))
            number = piece if number == EPSILON else self._intern((CONCAT, piece, number))
        return number

    def byte_class(self, mask: int) -> int:
        """One byte of `mask`."""
        if mask & (mask - 1):
            return self._intern((CLASS, mask))
        return self._intern((LITERAL, bytes((mask.bit_length() - 1,)))) if mask else EMPTY

    def concat(self, *parts: int) -> int:
        """One part after the other; a guard on the first part moves to the front: it looks past that part."""
        flat: list[int] = []
        waiting = list(reversed(parts))
        while waiting:
            part = waiting.pop()
            node = self.nodes[part]
            if part == EMPTY:
                return EMPTY
            if node[0] == CONCAT:
                waiting += (node[2], node[1])
            elif part != EPSILON:
                flat.append(part)
        number = EPSILON
        for part in reversed(flat):
            node = self.nodes[part]
            if node[0] == GUARD:
                number = self.guard(self._prepend(node[1], number), node[2])
            else:
                number = self._prepend(part, number)
        return number

    def _prepend(self, part: int, tail: int) -> int:
        """`part`, which is not a guard, followed by `tail`; both in the form that concat() produces."""
        if EMPTY in (part, tail):
            return EMPTY
        if EPSILON in (part, tail):
            return tail if part == EPSILON else part
        if self.nodes[part][0] == CONCAT:
            return self.concat(part, tail)
        if self.nodes[part][0] == REPEAT and self.nodes[part][2:] == (0, None):
            after = self.nodes[tail]
            if tail == part or (after[0] == CONCAT and after[1] == part):
                return tail  # x* x* is x*
        return self._intern((CONCAT, part, tail))

    def union(self, parts: Iterable[int]) -> int:
        """Any of them: sorted, single bytes merged into one class, repetitions of the same part merged."""
        members: set[int] = set()
        mask = 0
        for part in parts:
            node = self.nodes[part]
            for piece in node[1] if node[0] == UNION else (part,):
                one = self.nodes[piece]
                if one[0] == CLASS:
                    mask |= one[1]
                elif one[0] == LITERAL and len(one[1]) == 1:
                    mask |= 1 << one[1][0]
                else:
                    members.add(piece)
        if mask:
            members.add(self.byte_class(mask))
        if len(members) > 1:
            members = self._simplify(members)
        if ANYTHING in members:
            return ANYTHING
        if len(members) == 1:
            return members.pop()
        self.meter.spend(len(members))
        return self._intern((UNION, tuple(sorted(members))))

    def _simplify(self, members: set[int]) -> set[int]:
        repetitions: dict[tuple[int, int, int], list[tuple[int, int | None, int]]] = {}
        for piece in members:
            if (parts := self._repetition(piece)) is not None:
                head, child, tail, low, high = parts
                repetitions.setdefault((head, child, tail), []).append((low, high, piece))
        for (head, child, tail), ranges in repetitions.items():
            if len(ranges) > 1:
                members.difference_update(piece for _, _, piece in ranges)
                for low, high in _merged([(low, high) for low, high, _ in ranges]):
                    members.add(self.concat(head, self.repeat(child, low, high), tail))
        if EPSILON in members and any(EMPTY in self.endings[piece] for piece in members if piece != EPSILON):
            members.discard(EPSILON)
        return members

    def _repetition(self, number: int) -> tuple[int, int, int, int, int | None] | None:
        """A piece of the form head child{low,high} tail, as head, child, tail, low, high; else None."""
        head, tail = EPSILON, EPSILON
        node = self.nodes[number]
        if node[0] == CONCAT and self.nodes[node[1]][0] != REPEAT:
            head, node = node[1], self.nodes[node[2]]
        if node[0] == CONCAT:
            tail, node = node[2], self.nodes[node[1]]
        return (head, node[1], tail, node[2], node[3]) if node[0] == REPEAT else None

    def both(self, parts: Iterable[int]) -> int:
        """Whatever all of them match."""
        members: set[int] = set()
        mask = ALL_BYTES
        for part in parts:
            node = self.nodes[part]
            for piece in node[1] if node[0] == BOTH else (part,):
                one = self.nodes[piece]
                if one[0] == CLASS:
                    mask &= one[1]
                else:
                    members.add(piece)
        members.discard(ANYTHING)
        if mask != ALL_BYTES:
            members.add(self.byte_class(mask))
        if EMPTY in members or any(
            self.nodes[piece][0] == NOT and self.nodes[piece][1] in members for piece in members
        ):
            return EMPTY
        if EPSILON in members and not any(self.guarded[piece] for piece in members):
            return EPSILON if all(self.endings[piece] for piece in members) else EMPTY
        if len(members) <= 1:
            return members.pop() if members else ANYTHING
        self.meter.spend(len(members))
        return self._intern((BOTH, tuple(sorted(members))))

    def complement(self, number: int) -> int:
        """Every text that `number`, which contains no guard, does not match."""
        if number in (EMPTY, ANYTHING):
            return ANYTHING if number == EMPTY else EMPTY
        node = self.nodes[number]
        return int(node[1]) if node[0] == NOT else self._intern((NOT, number))

    def repeat(self, number: int, low: int, high: int | None) -> int:
        """`number`, low to high times; nested repetitions become one where the result is equal."""
        if number == EMPTY or (high is not None and low > high):
            return EMPTY if low else EPSILON
        if high == 0 or number == EPSILON:
            return EPSILON
        if EMPTY in self.endings[number]:
            low = 0
        node = self.nodes[number]
        if node[0] == REPEAT:
            inner_low, inner_high = node[2], node[3]
            if inner_high is None:
                contiguous = inner_low <= 1 or low > 0
            else:
                contiguous = low == high or low * (inner_high - inner_low) + 1 >= inner_low
            if contiguous:
                unbounded = high is None or inner_high is None
                return self.repeat(node[1], low * inner_low, None if unbounded else high * inner_high)
        return number if low == high == 1 else self._intern((REPEAT, number, low, high))

    def guard(self, number: int, forbidden: int) -> int:
        """`number`, unless `forbidden`, itself without guards, matches a prefix of the text from here on."""
        if number == EMPTY or self.endings[forbidden]:
            return EMPTY
        node = self.nodes[number]
        if node[0] == GUARD:
            number, forbidden = node[1], self.union((node[2], forbidden))
        return number if forbidden == EMPTY else self._intern((GUARD, number, forbidden))

    def future(self, number: int) -> int:
        """The whole texts, up to their ends, that have a prefix which `number` matches."""
        if EMPTY in self.endings[number]:
            return ANYTHING
        if not self.guarded[number]:
            return self.concat(number, ANYTHING)
        node = self.nodes[number]
        return self.union(map(self.future, node[1])) if node[0] == UNION else self._intern((FUTURE, number))

    def bounded(self, number: int, max_bytes: int) -> int:
        """An expression equal to `number` for `max_bytes` bytes: counts they cannot exhaust are dropped."""
        node = self.nodes[number]
        if node[0] == CONCAT:
            head = self.bounded(node[1], max_bytes)
            return number if head == node[1] else self.concat(head, node[2])
        if node[0] == UNION:
            return self.union([self.bounded(part, max_bytes) for part in node[1]])
        if node[0] != REPEAT or max(node[2], node[3] or 0) <= max_bytes:
            return number
        high = None if node[3] is None or node[3] > max_bytes else node[3]
        return self.repeat(node[1], min(node[2], max_bytes + 1), high)

    def automaton(self, states: Sequence[tuple[bool, Sequence[tuple[int, int, int]]]]) -> int:
        """A deterministic automaton at its first state; a state: whether it accepts, and ranges."""
        self.automata.append(dense_tables(states))
        return self.automaton_state(len(self.automata) - 1, 0)

    def automaton_state(self, automaton: int, state: int) -> int:
        """An automaton at a state; -1 is the dead state."""
        if state < 0:
            return EMPTY
        accepts, _, targets = self.automata[automaton][state]
        if set(targets) == {-1}:
            return EPSILON if accepts else EMPTY
        return self._intern((AUTOMATON, automaton, state))

    def _intern(self, node: Node) -> int:
        known = self._numbers.get(node)
        if known is not None:
            return known
        self.meter.add_state()
        endings = self._endings(node)  # first, because it may itself add expressions
        parts = children(node)
        number = len(self._numbers)
        if len(self.nodes) > number:  # a call that was interrupted has left something
            for kept in (self.nodes, self.endings, self.guarded, self.searched, self.first, self.partition):
                del kept[number:]
        self.nodes.append(node)
        self.endings.append(endings)
        has_guard = node[0] == GUARD or any(self.guarded[part] for part in parts)
        self.guarded.append(has_guard and node[0] != FUTURE)
        self.searched.append(node[0] in (BOTH, NOT, GUARD) or any(self.searched[part] for part in parts))
        self._first(node, parts)
        self._numbers[node] = number
        return number

    def _endings(self, node: Node) -> Endings:
        kind = node[0]
        if kind == LITERAL:
            return NEVER if node[1] else PLAIN
        if kind == CONCAT:
            return self._all_of((node[1], node[2]))
        if kind == UNION:
            return self._limited(frozenset().union(*(self.endings[child] for child in node[1])))
        if kind == BOTH:
            return self._all_of(node[1])
        if kind == NOT:
            return NEVER if self.endings[node[1]] else PLAIN
        if kind == FUTURE:
            return PLAIN if self.endings[node[1]] else NEVER
        if kind == REPEAT:
            return PLAIN if node[2] == 0 else self.endings[node[1]]
        if kind == GUARD:
            return self._limited(frozenset(self.union((end, node[2])) for end in self.endings[node[1]]))
        return PLAIN if kind == AUTOMATON and self.automata[node[1]][node[2]][0] else NEVER

    def _all_of(self, children: Sequence[int]) -> Endings:
        result = PLAIN
        for child in children:
            ends = self.endings[child]
            if ends != PLAIN:
                result = self._limited(frozenset(self.union((a, b)) for a in result for b in ends))
        return result

    def _limited(self, endings: Endings) -> Endings:
        if EMPTY in endings:
            return PLAIN
        if len(endings) > MAX_ENDINGS:
            raise GrammarLimitError(f"an expression may end under more than {MAX_ENDINGS} guards")
        return endings

    def _first(self, node: Node, parts: Sequence[int]) -> None:
        """Record the possible first bytes and the partition of the bytes."""
        kind = node[0]
        mask, partition = ALL_BYTES, WHOLE
        if kind == LITERAL:
            mask = 1 << node[1][0] if node[1] else 0
            partition = of_class(mask)
        elif kind == CLASS:
            mask = node[1]
            partition = of_class(mask)
        elif kind == AUTOMATON:
            partition = self.automata[node[1]][node[2]][1]
            targets = self.automata[node[1]][node[2]][2]
            mask = sum(one for byte, one in classes(partition).items() if targets[byte] >= 0)
        else:
            leading = parts[:1] if kind == CONCAT and not self.endings[parts[0]] else parts
            ends = self.endings[parts[0]] if kind in (CONCAT, REPEAT, FUTURE) else NEVER
            partition = meet(self.partition[part] for part in (*leading, *ends))
            firsts = [self.first[part] for part in leading]
            if kind in (CONCAT, UNION, REPEAT) or (kind == FUTURE and not ends):
                mask = 0
                for first in firsts:
                    mask |= first
            elif kind in (BOTH, GUARD):
                for first in firsts if kind == BOTH else firsts[:1]:
                    mask &= first
        self.first.append(mask)
        self.partition.append(partition)


def children(node: Node) -> tuple[int, ...]:
    """The numbers of a node's parts."""
    kind = node[0]
    if kind in (UNION, BOTH):
        return tuple(node[1])
    if kind in (CONCAT, GUARD):
        return (node[1], node[2])
    return (node[1],) if kind in (NOT, REPEAT, FUTURE) else ()


def _merged(ranges: list[tuple[int, int | None]]) -> list[tuple[int, int | None]]:
    """Ranges of counts; those that overlap or are adjacent are merged."""
    result: list[tuple[int, int | None]] = []
    for low, high in sorted(ranges, key=lambda bounds: bounds[0]):
        if result:
            last_low, last_high = result[-1]
            if last_high is None:
                break
            if low <= last_high + 1:
                result[-1] = last_low, None if high is None else max(high, last_high)
                continue
        result.append((low, high))
    return result
