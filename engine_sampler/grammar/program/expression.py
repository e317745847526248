"""Regular expressions over bytes: the content of terminals.

An expression is a tuple whose first member is its kind. Only the functions below build expressions. They
are values: equal ones may be shared, and sharing them (the same object in two places) makes a grammar
smaller.

    literal(b"ab")        exactly these bytes
    byte_class(mask)      one byte whose bit is set in `mask`, an int of 256 bits
    concat(a, b)          a, then b
    union(a, b)           a or b; union() matches nothing
    both(a, b)            whatever both a and b match
    complement(a)         every byte string that a does not match
    repeat(a, low, high)  a, `low` to `high` times; high None means no upper bound
    guard(a, b)           a, unless the text from the same position on has a prefix in b, which may
                          extend past the end of a: `(?!b)a`
    automaton(...)        a deterministic automaton, state 0 first

All of them work on bytes: `engine_sampler.grammar.program.unicode` builds expressions for characters.
"""

from __future__ import annotations

import functools
import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from ...base.cached import cached_property
from ..errors import GrammarError
from ..work import spend_on_each

Expression: TypeAlias = tuple[Any, ...]

LITERAL, CLASS, CONCAT, UNION, BOTH, NOT, REPEAT, GUARD, AUTOMATON = range(9)

ALL_BYTES = (1 << 256) - 1
EMPTY: Expression = (UNION, ())
EPSILON: Expression = (LITERAL, b"")
ANY_BYTE: Expression = (CLASS, ALL_BYTES)
ANYTHING: Expression = (REPEAT, ANY_BYTE, 0, None)


_MANY = 64
"""The number of parts from which on each is counted."""


def literal(data: bytes) -> Expression:
    """Exactly `data`."""
    return (LITERAL, data) if data else EPSILON


def byte_class(mask: int) -> Expression:
    """One byte b with bit b of `mask` set."""
    if mask & (mask - 1):
        return (CLASS, mask)
    return (LITERAL, bytes((mask.bit_length() - 1,))) if mask else EMPTY


def byte_range(low: int, high: int) -> Expression:
    """One byte of low..high."""
    return byte_class((1 << high + 1) - (1 << low))


def concat(*parts: Expression) -> Expression:
    """One part after the other; adjacent literals are merged."""
    flat: list[Expression] = []
    texts: list[bytes] = []  # of the literals that are not in `flat` yet
    for part in parts if len(parts) < _MANY else spend_on_each(parts):
        for piece in part[1] if part[0] == CONCAT else (part,):
            if piece[0] == LITERAL:
                if piece[1]:
                    texts.append(piece[1])
                continue
            if piece == EMPTY:
                return EMPTY
            if texts:
                flat.append(literal(b"".join(texts)))
                texts.clear()
            flat.append(piece)
    if texts:
        flat.append(literal(b"".join(texts)))
    if not flat:
        return EPSILON
    return flat[0] if len(flat) == 1 else (CONCAT, tuple(flat))


def union(*parts: Expression) -> Expression:
    """Any of the parts; single bytes among them are merged into one class."""
    flat: list[Expression] = []
    texts: set[bytes] = set()
    others: set[Expression] = set()  # in `flat`, once these are many
    mask = 0
    for part in parts if len(parts) < _MANY else spend_on_each(parts):
        for piece in part[1] if part[0] == UNION else (part,):
            if piece[0] == CLASS:
                mask |= piece[1]
            elif piece[0] == LITERAL and len(piece[1]) == 1:
                mask |= 1 << piece[1][0]
            elif piece[0] == LITERAL:
                if piece[1] not in texts:
                    texts.add(piece[1])
                    flat.append(piece)
            elif len(flat) < _MANY:
                if piece not in flat:
                    flat.append(piece)
            elif piece not in (others := others or set(flat)):
                others.add(piece)
                flat.append(piece)
    if mask:
        flat.append(byte_class(mask))
    return flat[0] if len(flat) == 1 else (UNION, tuple(flat))


def both(*parts: Expression) -> Expression:
    """Whatever every part matches."""
    flat = [piece for part in parts for piece in (part[1] if part[0] == BOTH else (part,))]
    flat = [piece for piece in dict.fromkeys(flat) if piece != ANYTHING]
    if EMPTY in flat:
        return EMPTY
    if not flat:
        return ANYTHING
    return flat[0] if len(flat) == 1 else (BOTH, tuple(flat))


def complement(part: Expression) -> Expression:
    """Every byte string that `part` does not match."""
    if part == EMPTY:
        return ANYTHING
    if part == ANYTHING:
        return EMPTY
    return part[1] if part[0] == NOT else (NOT, part)


def without(part: Expression, other: Expression) -> Expression:
    """Whatever `part` matches and `other` does not."""
    return both(part, complement(other))


