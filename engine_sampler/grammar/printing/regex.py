"""Expressions over bytes printed as Lark terminals: strings, or regular expressions over characters.

Intersections and complements in quotes, where the closing quote marks the end of the text, become
look-aheads: `"(?!(?:a|b)")[a-z]*"`. Anywhere else they are converted to automata, and automata to
regular expressions by eliminating one state after the other.
"""

from __future__ import annotations

import json

from ..derivatives.derivatives import Derivatives
from ..derivatives.expressions import Expressions
from ..derivatives.limits import Meter
from ..derivatives.loading import Loader
from ..errors import GrammarLimitError
from ..program.expression import (
    AUTOMATON,
    BOTH,
    CLASS,
    CONCAT,
    EMPTY,
    EPSILON,
    GUARD,
    LITERAL,
    NOT,
    REPEAT,
    UNION,
    Encoder,
    Expression,
    byte_class,
    byte_range,
    concat,
    literal,
    nullable,
    optional,
    repeat,
    union,
)
from ..program.unicode import Ranges, ranges
from ..schema.scalars.lifting import character_at

MAX_STATES = 300
"""Maximum number of states of an automaton that is converted to a regular expression."""

MAX_LENGTH = 100_000
"""Maximum length of a regular expression, in characters."""

_NUMERIC = frozenset(b"0123456789+-.eE")
_QUOTE = literal(b'"')


def terminal_text(expression: Expression, name: str) -> str:
    """An expression as a Lark string or regular expression.

    name  the terminal's name, used in errors

    Raises GrammarLimitError if the result would be too long, if the terminal matches anything but whole
    UTF-8 characters, or if it matches the empty text, which Lark does not allow.
    """
    if nullable(expression):
        raise GrammarLimitError(f"the terminal {name} matches the empty text, which Lark does not allow")
    if expression[0] == LITERAL and expression[1].isascii() and expression[1].decode().isprintable():
        return json.dumps(expression[1].decode())
    if name == "NUMBER" and (parts := _numeric_parts(expression)):
        text = _number(parts)
    else:
        text = _quoted(expression) if _is_quoted(expression) else _sequence(_expanded(expression))
    if len(text) > MAX_LENGTH:
        raise GrammarLimitError(f"the terminal {name} is longer than {MAX_LENGTH} characters")
    return f"/{text}/"


def _numeric_parts(expression: Expression) -> tuple[Expression, ...]:
    """What a set of numbers is the intersection of, if an automaton is part of it; else ()."""
    parts = expression[1] if expression[0] == BOTH else (expression,)
    automata = [part for part in parts if part[0] == AUTOMATON]
    return parts if automata and all(_bytes_of(part) <= _NUMERIC for part in automata) else ()


def _number(parts: tuple[Expression, ...]) -> str:
    """The numbers that all parts match; the first alternative that matches need not be the longest."""
    *others, last = (_sequence(_expanded(part)) + "(?![-+.0-9eE])" for part in parts)
    return "".join(f"(?={one})" for one in others) + last


def _bytes_of(expression: Expression) -> set[int]:
    return {byte for _, edges in expression[1] for low, high, _ in edges for byte in range(low, high + 1)}


def _is_quoted(expression: Expression) -> bool:
    if expression[0] != CONCAT or len(expression[1]) != 3:
        return False
    return bool(expression[1][0] == expression[1][2] == _QUOTE)


def _quoted(expression: Expression) -> str:
    return _escaped(0x22) + _before_quote(expression[1][1])


def _before_quote(part: Expression) -> str:
    """A part and the quote after it, at which the matches of all its members end."""
    if part[0] == UNION and any(piece[0] in (BOTH, NOT) for piece in part[1]):
        return "(?:" + "|".join(map(_before_quote, part[1])) + ")"
    if part[0] != BOTH:
        return _sequence(_expanded(part)) + _escaped(0x22)
    positive = [piece for piece in part[1] if piece[0] != NOT]
    negative = [piece[1] for piece in part[1] if piece[0] == NOT]
    lookaheads = [f"(?!{_before_quote(piece)})" for piece in negative]
    lookaheads += [f"(?={_before_quote(piece)})" for piece in positive[1:]]
    return "".join(lookaheads) + _before_quote(positive[0])


def _expanded(part: Expression) -> Expression:
    """The expression without intersections, complements and automata."""
    kind = part[0]
    if kind in (BOTH, NOT):
        return _from_automaton(_deterministic(part))
    if kind == AUTOMATON:
        return _from_automaton(part[1])
    if kind == CONCAT:
        return concat(*map(_expanded, part[1]))
    if kind == UNION:
        return union(*map(_expanded, part[1]))
    if kind == REPEAT:
        return repeat(_expanded(part[1]), part[2], part[3])
    return (GUARD, *map(_expanded, part[1:])) if kind == GUARD else part


States = tuple[tuple[bool, tuple[tuple[int, int, int], ...]], ...]


def _deterministic(part: Expression) -> States:
    """A deterministic automaton for an expression, without dead states."""
    encoder = Encoder()
    root = encoder.add(part)
    expressions = Expressions(Meter())
    derivatives = Derivatives(expressions)
    numbers = {Loader(expressions, encoder.code).numbers[root]: 0}
    states = []
    for state in (queue := list(numbers)):
        targets = derivatives.live_steps(state)
        for target in targets:
            if target not in numbers:
                numbers[target] = len(numbers)
                queue.append(target)
        if len(queue) > MAX_STATES:
            raise GrammarLimitError(f"a terminal needs an automaton of more than {MAX_STATES} states")
        runs = (
            (first, last, numbers[target]) for target, mask in targets.items() for first, last in _runs(mask)
        )
        states.append((expressions.nullable(state), tuple(sorted(runs))))
    return tuple(states)


