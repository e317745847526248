"""Whether any string satisfies a formula: the automata of its assertions are read side by side.

An automaton's states are derivatives, which one reading of a schema keeps for all its searches: many of them
ask about the same patterns. Strings that one assertion allows are tried first, then all, the shortest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from ...derivatives.derivatives import Derivatives
from ...derivatives.expressions import EMPTY, Expressions
from ...derivatives.limits import ReadingMeter
from ...derivatives.loading import number_of
from ...derivatives.partitions import meet, representatives
from ...errors import GrammarLimitError
from ...program.expression import Expression
from ...program.unicode import TEXT
from ...work import kept_while_reading, spend
from ..formula import AND, LENGTH, NOT, OR, Formula

_SEARCH_STEPS = 3_000
"""Limit on the derivatives of one search, and on the steps from one state to another."""

_TRIAL_STEPS = 1_000
"""The same for the search for a string that is tried."""

_LOADING_STEPS = 20_000
"""Limit on the expressions of one assertion."""

_MAX_KEPT_STATES = 20_000
"""Derivatives beyond which a reading starts again from scratch."""

_MAX_TRIED_LENGTH = 1_000
"""Maximum length of a string that is tried because some part of a formula allows it, in bytes."""

_CHARACTER = ord("a")

Content: TypeAlias = Callable[[Formula], Expression]
States: TypeAlias = tuple[int, ...]
Truth: TypeAlias = bool | None


def some_string(formula: Formula, content: Content) -> Truth:
    """Whether some string satisfies `formula`; None if the search is cut short.

    content  the strings of an assertion, in UTF-8
    """
    kept = kept_while_reading(_Automata)
    if kept.is_full():
        kept.clear()
    try:
        return _Search(formula, kept, content).finds_any()
    except GrammarLimitError:
        spend(0)  # the limit may be that on reading
        return None


def sampled_truths(atoms: Sequence[Formula], content: Content) -> set[tuple[bool, ...]]:
    """Which of the assertions hold of some strings, for each of these: the shortest of each assertion, all of
    these in a row, and the empty one.

    content  as in `some_string`
    """
    kept = kept_while_reading(_Automata)
    try:
        search = _Search((AND, atoms), kept, content)
        return {search.truths(text) for text in {b"", *search.texts_of(atoms)}}
    except GrammarLimitError:
        spend(0)  # the limit may be that on reading
        return set()


class _Automata:
    """The automata of assertions, in one set of tables; the first is that of any text."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all automata."""
        self.meter = ReadingMeter(_LOADING_STEPS)
        self.expressions = Expressions(self.meter)
        self.derivatives = Derivatives(self.expressions)
        self.shortest: dict[Formula, bytes | None] = {}
        self._starts: dict[Formula, int] = {}
        self.text = self._load(TEXT)

    def is_full(self) -> bool:
        """Whether it is time to forget them."""
        return self.meter.states > _MAX_KEPT_STATES

    def start(self, atom: Formula, content: Content) -> int:
        """The first state of an assertion's automaton."""
        found = self._starts.get(atom)
        if found is None:
            found = self._starts[atom] = self._load(content(atom))
        return found

    def _load(self, expression: Expression) -> int:
        self.meter.left = _LOADING_STEPS
        return number_of(self.expressions, expression, is_counted=True)