def repeat(part: Expression, low: int = 0, high: int | None = None) -> Expression:
    """`part`, low to high times; high None means no upper bound."""
    if high is not None and low > high:
        return EMPTY
    if high == 0 or part == EPSILON:
        return EPSILON
    if part == EMPTY:
        return EMPTY if low else EPSILON
    return part if low == high == 1 else (REPEAT, part, low, high)


def optional(part: Expression) -> Expression:
    """`part`, or nothing."""
    return repeat(part, 0, 1)


def guard(part: Expression, forbidden: Expression) -> Expression:
    """`part`, unless a prefix of the text from its first byte on is in `forbidden`: `(?!forbidden)part`.

    That text extends past the end of `part`: `guard(EPSILON, x)` matches the empty text wherever no x
    follows. When a whole text is matched, nothing follows its end.
    """
    if forbidden == EMPTY or part == EMPTY:
        return part
    return (GUARD, part, forbidden)


def automaton(states: tuple[tuple[bool, tuple[tuple[int, int, int], ...]], ...]) -> Expression:
    """A deterministic automaton. A state is (accepts, ((low byte, high byte, target), ...)); 0 is first."""
    return (AUTOMATON, states)


def nullable(part: Expression) -> bool:
    """Whether `part` matches the empty string, given that nothing forbidden follows."""
    kind = part[0]
    if kind == LITERAL:
        return not part[1]
    if kind in (CONCAT, BOTH):
        return all(map(nullable, part[1]))
    if kind == UNION:
        return any(map(nullable, part[1]))
    if kind == NOT:
        return not nullable(part[1])
    if kind == REPEAT:
        return part[2] == 0 or nullable(part[1])
    if kind == GUARD:
        return nullable(part[1])
    return bool(part[1][0][0]) if kind == AUTOMATON else False


def looks_ahead(part: Expression) -> bool:
    """Whether `part` contains a guard."""
    kind, *members = part
    if kind in (CONCAT, UNION, BOTH):
        return any(map(looks_ahead, members[0]))
    return kind == GUARD or (kind in (NOT, REPEAT) and looks_ahead(members[0]))


@functools.lru_cache(maxsize=4096)
def _class_code(members: int) -> tuple[int, ...]:
    return (CLASS, *struct.unpack("<8i", members.to_bytes(32, "little")))


def packed(numbers: Sequence[int]) -> bytes:
    """Some numbers as an array of 32-bit integers, several times as fast as `array` itself makes it."""
    return struct.pack(f"{len(numbers)}i", *numbers)


@dataclass(frozen=True)
class _Nodes:
    """Nodes that several encoders begin with: their code, how many there are, and the expressions in them."""

    code: bytes = b""
    count: int = 0
    seen: dict[int, int] = field(default_factory=dict)
    equal: dict[Expression, int] = field(default_factory=dict)
    kept: tuple[Expression, ...] = ()


_NO_NODES = _Nodes()


class Encoder:
    """Expressions as one list of 32-bit integers; children precede their parents, shared ones occur once.

    A node is its kind followed by its operands. Children are given by number; the first node is 0.

        LITERAL    length, then each byte
        CLASS      8 words of 32 bits, the lowest bytes first
        CONCAT, UNION, BOTH    count, then the children
        NOT        child
        REPEAT     child, low, high (-1: no upper bound)
        GUARD      child, forbidden
        AUTOMATON  number of states, then for each: accepts, number of ranges, then low, high, target of each
    """

    def __init__(self) -> None:
        self.code: list[int] = []
        """The code of the nodes that were added to this encoder, and not to one that it is a copy of."""
        self.count = 0
        self._seen: dict[int, int] = {}
        self._equal: dict[Expression, int] = {}
        self._kept: list[Expression] = []  # alive, so that none of their ids is reused
        self._begin_with(_NO_NODES)
        self._copied = _NO_NODES

    def _begin_with(self, nodes: _Nodes) -> None:
        self._before, self.count = nodes, nodes.count
        self._seen_before, self._equal_before = nodes.seen, nodes.equal

    def copy(self) -> Encoder:
        """An encoder that has the same nodes so far. Copies share them."""
        if self._copied.count != self.count:
            seen, equal = self._before.seen | self._seen, self._before.equal | self._equal
            kept = (*self._before.kept, *self._kept)
            self._copied = _Nodes(self.packed().tobytes(), self.count, seen, equal, kept)
        other = Encoder()
        other._begin_with(self._copied)
        return other

    def packed(self) -> array[int]:
        """The code of all nodes."""
        return array("i", self._before.code + packed(self.code))

    def prepare(self, part: Expression) -> None:
        """Add `part`, a `Frequent` one with nodes that it shares with others, so that copies find it."""
        self._seen[id(part)] = self.add(tuple(part))
        self._kept.append(part)

    def add(self, part: Expression) -> int:
        """The number of the node of `part`; if it is new, its code and that of its children are appended."""
        if part[0] == LITERAL:  # most are: they are known by their own text
            number = self._equal.get(part)
            if number is None:
                number = self._equal_before.get(part)
            if number is None:
                number = self._equal[part] = self.count
                self.code.extend((LITERAL, len(part[1]), *part[1]))
                self.count = number + 1
            return number
        number = self._seen.get(id(part))
        if number is None:
            number = self._seen_before.get(id(part))
        if number is not None:
            return number
        if type(part) is Frequent:
            number = self._append_all(part)
        else:
            code = self._code_of(part)
            number = self._equal.get(code)
            if number is None:
                number = self._equal_before.get(code)
            if number is None:
                number = self._equal[code] = self.count
                self.code.extend(code)
                self.count = number + 1
        self._seen[id(part)] = number
        self._kept.append(part)
        return number

    def _code_of(self, part: Expression) -> tuple[int, ...]:
        """The code of anything but a literal."""
        kind, operand = part[0], part[1]
        if kind == CLASS:
            return _class_code(operand)
        if kind in (CONCAT, UNION, BOTH):
            members = operand if len(operand) < _MANY else spend_on_each(operand)
            return (kind, len(operand), *map(self.add, members))
        if kind == REPEAT:
            return (kind, self.add(operand), part[2], -1 if part[3] is None else part[3])
        if kind in (NOT, GUARD):
            return (kind, *map(self.add, part[1:]))
        code = [kind, len(operand)]
        for accepts, ranges in spend_on_each(operand, 3):
            code += (int(accepts), len(ranges), *chain.from_iterable(ranges))
        return tuple(code)

    def _append_all(self, part: Frequent) -> int:
        """Append what `part` was encoded to once, with the numbers of its nodes moved."""
        encoded, references = part.encoded
        code, before = encoded.code[:], self.count
        for at in references:
            code[at] += before
        self.code += code
        self.count += encoded.count
        return self.count - 1


