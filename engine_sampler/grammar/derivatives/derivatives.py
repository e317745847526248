"""Derivatives of expressions (Brzozowski 1964), each computed once.

The derivative of e by b matches the rests, after a first byte b, of the texts that e matches. The
forbidden expression of a guard is derived along with it; as soon as it matches, the whole is dead.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import GrammarLimitError
from ..program.expression import AUTOMATON, BOTH, CLASS, CONCAT, GUARD, LITERAL, NOT, REPEAT, UNION
from ..work import spend
from .expressions import ANY_BYTE, ANYTHING, EMPTY, EPSILON, FUTURE, Expressions
from .limits import EMPTINESS_STEPS
from .partitions import classes, representatives

MAX_SCANNED_MEMBERS = 8
"""The members of a larger union are looked up by their first bytes instead of scanned."""


class FirstBytes:
    """An index from a byte to the members that may begin with it, given each member's mask of first bytes."""

    def __init__(self, masks: Iterable[tuple[int, int]]) -> None:
        self._by_single_byte: dict[int, list[int]] = {}
        self._others: list[tuple[int, int]] = []
        for member, mask in masks:
            if mask & (mask - 1):
                self._others.append((member, mask))
            elif mask:
                self._by_single_byte.setdefault(mask.bit_length() - 1, []).append(member)

    def beginning_with(self, byte: int) -> list[int]:
        """The members that may begin with `byte`."""
        others = [member for member, mask in self._others if mask >> byte & 1]
        return self._by_single_byte.get(byte, []) + others