class _Search:
    """The search for a string of one formula; its states are those of any text, and of each assertion."""

    def __init__(self, formula: Formula, kept: _Automata, content: Content) -> None:
        self._formula, self._kept, self._content = formula, kept, content
        self._numbers: dict[Formula, int] = {}
        self._tree = self._numbered(formula)
        starts = (kept.start(atom, content) for atom in self._numbers)
        self._start = (kept.text, *starts)

    def _numbered(self, formula: Formula) -> Formula | int:
        """The formula with numbers for assertions."""
        kind = formula[0]
        if kind in (AND, OR):
            return kind, [self._numbered(part) for part in formula[1]]
        if kind == NOT:
            return NOT, self._numbered(formula[1])
        return self._numbers.setdefault(formula, len(self._numbers) + 1)

    def finds_any(self) -> bool:
        """Whether there is a string. Raises GrammarLimitError if that is too much to search."""
        if all(atom[0] == LENGTH for atom in self._numbers):
            return any(map(self._has_length, self._lengths()))
        if any(map(self._accepts, self._candidates())):
            return True
        return self._shortest_text(_SEARCH_STEPS) is not None

    def _lengths(self) -> set[int]:
        """The lengths at which assertions begin, or cease, to hold."""
        bounds = [atom[1:] for atom in self._numbers if atom[0] == LENGTH]
        return {0, *(low for low, _ in bounds), *(high + 1 for _, high in bounds if high is not None)}

    def _has_length(self, length: int) -> bool:
        """Whether strings of a length satisfy the formula, which has assertions about lengths alone."""
        bounds = (atom[1:] for atom in self._numbers)
        values: list[Truth] = [low <= length and (high is None or length <= high) for low, high in bounds]
        return _truth(self._tree, [True, *values]) is True

    def _candidates(self) -> Iterator[bytes]:
        """Strings that are likely to satisfy the formula."""
        for length in self._lengths():
            yield bytes((_CHARACTER,)) * min(length, _MAX_TRIED_LENGTH)
        parts = self._formula[1] if self._formula[0] == AND else ()
        yield from self.texts_of([part for part in parts if part[0] not in (AND, OR, NOT, LENGTH)])

    def texts_of(self, atoms: Sequence[Formula]) -> Iterator[bytes]:
        """The shortest strings of assertions, and all of these in a row."""
        texts = [self._shortest_of(atom) for atom in atoms]
        yield from filter(None, texts)
        if len(texts) > 1:
            yield b"".join(filter(None, texts))

    def truths(self, text: bytes) -> tuple[bool, ...]:
        """Which of the assertions hold of a string, in their order."""
        endings = self._kept.expressions.endings
        return tuple(bool(endings[state]) for state in self._after(text)[1:])

    def _shortest_of(self, atom: Formula) -> bytes | None:
        known = self._kept.shortest
        if atom not in known:
            try:
                known[atom] = _Search(atom, self._kept, self._content)._shortest_text(_TRIAL_STEPS)
            except GrammarLimitError:
                spend(0)
                known[atom] = None
        return known[atom]

    def _accepts(self, text: bytes) -> bool:
        return len(text) <= 8 * _MAX_TRIED_LENGTH and self._is_end(self._after(text))

    def _after(self, text: bytes) -> States:
        derivative = self._kept.derivatives.derivative
        self._kept.meter.left = _SEARCH_STEPS
        spend(1 + len(text) * len(self._start) // 4)
        states = self._start
        for byte in text:
            states = tuple([derivative(state, byte) for state in states])
        return states

    def _is_end(self, states: States) -> bool:
        endings = self._kept.expressions.endings
        values: list[Truth] = [bool(endings[state]) for state in states]
        return bool(values[0] and _truth(self._tree, values))

    def _is_dead(self, states: States) -> bool:
        """Whether no text on from here satisfies the formula, by the assertions that are decided."""
        text = states[0]
        values: list[Truth] = [state == text if state in (EMPTY, text) else None for state in states]
        return text == EMPTY or _truth(self._tree, values) is False

    def _shortest_text(self, limit: int) -> bytes | None:
        """A shortest string of the formula; None if there is none."""
        start = self._start
        self._kept.meter.left = limit
        if self._is_end(start):
            return b""
        came_from: dict[States, tuple[States, int]] = {start: (start, 0)}
        waiting = [start]
        steps = 0
        derivative, partition = self._kept.derivatives.derivative, self._kept.expressions.partition
        for states in waiting:
            bytes_of_classes = representatives(meet(partition[state] for state in states))
            steps += len(bytes_of_classes)
            spend(len(bytes_of_classes) * (2 + len(states) // 4))
            if steps > limit:
                raise GrammarLimitError(f"a string is searched for longer than {limit} steps")
            for byte in bytes_of_classes:
                following = tuple([derivative(state, byte) for state in states])
                if following in came_from:
                    continue
                came_from[following] = states, byte
                if self._is_dead(following):
                    continue
                if self._is_end(following):
                    return self._text(following, came_from)
                waiting.append(following)
        return None

    def _text(self, states: States, came_from: dict[States, tuple[States, int]]) -> bytes:
        text = bytearray()
        while states != self._start:
            states, byte = came_from[states]
            text.append(byte)
        return bytes(reversed(text))


def _truth(part: Formula | int, values: list[Truth]) -> Truth:
    """Whether a numbered formula holds, given which assertions do; None if that does not decide it."""
    if isinstance(part, int):
        return values[part]
    kind, parts = part
    if kind == NOT:
        inner = _truth(parts, values)
        return None if inner is None else not inner
    truth: Truth = kind == AND
    for one in parts:
        value = _truth(one, values)
        if value is (kind == OR):
            return value
        truth = truth if value is not None else None
    return truth
