"""Expressions in the notation of regular expressions, for people.

    expression_text(concat(literal(b'"'), repeat(byte_range(97, 122)), literal(b'"')))    '"[a-z]*"'

`&` is an intersection, `~` a complement, `(?!b)a` a guard; an automaton is shown by its number of states.
What is long ends in "…", as do alternatives that begin with a byte of a longer UTF-8 character if there are
many: the text is for reading, not for parsing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .expression import ALL_BYTES, AUTOMATON, BOTH, CLASS, CONCAT, GUARD, LITERAL, NOT, REPEAT, UNION

MAX_PARTS = 12
"""The parts of a sequence, and the members of a union, that are shown."""

MAX_DEPTH = 12
"""The nesting depth that is shown."""

MAX_CHARACTERS = 160
"""The characters after which nothing is added."""

FEW = 3
"""As many alternatives beyond ASCII are shown."""

_ELLIPSIS = "…"
_SPECIAL = frozenset(r"\.[](){}*+?|&~^$")
_IN_CLASS = frozenset(r"\[]^-")
_ESCAPES = {0x0A: r"\n", 0x0D: r"\r", 0x09: r"\t"}
_UNION, _BOTH, _SEQUENCE, _UNARY, _SINGLE = range(5)
"""How tightly the parts of a text are bound."""


def expression_text(part: Any, node_of: Callable[[Any], Any] = lambda part: part) -> str:
    """An expression as text.

    part     an expression of a program, or whatever `node_of` returns the node of: kind, then operands. A
             sequence is a tuple of parts, or a head and a tail
    """
    return _Writer(node_of).text(part)


class _Writer:
    """Writes one expression, and stops when that is long."""

    def __init__(self, node_of: Callable[[Any], Any]) -> None:
        self._node_of = node_of
        self._room = MAX_CHARACTERS

    def text(self, part: Any, around: int = _UNION, depth: int = 0) -> str:
        """A part within an operation that binds as tightly as `around`."""
        if self._room < 0 or depth > MAX_DEPTH:
            return _ELLIPSIS
        text, binding = self._bound(self._node_of(part), depth + 1)
        return f"({text})" if binding < around else text

    def _bound(self, node: Any, depth: int) -> tuple[str, int]:
        """The text of a node, and how tightly it is bound."""
        kind = node[0]
        if kind in (LITERAL, CLASS):
            text = literal_text(node[1]) if kind == LITERAL else class_text(node[1])
            self._room -= len(text)
            return text, _SINGLE if kind == CLASS or len(node[1]) == 1 else _SEQUENCE
        if kind == CONCAT:
            return "".join(self._limited(self._parts(node), _SEQUENCE, depth)), _SEQUENCE
        if kind == UNION:
            return self._union(node[1], depth), _UNION if node[1] else _SINGLE
        if kind == BOTH:
            return "&".join(self._limited(node[1], _BOTH, depth)), _BOTH
        if kind == REPEAT:
            return self.text(node[1], _SINGLE, depth) + _count_text(node[2], node[3]), _UNARY
        if kind == NOT:
            return "~" + self.text(node[1], _SINGLE, depth), _UNARY
        if kind == GUARD:
            ahead = f"(?!{self.text(node[2], _UNION, depth)})"
            return ahead + self.text(node[1], _SEQUENCE, depth), _SEQUENCE
        if kind == AUTOMATON:
            return _automaton_text(node), _SINGLE
        return f"(?={self.text(node[1], _UNION, depth)})", _SINGLE  # the texts that begin so, of a lexer

    def _union(self, members: Sequence[Any], depth: int) -> str:
        """The members, characters of ASCII first; "∅" if there are none."""
        others = [member for member in members if self._is_beyond_ascii(member)]
        shown = [member for member in members if member not in others]
        shown.sort(key=lambda member: self._node_of(member)[0] not in (CLASS, LITERAL))
        texts = list(self._limited(shown + others if len(others) <= FEW else shown, _UNION, depth))
        return "|".join([*texts, *[_ELLIPSIS] * (len(others) > FEW)]) or "∅"

    def _is_beyond_ascii(self, part: Any) -> bool:
        """Whether it begins with the first byte of a longer UTF-8 character."""
        node = self._node_of(part)
        while node[0] == CONCAT:
            node = self._node_of(node[1][0] if len(node) == 2 else node[1])
        if node[0] == CLASS:
            return not node[1] & (1 << 128) - 1
        return node[0] == LITERAL and node[1][:1] >= b"\x80"

    def _limited(self, parts: Sequence[Any], around: int, depth: int) -> Iterator[str]:
        for part in parts[:MAX_PARTS]:
            if self._room < 0:
                break
            yield self.text(part, around, depth)
        if len(parts) > MAX_PARTS or self._room < 0:
            yield _ELLIPSIS

    def _parts(self, node: Any) -> list[Any]:
        """The parts of a sequence, one more than are shown at most."""
        if len(node) == 2:
            return list(node[1])
        parts: list[Any] = []
        while len(parts) < MAX_PARTS:
            parts.append(node[1])
            following = self._node_of(node[2])
            if following[0] != CONCAT:
                break
            node = following
        return [*parts, node[2]]


def _automaton_text(node: Any) -> str:
    if len(node) == 2:
        return f"<automaton of {len(node[1])} states>"
    return f"<automaton {node[1]} in state {node[2]}>"


def _count_text(low: int, high: int | None) -> str:
    if high is None:
        return {0: "*", 1: "+"}.get(low, f"{{{low},}}")
    if (low, high) == (0, 1):
        return "?"
    return f"{{{low}}}" if low == high else f"{{{low},{high}}}"


def literal_text(data: bytes) -> str:
    """Bytes as characters where they are printable UTF-8; those that mean something else are escaped."""
    text = data.decode("utf-8", errors="surrogateescape")
    return "".join(_character(character, _SPECIAL) for character in text)


def _character(character: str, special: frozenset[str]) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code in _ESCAPES:
        return _ESCAPES[code]
    if not character.isprintable():
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"
    return f"\\{character}" if character in special else character


def class_text(members: int) -> str:
    """A set of bytes, given as bits, in brackets; the smaller one of it and its complement."""
    if members == ALL_BYTES:
        return "[any byte]"
    if members.bit_count() > 128:
        return f"[^{_ranges_text(ALL_BYTES & ~members)}]"
    return f"[{_ranges_text(members)}]"


def _ranges_text(members: int) -> str:
    text, byte = "", 0
    while byte < 256:
        end = byte
        while end < 256 and members >> end & 1:
            end += 1
        if end - byte > 2:
            text += f"{_byte_text(byte)}-{_byte_text(end - 1)}"
        elif end > byte:
            text += "".join(map(_byte_text, range(byte, end)))
        byte = max(end, byte + 1)
    return text


def _byte_text(byte: int) -> str:
    return f"\\x{byte:02x}" if byte > 0x7E else _character(chr(byte), _IN_CLASS)
