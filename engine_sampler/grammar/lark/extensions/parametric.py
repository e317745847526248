"""Rules with a parameter, as llguidance has them: a number of 64 bits, p.

    start: perm::0x0                              the rule `perm` with p = 0
    perm::_: ""                     %if is_ones([0:3])
           | "a" perm::set_bit(0)   %if bit_clear(0)
           | "b" perm::set_bit(1)   %if bit_clear(1)

    values       _ (p itself), numbers, set_bit(k), clear_bit(k), bit_and(v), bit_or(v), incr([x:y]),
                 decr([x:y])
    conditions   true, bit_set(k), bit_clear(k), is_ones([x:y]), is_zeros([x:y]), eq ne lt le gt ge([x:y], v),
                 bit_count_eq ... bit_count_ge([x:y], k), and(c, c), or(c, c), not(c)

`[x:y]` are the bits of p from x on, without y; `_` in their place is all of them. `incr` and `decr` stop at
the highest and the lowest number. Each rule is written once for every value that it is used with: lark then
reads plain rules.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ....base.errors import quoted
from ...errors import GrammarError, GrammarLimitError
from ...work import spend, spend_on_each
from ..statements import Scan, Statement, Word

MAX_INSTANCES = 4096
"""The most rules that all rules with a parameter are written as."""

_ALL = (1 << 64) - 1
_MAX_DEPTH = 20
_STEPS_OF_A_WORD = 4
_STEPS_OF_READING = 0.25
"""The steps for a word of a definition."""
_CALLS_OF_A_STEP = 4
"""How many calls of a condition are evaluated in a step."""
_CHARACTERS_OF_A_STEP = 8
"""How many characters of a call are read in a step."""
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20}")
_VALUE = re.compile(r"\s*(?:_(?![a-z0-9_])|0[xX][0-9a-fA-F]+|[0-9]+|[a-z_]+\s*\([^()\n]*\))")
_CALL = re.compile(r"([a-z_]+)(?:\s*\((.*)\))?", re.DOTALL)
_BITS = re.compile(r"\[\s*(\d{1,2})\s*:\s*(\d{1,2})\s*\]")
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}

Value = Callable[[int], int]
Condition = Callable[[int], bool]


class _Use(NamedTuple):
    """A rule with a parameter where it is used."""

    name: Word
    value: Value


class _Alternative(NamedTuple):
    """An alternative of a rule: `steps` are those of finding out whether it holds for a value."""

    parts: list[Word | _Use]
    holds: Condition
    steps: int


def expanded(scan: Scan) -> Scan:
    """The grammar with plain rules in place of those with a parameter; `moved` of the result tells where its
    additional lines come from. Raises GrammarError."""
    return _Expansion(scan).result()


class _Expansion:
    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._rules: dict[str, tuple[Statement, list[_Alternative]]] = {}
        self._taken = {word.text for one in scan.statements for word in one.words if word.kind == "name"}
        self._names: dict[tuple[str, int], str] = {}
        self._waiting: list[tuple[str, int]] = []

    def result(self) -> Scan:
        """See `expanded`."""
        scan, edits = self._scan, list[tuple[int, int, str]]()
        plain = []
        for statement in scan.statements:
            if self._is_parametric(statement):
                self._read(statement)
                start, end = statement.words[0].start, statement.words[-1].end
                edits.append((start, end, re.sub(r"[^\n]", " ", scan.text[start:end])))
            else:
                plain.append(statement)
        for statement in plain:
            for part in self._parts(statement.words):
                if isinstance(part, _Use):
                    end = self._end_of(part.name)
                    edits.append((part.name.start, end, self._name(part, 0)))
        if not edits:
            return scan
        pieces: list[str] = []
        at = 0
        for start, end, text in sorted(edits):
            pieces += scan.text[at:start], text
            at = end
        pieces.append(scan.text[at:])
        return self._with_instances("".join(pieces))

    def _with_instances(self, text: str) -> Scan:
        nothing = self._fresh("NOTHING")
        lines = [text, f"%declare {nothing}"]
        moved: dict[int, tuple[int, int]] = {}
        line = text.count("\n") + 2
        while self._waiting:
            name, value = self._waiting.pop()
            statement, alternatives = self._rules[name]
            bodies = list(self._bodies(alternatives, value))
            written = f"{self._names[name, value]}: {' | '.join(bodies) if bodies else nothing}"
            place = self._scan.location(statement.words[statement.name].start)
            count = written.count("\n") + 1
            moved |= {line + 1 + number: place for number in range(count)}
            line += count
            lines.append(written)
        result = Scan("\n".join(lines))
        result.moved = moved
        return result

    # --- definitions ---------------------------------------------------------------------------------

    @staticmethod
    def _is_parametric(statement: Statement) -> bool:
        words, name = statement.words, statement.name
        return statement.kind == "rule" and [word.text for word in words[name + 1 : name + 5]] == [*"::_:"]

    def _read(self, statement: Statement) -> None:
        """Remember the definition of a rule with a parameter."""
        words, name = statement.words, statement.words[statement.name]
        if name.text in self._rules:
            raise self._scan.error(f"the rule {quoted(name.text)} is defined more than once", name.start)
        if statement.name:
            raise self._scan.error("a rule with a parameter has no modifiers", words[0].start)
        alternatives: list[list[Word]] = [[]]
        depth = 0
        for word in spend_on_each(words[5:], _STEPS_OF_READING):
            depth += (word.kind == "open") - (word.kind == "close")
            if word.text == "|" and not depth:
                alternatives.append([])
            else:
                alternatives[-1].append(word)
        self._rules[name.text] = statement, [self._alternative(one) for one in alternatives]

    def _alternative(self, words: list[Word]) -> _Alternative:
        condition: Condition = _always
        steps = 1
        at = next((i for i, word in enumerate(words) if word.text == "%if"), len(words))
        if at < len(words):
            source = self._scan.text[words[at].end : words[-1].end]
            with self._located(words[at]):
                condition = _condition(source)
            steps += source.count("(") // _CALLS_OF_A_STEP
        return _Alternative(list(self._parts(words[:at])), condition, steps)

    def _parts(self, words: list[Word]) -> Iterator[Word | _Use]:
        """The words, and the uses of rules with a parameter among them."""
        at = 0
        while at < len(words):
            word = words[at]
            at += 1
            if word.kind == "directive" and word.text == "%if":
                raise self._scan.error("%if is only allowed in a rule with a parameter", word.start)
            if word.kind != "name" or [one.text for one in words[at : at + 2]] != [":", ":"]:
                yield word
                continue
            end = self._end_of(word)
            source = self._scan.text[words[at + 1].end : end]
            with self._located(word):
                value = _value(source)
            yield _Use(word, value)
            while at < len(words) and words[at].start < end:
                at += 1

    def _end_of(self, name: Word) -> int:
        """Where the value of a rule that is used ends."""
        at = self._scan.text.index("::", name.end) + 2
        match = _VALUE.match(self._scan.text, at)
        if match is None:
            raise self._scan.error(f"a value must follow {name.text}::", name.start)
        return match.end()

    @contextmanager
    def _located(self, word: Word) -> Iterator[None]:
        try:
            yield
        except GrammarLimitError:
            raise
        except GrammarError as error:
            raise self._scan.error(error.text, word.start) from None

    # --- instances -----------------------------------------------------------------------------------

    def _name(self, use: _Use, parameter: int) -> str:
        """The name of the plain rule for a use where p is `parameter`."""
        name = use.name.text
        if name not in self._rules:
            raise self._scan.error(f"there is no rule {name}::_", use.name.start)
        key = name, use.value(parameter)
        if key not in self._names:
            if len(self._names) == MAX_INSTANCES:
                text = f"the rule {name}: rules are used with more than {MAX_INSTANCES} values"
                raise GrammarLimitError(text, *self._scan.location(use.name.start))
            self._names[key] = self._fresh(f"{name}_{key[1]:x}")
            self._waiting.append(key)
        return self._names[key]

    def _fresh(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def _bodies(self, alternatives: list[_Alternative], value: int) -> Iterator[str]:
        """The alternatives that hold where p is `value`."""
        for one in alternatives:
            spend(one.steps)
            if one.holds(value):
                yield self._body(one, value)

    def _body(self, alternative: _Alternative, value: int) -> str:
        spend(_STEPS_OF_A_WORD * len(alternative.parts))
        text = self._scan.text
        return " ".join(
            self._name(part, value) if isinstance(part, _Use) else text[part.start : part.end]
            for part in alternative.parts
            if isinstance(part, _Use) or part.text != '""'
        )


# --- values and conditions -----------------------------------------------------------------------------


def _always(parameter: int) -> bool:
    return True


def _number(text: str, most: int = _ALL) -> int:
    text = text.strip()
    if not _NUMBER.fullmatch(text) or (value := int(text, 0 if text[:2] in ("0x", "0X") else 10)) > most:
        raise GrammarError(f"{quoted(text)} is not a number from 0 to {most}")
    return value


def _range(text: str) -> tuple[int, int]:
    """The first one of some bits, and a mask of as many."""
    if text.strip() == "_":
        return 0, _ALL
    match = _BITS.fullmatch(text.strip())
    if match is None or not 0 <= int(match[1]) < int(match[2]) <= 64:
        raise GrammarError(f"{quoted(text.strip())} are no bits: _, or [x:y] with 0 <= x < y <= 64")
    first, end = int(match[1]), int(match[2])
    return first, (1 << end - first) - 1


def _value(text: str) -> Value:
    text = text.strip()
    if text == "_":
        return lambda p: p
    if text[:1].isdigit():
        number = _number(text)
        return lambda p: number
    name, arguments = _call(text)
    if len(arguments) != 1:
        raise GrammarError(f"{quoted(text)} is not a value")
    if name in ("set_bit", "clear_bit"):
        bit = 1 << _number(arguments[0], 63)
        return (lambda p: p | bit) if name == "set_bit" else (lambda p: p & ~bit)
    if name in ("bit_and", "bit_or"):
        other = _number(arguments[0])
        return (lambda p: p & other) if name == "bit_and" else (lambda p: p | other)
    if name in ("incr", "decr"):
        first, mask = _range(arguments[0])
        if name == "incr":
            return lambda p: p + (1 << first) if p >> first & mask != mask else p
        return lambda p: p - (1 << first) if p >> first & mask else p
    raise GrammarError(f"there is no function {quoted(name)} of values")


def _condition(text: str, depth: int = 0) -> Condition:
    name, arguments = _call(text)
    if depth > _MAX_DEPTH:
        raise GrammarError(f"a condition is nested more than {_MAX_DEPTH} deep")
    if name == "true" and not arguments:
        return _always
    if name in ("and", "or") and len(arguments) == 2:
        one, other = (_condition(argument, depth + 1) for argument in arguments)
        return (lambda p: one(p) and other(p)) if name == "and" else (lambda p: one(p) or other(p))
    if name == "not" and len(arguments) == 1:
        denied = _condition(arguments[0], depth + 1)
        return lambda p: not denied(p)
    if name in ("bit_set", "bit_clear") and len(arguments) == 1:
        bit = _number(arguments[0], 63)
        return lambda p: bool(p >> bit & 1) == (name == "bit_set")
    if name in ("is_ones", "is_zeros") and len(arguments) == 1:
        first, mask = _range(arguments[0])
        expected = mask if name == "is_ones" else 0
        return lambda p: p >> first & mask == expected
    compare = _COMPARISONS.get(name.removeprefix("bit_count_"))
    if compare is None or len(arguments) != 2:
        raise GrammarError(f"{quoted(text.strip())} is not a condition")
    (first, mask), number = _range(arguments[0]), _number(arguments[1])
    if name.startswith("bit_count_"):
        return lambda p: compare((p >> first & mask).bit_count(), number)
    return lambda p: compare(p >> first & mask, number)


def _call(text: str) -> tuple[str, list[str]]:
    """A name and its arguments."""
    match = _CALL.fullmatch(text.strip())
    if match is None:
        raise GrammarError(f"{quoted(text.strip())} is neither a value nor a condition")
    text, depth, begin = match[2] or "", 0, 0
    spend(1 + len(text) // _CHARACTERS_OF_A_STEP)
    arguments = []
    for at, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if character == "," and not depth:
            arguments.append(text[begin:at])
            begin = at + 1
    return match[1], [*arguments, text[begin:]] if text.strip() else []
