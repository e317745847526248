"""The type checker: reads a program byte by byte, and refuses the byte after which no end is well typed.

It is a value: reading gives a new checker, so a matcher keeps one for each token and takes back by
forgetting. A lexeme is checked when it is over; until then what matters is whether it can become one
that fits. Every type has a literal, so whatever is asked for can be written: no other look ahead is
needed for "this can still end well".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

Type: TypeAlias = Literal["int", "str", "bool"]
Types: TypeAlias = frozenset[str]

TYPES: Types = frozenset(("int", "str", "bool"))
KEYWORDS = frozenset(("let", "in", "if", "then", "else", "true", "false", *TYPES))

LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyz")
DIGITS = frozenset(b"0123456789")
SPACES = frozenset(b" \n")

NUMBER, TEXT = "0", '""'
"""What stands for any number and any text: their values do not matter."""


class Frame(NamedTuple):
    """What goes on when an expression is over.

    kind      "program", "paren", "bound", "cond", "then", "open" (the last part of a let or an if)
    outside   the expression around it
    binding   of "bound": the name and its type
    """

    kind: str
    outside: Expression
    binding: tuple[str, str] = ("", "")


class Expression(NamedTuple):
    """How far an expression has been read.

    wanted  the types that it may have
    left    the type on the left of its comparison, "" before that
    sum     the type of the sum that is being read, "" before its first operand
    ready   whether an operand has just been read
    scope   the names that are known, the innermost last
    frame   what comes after it; None only around the program
    """

    wanted: Types
    scope: tuple[tuple[str, str], ...] = ()
    frame: Frame | None = None
    left: str = ""
    sum: str = ""
    ready: bool = False

    @property
    def operands(self) -> Types:
        """The types that the next operand may have."""
        if self.sum or self.left:
            return frozenset((self.sum or self.left,))
        return TYPES if "bool" in self.wanted else self.wanted  # any two can be compared

    def type_of(self, name: str) -> str | None:
        """The type of a name."""
        return next((kind for known, kind in reversed(self.scope) if known == name), None)

    def inner(self, kind: str, wanted: Types, binding: tuple[str, str] = ("", "")) -> Expression:
        """A new expression within this one."""
        return Expression(wanted, self.scope, Frame(kind, self, binding))


class Binding(NamedTuple):
    """The beginning of a let: what has been read of `let NAME : TYPE =`."""

    outside: Expression
    name: str = ""
    colon: bool = False
    type: str = ""


Place: TypeAlias = "Expression | Binding"


def after(place: Place, lexeme: str) -> Place | None:
    """The place behind a lexeme, None if it does not fit. A number is NUMBER, a text TEXT."""
    if isinstance(place, Binding):
        return _after_binding(place, lexeme)
    return _after_operand(place, lexeme) if place.ready else _operand(place, lexeme)


def _after_binding(place: Binding, lexeme: str) -> Place | None:
    outside, name, colon, kind = place
    if not name:
        is_name = lexeme.isalpha() and lexeme not in KEYWORDS
        return place._replace(name=lexeme) if is_name else None
    if not colon:
        return place._replace(colon=True) if lexeme == ":" else None
    if not kind:
        return place._replace(type=lexeme) if lexeme in TYPES else None
    return outside.inner("bound", frozenset((kind,)), (name, kind)) if lexeme == "=" else None


def _operand(place: Expression, lexeme: str) -> Place | None:
    """Behind a lexeme that begins an operand, or a let or an if where an expression begins."""
    begins = not place.sum and not place.left
    if lexeme == "(":
        return place.inner("paren", place.operands)
    if lexeme == "let" and begins:
        return Binding(place)
    if lexeme == "if" and begins:
        return place.inner("cond", frozenset(("bool",)))
    literals = {NUMBER: "int", TEXT: "str", "true": "bool", "false": "bool"}
    return _with_operand(place, literals.get(lexeme) or place.type_of(lexeme))


def _with_operand(place: Expression, kind: str | None) -> Expression | None:
    return place._replace(sum=kind, ready=True) if kind and kind in place.operands else None


def _after_operand(place: Expression, lexeme: str) -> Place | None:
    """Behind an operator, or the lexeme that ends an expression."""
    if lexeme == "+":
        return place._replace(ready=False) if place.sum != "bool" else None
    if lexeme in ("<", "=="):
        fits = not place.left and "bool" in place.wanted and (lexeme == "==" or place.sum == "int")
        return place._replace(left=place.sum, sum="", ready=False) if fits else None
    kind, frame = finished(place)
    if frame is None or kind is None:
        return None
    outside = frame.outside
    if lexeme == ")" and frame.kind == "paren":
        return _with_operand(outside, kind)
    if lexeme == "then" and frame.kind == "cond":
        return outside.inner("then", outside.wanted)
    if lexeme == "else" and frame.kind == "then":
        return outside.inner("open", frozenset((kind,)))
    if lexeme == "in" and frame.kind == "bound":
        inner = outside.inner("open", outside.wanted)
        return inner._replace(scope=(*inner.scope, frame.binding))
    return None


def finished(place: Expression) -> tuple[str | None, Frame | None]:
    """The type of an expression that ends here, None if it cannot, and what it ended in; where it is the
    last part of others, these end with it."""
    kind = "bool" if place.left else place.sum
    if not place.ready or kind not in place.wanted:
        return None, None
    while place.frame is not None and place.frame.kind == "open":
        place = place.frame.outside
    return kind, place.frame


START = Expression(TYPES)
"""A program of any type."""


@dataclass(frozen=True)
class Checker:
    """A program so far.

    place    behind the last whole lexeme
    pending  what has been read of the next one; of texts only that one has begun
    """

    place: Place = START
    pending: str = ""

    def read(self, byte: int) -> Checker | None:
        """The checker behind one more byte; None if no well-typed program begins so."""
        if self.pending == '"':
            return self._with(TEXT) if byte == ord('"') else self
        joined = self.pending + chr(byte)
        if self.pending and (
            _kind(byte) == _kind(ord(self.pending[-1])) in ("letter", "digit") or joined == "=="
        ):
            longer = replace(self, pending=joined if byte not in DIGITS else NUMBER)
            return longer if longer._fits() else None
        rest = self._with(self.pending) if self.pending else self
        if rest is None or byte in SPACES:
            return rest
        if chr(byte) in '"=' or _kind(byte):
            begun = replace(rest, pending=NUMBER if byte in DIGITS else chr(byte))
            return begun if begun._fits() else None
        return rest._with(chr(byte))

    def ends(self) -> bool:
        """Whether the program may end here."""
        whole = self._with(self.pending) if self.pending else self
        if whole is None or isinstance(whole.place, Binding):
            return False
        kind, frame = finished(whole.place)
        return kind is not None and frame is None

    def _with(self, lexeme: str) -> Checker | None:
        """Behind a whole lexeme."""
        place = after(self.place, lexeme)
        return None if place is None else Checker(place)

    def _fits(self) -> bool:
        """Whether what is pending can become a lexeme that fits."""
        if self.pending == '"':
            return after(self.place, TEXT) is not None
        if not self.pending.isalpha():
            return any(
                after(self.place, lexeme) for lexeme in ("=", "==", NUMBER) if lexeme.startswith(self.pending)
            )
        if isinstance(self.place, Binding):
            if not self.place.name:
                return True  # every word is the beginning of a new name
            known = KEYWORDS
        else:
            known = KEYWORDS.union(name for name, _ in self.place.scope)
        return any(after(self.place, word) for word in known if word.startswith(self.pending))


def _kind(byte: int) -> str:
    return "letter" if byte in LETTERS else "digit" if byte in DIGITS else ""