def _runs(mask: int) -> Ranges:
    return ranges((byte, byte) for byte in range(256) if mask >> byte & 1)


def _from_automaton(states: States) -> Expression:
    """An automaton as a regular expression: its states are eliminated, those of the lowest degree first."""
    if len(states) > MAX_STATES:
        raise GrammarLimitError(f"a terminal needs an automaton of more than {MAX_STATES} states")
    start, end = -1, -2
    transitions: dict[int, dict[int, Expression]] = {start: {0: EPSILON}, end: {}}
    for number, (accepts, edges) in enumerate(states):
        row: dict[int, Expression] = {}
        for low, high, target in edges:
            row[target] = union(row.get(target, EMPTY), byte_range(low, high))
        if accepts:
            row[end] = EPSILON
        transitions[number] = row
    left = set(range(len(states)))
    while left:
        state = min(left, key=lambda one: (_degree(transitions, one), one))
        left.discard(state)
        _remove(transitions, state)
    return transitions[start].get(end, EMPTY)


def _degree(transitions: dict[int, dict[int, Expression]], state: int) -> int:
    return len(transitions[state]) * sum(state in row for row in transitions.values())


def _remove(transitions: dict[int, dict[int, Expression]], state: int) -> None:
    outgoing = transitions.pop(state)
    loop = repeat(outgoing.pop(state, EMPTY))
    for row in transitions.values():
        into = row.pop(state, None)
        if into is None:
            continue
        for target, out in outgoing.items():
            through = concat(into, loop, out)
            direct = row.get(target, EMPTY)
            row[target] = optional(through) if direct == EPSILON else union(through, direct)


def _sequence(part: Expression) -> str:
    """An expression as a regular expression."""
    pieces: list[Expression] = []
    for piece in part[1] if part[0] == CONCAT else (part,):
        if piece[0] == LITERAL and not piece[1].isascii():
            pieces += [literal(piece[1][i : i + 1]) for i in range(len(piece[1]))]
        else:
            pieces.append(piece)
    text = ""
    at = 0
    while at < len(pieces):
        character = character_at(pieces, at)
        if character is None:
            text += _one(pieces[at])
            at += 1
        else:
            text += _class(character[1])
            at = character[0]
    return text


def _one(part: Expression) -> str:
    kind = part[0]
    if kind == LITERAL:
        if not part[1].isascii():
            raise GrammarLimitError("a terminal matches part of a character, which Lark cannot express")
        return "".join(map(_escaped, part[1]))
    if kind == CLASS:
        return _class(_of_bytes(part))
    if kind == UNION:
        return _alternatives(part)
    if kind == REPEAT:
        return _counted(part)
    if kind == GUARD:
        return f"(?!{_sequence(part[2])}){_sequence(part[1])}"
    return _sequence(part)


def _of_bytes(part: Expression) -> Ranges:
    if part[1] >> 0x80:
        raise GrammarLimitError("a terminal matches part of a character, which Lark cannot express")
    return _runs(part[1])


def _alternatives(part: Expression) -> str:
    """The alternatives; single characters are merged into one class, placed after the longer alternatives."""
    codes: list[tuple[int, int]] = []
    longer = []
    for piece in part[1]:
        pieces = piece[1] if piece[0] == CONCAT else (piece,)
        found = character_at(pieces, 0)
        if found is not None and found[0] == len(pieces):
            codes += found[1]
        elif piece[0] == CLASS or (piece[0] == LITERAL and len(piece[1]) == 1):
            codes += _of_bytes(byte_class(piece[1]) if piece[0] == CLASS else (CLASS, 1 << piece[1][0]))
        else:
            longer.append(_sequence(piece))
    if codes:
        longer.append(_class(ranges(codes)))
    return longer[0] if codes and len(longer) == 1 else "(?:" + "|".join(longer) + ")"


def _counted(part: Expression) -> str:
    _, inner, low, high = part
    text = _sequence(inner)
    single = len(text) == 1 or (text[0] == "[" and text.find("]") == len(text) - 1)
    text = text if single else f"(?:{text})"
    if (low, high) in _SIGNS:
        return text + _SIGNS[low, high]
    return text + (f"{{{low}}}" if low == high else f"{{{low},{'' if high is None else high}}}")


_SIGNS = {(0, None): "*", (1, None): "+", (0, 1): "?"}


def _class(codes: Ranges) -> str:
    if len(codes) == 1 and codes[0][0] == codes[0][1]:
        return _escaped(codes[0][0])
    parts = [_escaped(low) + ("" if low == high else "-" + _escaped(high)) for low, high in codes]
    return "[" + "".join(parts) + "]"


def _escaped(code: int) -> str:
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    if code > 0xFF:
        return f"\\u{code:04x}"
    character = chr(code)
    if not 0x20 < code < 0x7F:
        return f"\\x{code:02x}"
    if character in "\"'":  # lark removes a backslash before a quote, even an escaped backslash
        return f"\\x{code:02x}"
    return character if character.isalnum() or character in "_,:;=<>!%@`~" else "\\" + character
