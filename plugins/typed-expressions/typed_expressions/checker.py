"""The type checker: it reads a program byte by byte, and refuses a byte after which no ending is well typed.

A checker is a value: reading a byte returns a new one. So a matcher keeps one for each token, and rolls back
by dropping the last ones. A lexeme is checked when it is complete; until then, it must be able to become one
that fits. Every type has a literal, so an expression of any required type can be written: no other look-ahead
is needed to decide whether the program can still be completed.
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
"""The lexemes that represent any number and any text: their values do not matter."""


class Frame(NamedTuple):
    """The context of an expression, to which the reading returns after its end.

    kind      "program", "paren", "bound", "cond", "then", "open" (the last part of a let or an if)
    outside   the expression around it
    binding   for "bound": the name and its type
    """

    kind: str
    outside: Expression
    binding: tuple[str, str] = ("", "")


class Expression(NamedTuple):
    """An expression that has been read in part.

    expected  the types that it may have
    left      the type on the left of its comparison, "" before that
    sum       the type of the sum that is being read, "" before its first operand
    ready     whether an operand has just been read
    scope     the names in scope with their types, the innermost last
    frame     its context; None only for the program
    """

    expected: Types
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
        return TYPES if "bool" in self.expected else self.expected  # operands of any type can be compared

    def type_of(self, name: str) -> str | None:
        """The type of a name."""
        return next((kind for known, kind in reversed(self.scope) if known == name), None)

    def inner(self, kind: str, expected: Types, binding: tuple[str, str] = ("", "")) -> Expression:
        """A new expression within this one."""
        return Expression(expected, self.scope, Frame(kind, self, binding))


class LetHead(NamedTuple):
    """The head of a let, `let NAME : TYPE =`, as far as it has been read."""

    outside: Expression
    name: str = ""
    colon: bool = False
    type: str = ""


State: TypeAlias = "Expression | LetHead"


def after(state: State, lexeme: str) -> State | None:
    """The state after a lexeme, None if it does not fit. A number is NUMBER, a text TEXT."""
    if isinstance(state, LetHead):
        return _after_binding(state, lexeme)
    return _after_operand(state, lexeme) if state.ready else _operand(state, lexeme)


def _after_binding(state: LetHead, lexeme: str) -> State | None:
    outside, name, colon, kind = state
    if not name:
        is_name = lexeme.isalpha() and lexeme not in KEYWORDS
        return state._replace(name=lexeme) if is_name else None
    if not colon:
        return state._replace(colon=True) if lexeme == ":" else None
    if not kind:
        return state._replace(type=lexeme) if lexeme in TYPES else None
    return outside.inner("bound", frozenset((kind,)), (name, kind)) if lexeme == "=" else None


def _operand(state: Expression, lexeme: str) -> State | None:
    """The state after a lexeme that begins an operand; or a let or an if, where an expression begins."""
    begins = not state.sum and not state.left
    if lexeme == "(":
        return state.inner("paren", state.operands)
    if lexeme == "let" and begins:
        return LetHead(state)
    if lexeme == "if" and begins:
        return state.inner("cond", frozenset(("bool",)))
    literals = {NUMBER: "int", TEXT: "str", "true": "bool", "false": "bool"}
    return _with_operand(state, literals.get(lexeme) or state.type_of(lexeme))


def _with_operand(state: Expression, kind: str | None) -> Expression | None:
    return state._replace(sum=kind, ready=True) if kind and kind in state.operands else None


def _after_operand(state: Expression, lexeme: str) -> State | None:
    """The state after an operator, or after a lexeme that ends an expression."""
    if lexeme == "+":
        return state._replace(ready=False) if state.sum != "bool" else None
    if lexeme in ("<", "=="):
        fits = not state.left and "bool" in state.expected and (lexeme == "==" or state.sum == "int")
        return state._replace(left=state.sum, sum="", ready=False) if fits else None
    kind, frame = finished(state)
    if frame is None or kind is None:
        return None
    outside = frame.outside
    if lexeme == ")" and frame.kind == "paren":
        return _with_operand(outside, kind)
    if lexeme == "then" and frame.kind == "cond":
        return outside.inner("then", outside.expected)
    if lexeme == "else" and frame.kind == "then":
        return outside.inner("open", frozenset((kind,)))
    if lexeme == "in" and frame.kind == "bound":
        inner = outside.inner("open", outside.expected)
        return inner._replace(scope=(*inner.scope, frame.binding))
    return None


def finished(state: Expression) -> tuple[str | None, Frame | None]:
    """The type of an expression that ends here, None if it cannot end, and its context. If it is the last
    part of other expressions, these end with it."""
    kind = "bool" if state.left else state.sum
    if not state.ready or kind not in state.expected:
        return None, None
    while state.frame is not None and state.frame.kind == "open":
        state = state.frame.outside
    return kind, state.frame


START = Expression(TYPES)
"""A program of any type."""


@dataclass(frozen=True)
class Checker:
    """A program that has been read in part.

    state    the state after the last complete lexeme
    pending  the part of the next lexeme that has been read; for a text, only its opening quote
    """

    state: State = START
    pending: str = ""

    def read(self, byte: int) -> Checker | None:
        """The checker after one more byte; None if no well-typed program begins like this."""
        if self.pending == '"':
            return self._with(TEXT) if byte == ord('"') else self
        joined = self.pending + chr(byte)
        if self.pending and (
            _kind(byte) == _kind(ord(self.pending[-1])) in ("letter", "digit") or joined == "=="
        ):
            longer = replace(self, pending=joined if byte not in DIGITS else NUMBER)
            return longer if longer._fits() else None
        settled = self._with(self.pending) if self.pending else self
        if settled is None or byte in SPACES:
            return settled
        if chr(byte) in '"=' or _kind(byte):
            begun = replace(settled, pending=NUMBER if byte in DIGITS else chr(byte))
            return begun if begun._fits() else None
        return settled._with(chr(byte))

    def ends(self) -> bool:
        """Whether the program may end here."""
        whole = self._with(self.pending) if self.pending else self
        if whole is None or isinstance(whole.state, LetHead):
            return False
        kind, frame = finished(whole.state)
        return kind is not None and frame is None

    def _with(self, lexeme: str) -> Checker | None:
        """The checker after a complete lexeme."""
        state = after(self.state, lexeme)
        return None if state is None else Checker(state)

    def _fits(self) -> bool:
        """Whether the pending part can become a lexeme that fits."""
        if self.pending == '"':
            return after(self.state, TEXT) is not None
        if not self.pending.isalpha():
            return any(
                after(self.state, lexeme) for lexeme in ("=", "==", NUMBER) if lexeme.startswith(self.pending)
            )
        if isinstance(self.state, LetHead):
            if not self.state.name:
                return True  # every word can become a new name
            known = KEYWORDS
        else:
            known = KEYWORDS.union(name for name, _ in self.state.scope)
        return any(after(self.state, word) for word in known if word.startswith(self.pending))


def _kind(byte: int) -> str:
    return "letter" if byte in LETTERS else "digit" if byte in DIGITS else ""
