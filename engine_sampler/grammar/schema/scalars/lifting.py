"""Convert expressions of strings, in UTF-8, to expressions of their JSON bodies (see `texts`).

JSON encodes a string character by character, so an expression is lifted piece by piece: a character
becomes the union of its spellings, and `concat`, `union`, `both`, `repeat` and `complement` are unchanged.
A lifted complement is exact only among the bodies that lifting produces: `Lifted.base` is the set of these
bodies, and the result is intersected with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ...errors import GrammarLimitError
from ...program.expression import (
    ALL_BYTES,
    ANYTHING,
    BOTH,
    CLASS,
    CONCAT,
    GUARD,
    LITERAL,
    NOT,
    REPEAT,
    UNION,
    Expression,
    automaton,
    both,
    byte_class,
    complement,
    concat,
    guard,
    literal,
    repeat,
    union,
)
from ...program.unicode import Ranges, ranges
from ...work import spend, spend_on_each
from .texts import PLAIN_BODY, RAW_BODY, ascii_class, body_of, escaped, is_plain, spellings

_ASCII = (1 << 0x80) - 1
_CONTINUING = (1 << 0xC0) - (1 << 0x80)
_LEADS = ((1, 0xC0, 0xC2, 0xDF), (2, 0xE0, 0xE0, 0xEF), (3, 0xF0, 0xF0, 0xF4))
_MAX_STATES = 20_000


class Lifted(NamedTuple):
    """A set of strings as bodies; all are in `base`, and no other body of one of the strings is in `base`."""

    body: Expression
    base: Expression


def lifted(expression: Expression) -> Lifted:
    """The bodies of the strings, in valid UTF-8, that `expression` matches."""
    lifter = _Lifter()
    body = lifter.lift(expression)
    base = RAW_BODY if lifter.raw else PLAIN_BODY
    return Lifted(both(body, base) if lifter.raw or lifter.open else body, base)


class _Lifter:
    """Lifts one expression.

    open  the result may match byte strings that are not bodies
    raw   the escapes of some characters beyond ASCII may be missing
    """

    def __init__(self) -> None:
        self.open = False
        self.raw = False
        self._lifted: dict[int, Expression] = {}

    def lift(self, part: Expression) -> Expression:
        found = self._lifted.get(id(part))
        if found is None:
            found = self._lifted[id(part)] = self._lift(part)
        return found

    def _lift(self, part: Expression) -> Expression:
        kind = part[0]
        if kind == LITERAL:
            return self._sequence((part,))
        if kind == CLASS:
            beyond = part[1] & ~_ASCII
            self.raw = self.raw or bool(beyond)
            return (
                union(ascii_class(part[1] & _ASCII), byte_class(beyond)) if beyond else ascii_class(part[1])
            )
        if kind == CONCAT:
            return self._sequence(part[1])
        if kind == UNION:
            return self._union(part[1])
        if kind == BOTH:
            return both(*map(self.lift, part[1]))
        if kind == NOT:
            self.open = True
            return complement(self.lift(part[1]))
        if kind == REPEAT:
            if part == ANYTHING:
                self.open = True
                return part
            return repeat(self.lift(part[1]), part[2], part[3])
        if kind == GUARD:
            return guard(self.lift(part[1]), self.lift(part[2]))
        self.raw = True
        return respelled(part[1], _in_json)

    def _sequence(self, parts: tuple[Expression, ...]) -> Expression:
        pieces: list[Expression] = []
        for part in spend_on_each(parts):
            if part[0] == LITERAL and not part[1].isascii():
                pieces += [literal(part[1][i : i + 1]) for i in range(len(part[1]))]
            else:
                pieces.append(part)
        result: list[Expression] = []
        at = 0
        while at < len(pieces):
            found = character_at(pieces, at)
            if found is not None:
                end, codes = found
                result.append(_with_escapes(concat(*pieces[at:end]), codes))
                at = end
            else:
                piece = pieces[at]
                result.append(
                    body_of(piece[1].decode("ascii")) if _is_ascii(piece) else self.lift_piece(piece)
                )
                at += 1
        return concat(*result)

    def lift_piece(self, piece: Expression) -> Expression:
        """A piece of a sequence that is not a whole character: a single byte beyond ASCII is unchanged."""
        if piece[0] == LITERAL:
            self.raw = True
            return piece
        return self.lift(piece)

    def _union(self, pieces: tuple[Expression, ...]) -> Expression:
        """Merge single characters among the alternatives into one set, which keeps escapes few."""
        codes: list[tuple[int, int]] = []
        ways: list[Expression] = []
        for piece in spend_on_each(pieces, 2):
            parts = piece[1] if piece[0] == CONCAT else (piece,)
            found = character_at(parts, 0)
            if found is None or found[0] < len(parts):
                ways.append(self.lift(piece))
            else:
                codes += found[1]
                ways.append(piece)
        for low, high in ranges(codes):
            ways += escaped(low, high)
        return union(*ways)


def _is_ascii(piece: Expression) -> bool:
    return piece[0] == LITERAL and piece[1].isascii()


def _with_escapes(raw: Expression, codes: Ranges) -> Expression:
    return union(raw, *(way for low, high in codes for way in escaped(low, high)))


def _mask(piece: Expression) -> int:
    """The mask of the bytes that a single-byte piece can be; 0 for other pieces."""
    if piece[0] == CLASS:
        return int(piece[1])
    return 1 << piece[1][0] if piece[0] == LITERAL and len(piece[1]) == 1 else 0


def character_at(pieces: tuple[Expression, ...] | list[Expression], at: int) -> tuple[int, Ranges] | None:
    """The end of the character that begins with piece `at`, and the set of its code points.

    None if no whole character begins there.
    """
    lead = _mask(pieces[at])
    if lead:
        spend(20)
    for count, zero, low, high in _LEADS:
        if lead and not lead & ~((1 << high + 1) - (1 << low)) & ALL_BYTES:
            for end in range(at + 2, min(at + 1 + count, len(pieces)) + 1):
                found = _offsets(tuple(pieces[at + 1 : end]))
                if found is None:
                    return None
                if found[0] == count:
                    return end, _prefixed(lead >> zero, found[1], 64**count)
    return None


def _offsets(parts: tuple[Expression, ...]) -> tuple[int, Ranges] | None:
    """The number of continuation bytes in the parts, and the numbers they encode.

    None if the parts are anything but a fixed number of continuation bytes.
    """
    if not parts:
        return 0, ((0, 0),)
    head, tail = parts[0], parts[1:]
    if head[0] == CONCAT:
        return _offsets((*head[1], *tail))
    if head[0] == LITERAL and len(head[1]) > 1:
        return _offsets((*(literal(head[1][i : i + 1]) for i in range(len(head[1]))), *tail))
    if head[0] == UNION:
        found = [_offsets((piece, *tail)) for piece in head[1]]
        lengths = {one[0] for one in found if one is not None}
        if None in found or len(lengths) != 1:
            return None
        return lengths.pop(), ranges(code for one in found if one is not None for code in one[1])
    mask = _mask(head)
    after = _offsets(tail) if mask and not mask & ~_CONTINUING else None
    return None if after is None else (after[0] + 1, _prefixed(mask >> 0x80, after[1], 64 ** after[0]))


def _prefixed(mask: int, codes: Ranges, size: int) -> Ranges:
    """`codes`, all below `size`, after each of the digits of `mask`."""
    if codes == ((0, size - 1),):
        runs = ranges((digit, digit) for digit in range(mask.bit_length()) if mask >> digit & 1)
        return tuple((low * size, (high + 1) * size - 1) for low, high in runs)
    digits = [digit for digit in range(mask.bit_length()) if mask >> digit & 1]
    return ranges((digit * size + low, digit * size + high) for digit in digits for low, high in codes)


def _in_json(byte: int) -> Sequence[bytes]:
    return (bytes((byte,)),) if byte >= 0x80 or is_plain(byte) else spellings(byte)


def respelled(
    states: Iterable[tuple[bool, Sequence[tuple[int, int, int]]]], spelled: Callable[[int], Sequence[bytes]]
) -> Expression:
    """An `automaton` in which ASCII characters are spelled in other ways, with additional states for these.

    spelled  the ways to write a byte, none of which begins another of the same state
    """
    states = list(states)
    targets: list[dict[int, int]] = [{} for _ in states]
    wide: list[list[tuple[int, int, int]]] = [[] for _ in states]
    for start, (_, edges) in enumerate(spend_on_each(states, 10)):
        for low, high, end in edges:
            if low >= 0x80:
                wide[start].append((low, high, end))
                continue
            spend(high - low)
            for byte in range(low, high + 1):
                for data in spelled(byte):
                    _add_path(targets, start, data, end)
    wide += [[] for _ in range(len(targets) - len(states))]
    result = []
    for number, (single, ranged) in enumerate(zip(spend_on_each(targets, 20), wide, strict=True)):
        edges = tuple(sorted([*ranged, *_joined(single)]))
        result.append((number < len(states) and bool(states[number][0]), edges))
    return automaton(tuple(result))


def _add_path(targets: list[dict[int, int]], start: int, data: bytes, end: int) -> None:
    for byte in data[:-1]:
        if byte not in targets[start]:
            targets[start][byte] = len(targets)
            targets.append({})
            if len(targets) > _MAX_STATES:
                raise GrammarLimitError(f"a pattern needs more than {_MAX_STATES} states")
        start = targets[start][byte]
    targets[start][data[-1]] = end


def _joined(targets: dict[int, int]) -> list[tuple[int, int, int]]:
    result: list[tuple[int, int, int]] = []
    for byte in sorted(targets):
        if result and result[-1][1] == byte - 1 and result[-1][2] == targets[byte]:
            result[-1] = result[-1][0], byte, targets[byte]
        else:
            result.append((byte, byte, targets[byte]))
    return result