class Derivatives:
    """Derivatives of expressions, and the properties that follow from them."""

    def __init__(self, expressions: Expressions) -> None:
        self.expressions = expressions
        self._known: dict[int, int] = {}
        self._live: dict[int, bool] = {EMPTY: False}
        self._unions: dict[int, FirstBytes] = {}
        self._continues: dict[int, bool] = {EMPTY: False, EPSILON: False}
        self._nonempty = expressions.concat(ANY_BYTE, ANYTHING)

    def derivative(self, number: int, byte: int) -> int:
        """The derivative of `number` by `byte`; EMPTY if it matches nothing that begins with `byte`."""
        x = self.expressions
        if not x.first[number] >> byte & 1:
            return EMPTY
        found = self._known.get(number << 8 | x.partition[number][byte])
        return self._derive(number, byte) if found is None else found

    def live_steps(self, number: int) -> dict[int, int]:
        """The derivatives of `number` that match something, and the mask of the bytes that lead to each, in
        the order of their least bytes."""
        found: dict[int, int] = {}
        for byte, mask in classes(self.expressions.partition[number]).items():
            target = self.derivative(number, byte)
            if self.live(target):
                found[target] = found.get(target, 0) | mask
        return found

    def _derive(self, number: int, byte: int) -> int:
        """Compute a derivative without recursion: expressions may be deeply nested."""
        x = self.expressions
        waiting = [number]
        while waiting:
            part = waiting[-1]
            key = part << 8 | x.partition[part][byte]
            missing = [other for other in self._needed(part, byte) if not self._is_known(other, byte)]
            if missing and key not in self._known:
                waiting += missing
                continue
            waiting.pop()
            if key not in self._known:
                x.meter.spend(1)
                self._known[key] = self._step(part, byte)
        return self._known[number << 8 | x.partition[number][byte]]

    def _is_known(self, number: int, byte: int) -> bool:
        x = self.expressions
        return not x.first[number] >> byte & 1 or number << 8 | x.partition[number][byte] in self._known

    def _needed(self, number: int, byte: int) -> Iterable[int]:
        """The expressions whose derivatives determine that of `number`."""
        x = self.expressions
        node = x.nodes[number]
        kind = node[0]
        if kind == CONCAT:
            ends = x.endings[node[1]]
            return (node[1], node[2], *ends) if ends else (node[1],)
        if kind == UNION:
            return self._members(number, byte)
        if kind == BOTH:
            return tuple(node[1])
        if kind in (REPEAT, FUTURE):
            return (node[1], *x.endings[node[1]])
        if kind == GUARD:
            return (node[1], node[2])
        return (node[1],) if kind == NOT else ()

    def _members(self, number: int, byte: int) -> Iterable[int]:
        """The members of a union that may begin with `byte`."""
        x = self.expressions
        members = x.nodes[number][1]
        if len(members) <= MAX_SCANNED_MEMBERS:
            return tuple(member for member in members if x.first[member] >> byte & 1)
        table = self._unions.get(number)
        if table is None:
            x.meter.spend(len(members))
            table = self._unions[number] = FirstBytes((member, x.first[member]) for member in members)
        return table.beginning_with(byte)

    def _step(self, number: int, byte: int) -> int:
        """The derivative by a possible first byte, once the derivatives of the parts are known."""
        x = self.expressions
        node = x.nodes[number]
        kind = node[0]
        if kind == LITERAL:
            return x.literal(node[1][1:])
        if kind == CLASS:
            return EPSILON
        if kind == CONCAT:
            return x.union(self._of_concat(node[1], node[2], byte))
        if kind == UNION:
            return x.union(self.derivative(member, byte) for member in self._members(number, byte))
        if kind == BOTH:
            return x.both(self.derivative(member, byte) for member in node[1])
        if kind == NOT:
            return x.complement(self.derivative(node[1], byte))
        if kind == REPEAT:
            return self._of_repeat(node[1], node[2], node[3], byte)
        if kind == GUARD:
            return x.guard(self.derivative(node[1], byte), self.derivative(node[2], byte))
        if kind == FUTURE:
            return x.union(self._of_future(node[1], byte))
        return (
            x.automaton_state(node[1], x.automata[node[1]][node[2]][2][byte]) if kind == AUTOMATON else EMPTY
        )

    def _of_concat(self, head: int, tail: int, byte: int) -> list[int]:
        """Either the head continues, or it ends, under one of its guards, and the tail begins."""
        x = self.expressions
        parts = [x.concat(self.derivative(head, byte), tail)]
        for end in x.endings[head]:
            parts.append(x.guard(self.derivative(tail, byte), self.derivative(end, byte)))
        return parts

    def _of_repeat(self, child: int, low: int, high: int | None, byte: int) -> int:
        """One more `child`. If guards allow empty repetitions, these count towards the number required."""
        x = self.expressions
        fewer = None if high is None else high - 1
        first = self.derivative(child, byte)
        result = x.concat(first, x.repeat(child, max(0, low - 1), fewer))
        if low == 0 or not x.endings[child]:
            return result
        parts = [result]
        rest = x.repeat(child, 0, None if high is None else high - 2)
        if high is None or high > 1:
            for end in x.endings[child]:
                parts.append(x.guard(x.concat(first, rest), self.derivative(end, byte)))
        return x.union(parts)

    def _of_future(self, child: int, byte: int) -> list[int]:
        """Either the child continues, or it ended before the byte and its guard allows what follows."""
        x = self.expressions
        parts = [x.future(self.derivative(child, byte))]
        for end in x.endings[child]:
            forbidden = self.derivative(end, byte)
            if not x.endings[forbidden]:
                parts.append(x.complement(x.concat(forbidden, ANYTHING)))
        return parts

    def live(self, number: int) -> bool:
        """Whether `number` matches anything. Raises GrammarLimitError if deciding that costs too much."""
        x = self.expressions
        if number == EMPTY or not x.searched[number] or x.endings[number]:
            return number != EMPTY
        found = self._live.get(number)
        if found is None:
            found = self._live[number] = self._decompose(number)
        return found

    def _decompose(self, number: int) -> bool:
        """Decide by the parts where they determine the whole; search otherwise."""
        x = self.expressions
        node = x.nodes[number]
        if node[0] == UNION:
            return any(map(self.live, node[1]))
        rest = number
        while node[0] == CONCAT and not x.guarded[node[1]]:
            if not self.live(node[1]):
                return False
            rest = node[2]
            node = x.nodes[rest]
        if rest != number:
            return self.live(rest)
        if node[0] == REPEAT and not x.guarded[node[1]]:
            return self.live(node[1])
        return self._search(number)

    def _search(self, number: int) -> bool:
        """Search breadth-first for a matching text; every expression on the path to it is live as well."""
        x = self.expressions
        came_from = {number: number}
        queue = [number]
        steps = 0
        for source in queue:
            bytes_of_classes = representatives(x.partition[source])
            steps += len(bytes_of_classes)
            spend(1 + len(bytes_of_classes))
            for byte in bytes_of_classes:
                following = self.derivative(source, byte)
                if following in came_from or self._live.get(following) is False:
                    continue
                came_from[following] = source
                if x.endings[following] or not x.searched[following] or following in self._live:
                    while following != number:
                        self._live[following] = True
                        following = came_from[following]
                    return True
                queue.append(following)
            if steps > EMPTINESS_STEPS:
                raise GrammarLimitError(
                    f"deciding whether an expression matches anything takes more than {EMPTINESS_STEPS} steps"
                )
        self._live.update(dict.fromkeys(queue, False))
        return False

    def continues(self, number: int) -> bool:
        """Whether `number` matches any non-empty text."""
        x = self.expressions
        continues = self._continues.get(number)
        if continues is None:
            if not x.endings[number]:
                return self.live(number)
            continues = any(
                self.live(self.derivative(number, byte)) for byte in representatives(x.partition[number])
            )
            self._continues[number] = continues
        return continues

    def longer(self, number: int) -> int:
        """The futures (whole texts from here on) that have a non-empty prefix which an expression matches."""
        x = self.expressions
        return x.future(x.both((number, self._nonempty)) if x.endings[number] else number)

    def possible(self, number: int, excluded: int) -> bool:
        """Whether `number` matches a non-empty prefix of some future that is not `excluded`."""
        if excluded == EMPTY:
            return self.continues(number)
        x = self.expressions
        return self.live(x.both((self.longer(number), x.complement(excluded))))