class Frequent(tuple[Any, ...]):
    """An expression that many grammars contain: it is encoded once, and encoders copy the result."""

    def __repr__(self) -> str:
        from .notation import expression_text  # which imports this module

        return f"<Frequent {expression_text(self)}>"

    @cached_property
    def encoded(self) -> tuple[Encoder, list[int]]:
        """Its nodes, and where their code has the number of a node."""
        encoder = Encoder()
        encoder.add(tuple(self))
        return encoder, _references(encoder.code)


def _references(code: Sequence[int]) -> list[int]:
    """The places of `code` that have the number of a node."""
    references: list[int] = []
    for node in nodes_of(code):
        first = node.begin + (2 if node.kind in (CONCAT, UNION, BOTH) else 1)
        references += range(first, first + len(node.parts))
    return references


class CodeNode(NamedTuple):
    """An expression as an `Encoder` writes it.

    begin, end   where its code begins and ends
    value        of a literal its bytes, of a class its mask, of an automaton its states, of a repetition its
                 bounds
    parts        the numbers of the nodes that it consists of
    """

    begin: int
    end: int
    kind: int
    value: Any
    parts: tuple[int, ...]


def nodes_of(code: Sequence[int]) -> Iterator[CodeNode]:
    """The nodes of an `Encoder`, in order. Raises GrammarError for code that none has written."""
    at = 0
    while at < len(code):
        begin, kind = at, code[at]
        value: Any = None
        parts: tuple[int, ...] = ()
        at += 1
        if kind == CLASS:
            value = sum((word & 0xFFFFFFFF) << 32 * i for i, word in enumerate(code[at : at + 8]))
            at += 8
        elif kind == LITERAL:
            at += 1 + code[at]
            value = bytes([*code[begin + 2 : at]])
        elif kind in (CONCAT, UNION, BOTH):
            at += 1 + code[at]
            parts = tuple(code[begin + 2 : at])
        elif kind in (NOT, GUARD, REPEAT):
            at += 2 if kind == GUARD else 1
            parts = tuple(code[begin + 1 : at])
            if kind == REPEAT:
                low, high = code[at : at + 2]
                value, at = (low, None if high < 0 else high), at + 2
        elif kind == AUTOMATON:
            value, at = _states_at(code, at)
        else:
            raise GrammarError(f"the program has an expression of unknown kind {kind}")
        yield CodeNode(begin, at, kind, value, parts)


def _states_at(code: Sequence[int], at: int) -> tuple[tuple[Any, ...], int]:
    """The states of an automaton, as `automaton` takes them, and where their code ends."""
    states = []
    count, at = code[at], at + 1
    for _ in range(count):
        accepts, ranges = code[at : at + 2]
        begin, at = at + 2, at + 2 + 3 * ranges
        states.append((bool(accepts), tuple(tuple(code[i : i + 3]) for i in range(begin, at, 3))))
    return tuple(states), at
