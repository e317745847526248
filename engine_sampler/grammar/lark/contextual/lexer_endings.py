"""The ways in which the terminals of a lexer end, and what may follow them.

A lexer reads the longest match of the first terminal that matches. So what follows must not continue the
match, must be allowed by its look-aheads, and must not let a terminal that is tried earlier match after all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from ...derivatives.expressions import ANYTHING
from ...derivatives.expressions import EMPTY as NOTHING_EXCLUDED
from ...derivatives.partitions import class_of, classes, meet
from ...derivatives.states import State, texts_between
from ...program.byte_sets import any_of, inner_bytes
from ...program.expression import ALL_BYTES, LITERAL, Expression
from ...program.reaching import nodes_reaching
from ...work import spend
from ..dead_ends.terminal_states import MAX_STATES, TerminalStates

MANY_BYTES = 128
"""A terminal with more different bytes, such as a string or a comment, is examined in any case."""

_CACHED = 64


class LexerEntry(NamedTuple):
    """An entry of a lexer.

    symbol  the terminal
    whole   the terminal that it is a keyword of, which may be itself
    kind    see `program.lalr`
    before  the terminals tried earlier that may match the same text, or another with the same beginning
    """

    symbol: int
    whole: int
    kind: int
    before: tuple[int, ...]


class Rivals:
    """Which terminals may match a text of another one, a beginning of it, or one that begins with it.

    symbols  the terminals
    """

    def __init__(self, symbols: Iterable[int], states: TerminalStates) -> None:
        self._states = states
        expressions = {symbol: states.expression(symbol) for symbol in symbols}
        literals = {symbol: one[1] for symbol, one in expressions.items() if one[0] == LITERAL}
        self._others = [(symbol, states.first(symbol)) for symbol in expressions if symbol not in literals]
        self._literals = sorted((text, symbol) for symbol, text in literals.items())
        self._lengths = set(map(len, literals.values()))
        self._known: dict[int, tuple[int, ...]] = {}

    def of(self, symbol: int) -> tuple[int, ...]:
        """The rivals of a terminal, itself among them."""
        if symbol not in self._known:
            self._known[symbol] = tuple(self._find(symbol))
            spend(1 + (len(self._others) + len(self._known[symbol])) // 8)
        return self._known[symbol]

    def _find(self, symbol: int) -> Iterator[int]:
        expression, first = self._states.expression(symbol), self._states.first(symbol)
        yield from (other for other, mask in self._others if mask & first)
        if expression[0] != LITERAL:
            yield from (other for text, other in self._literals if text and first >> text[0] & 1)
            return
        text = expression[1]
        for length in sorted(self._lengths):
            if length < len(text):
                yield from self._beginning(text[:length], whole=True)
        yield from self._beginning(text, whole=False)

    def _beginning(self, text: bytes, whole: bool) -> Iterator[int]:
        """The literals that begin with a text, or are the whole of it."""
        for place in range(bisect_left(self._literals, (text, -1)), len(self._literals)):
            other, symbol = self._literals[place]
            if not (other == text if whole else other.startswith(text)):
                break
            yield symbol


class Way:
    """A way in which an entry ends.

    texts      the texts that end so
    first      the bytes that they begin with, as a mask
    following  bytes that may follow them, in whatever text
    excluded   for each guard under which they end the futures that it excludes, a number of `ExactWays`; none
               for a terminal that is looked at roughly
    number     among the ways of all entries
    """

    number = 0

    def __init__(
        self, texts: Expression, first: int, following: int, excluded: frozenset[int] = frozenset()
    ) -> None:
        self.texts = texts
        self.first = first
        self.following = following
        self.excluded = excluded


_Parts = tuple[int, int, int]
"""What is left of an entry, and of the whole terminal, and the futures in which others match."""


class RoughWays:
    """Each entry has one way to end: what begins with a byte that never continues its terminal may follow it.
    What begins with a byte with which an earlier entry begins is not taken to be read.

    expressions   of the terminals
    """

    def __init__(self, expressions: Sequence[Expression | None]) -> None:
        self._states = TerminalStates(expressions)
        self._following: dict[int, int] = {}
        self._ways: dict[LexerEntry, list[Way]] = {}

    def of(self, entry: LexerEntry) -> list[Way]:
        """The ways in which an entry ends."""
        if entry not in self._ways:
            own = self._states.expression(entry.symbol)
            first = self._states.first(entry.symbol) & ~any_of(
                self._hidden(own, other) for other in entry.before
            )
            self._ways[entry] = [Way(own, first, self._after(entry.whole))]
        return self._ways[entry]

    def examine(self, symbols: Collection[int]) -> None:
        """Examine the states of terminals; of others, the bytes that occur in them may continue them."""
        self._following |= {symbol: ALL_BYTES & ~_continuing(self._states, symbol) for symbol in symbols}
        for entry, ways in self._ways.items():
            ways[0].following = self._after(entry.whole)

    def exact(self, symbols: Collection[int]) -> ExactWays:
        """The ways in which entries end, where these terminals are examined, which may lead nowhere."""
        return ExactWays(self._states, symbols)

    def rivals(self, symbols: Iterable[int]) -> Rivals:
        """Which of these terminals may match in the place of another one."""
        return Rivals(symbols, self._states)

    def _hidden(self, own: Expression, other: int) -> int:
        """The first bytes of texts of which an earlier terminal may match a beginning."""
        text = self._states.expression(other)
        longer = own[0] == text[0] == LITERAL and not own[1].startswith(text[1])
        return 0 if longer else self._states.first(other)

    def may_end(self, way: Way) -> bool:
        """Whether the text may end after a terminal."""
        return True

    def may_precede(self, way: Way, others: Iterable[Way]) -> bool:
        """Whether one of the others may follow it although none begins with one of the bytes `following`."""
        return False

    def _after(self, symbol: int) -> int:
        """The bytes that may follow a terminal in whatever text."""
        if symbol not in self._following:
            expression = self._states.expression(symbol)
            inner = 0 if expression[0] == LITERAL else inner_bytes(expression)
            many = inner.bit_count() > MANY_BYTES
            self._following[symbol] = ALL_BYTES & ~(_continuing_bytes(expression) if many else inner)
        return self._following[symbol]


@lru_cache(_CACHED)
def _continuing_bytes(expression: Expression) -> int:
    """`_continuing` of a terminal by itself: many grammars have the same strings and comments."""
    return _continuing(TerminalStates([expression]), 0)


def _continuing(states: TerminalStates, symbol: int) -> int:
    """The bytes that may continue a terminal where it could end, or that may be forbidden there."""
    if states.expression(symbol)[0] == LITERAL:
        return 0
    steps, x = states.steps(symbol), states.x
    if steps is None:
        return ALL_BYTES
    ending = [state for state in steps if x.endings[state]]
    forbidden = any_of(x.first[guard] for state in ending for guard in x.endings[state])
    return forbidden | any_of(mask for state in ending for mask in steps[state].values())


class ExactWays:
    """The ways in which entries end, by derivatives.

    examined   terminals that may lead nowhere; others are taken to be followed by anything, unless an earlier
               entry may match in their place
    """

    def __init__(self, states: TerminalStates, examined: Collection[int]) -> None:
        self._states = states
        self._examined = examined
        self._x, self._derivatives = states.x, states.derivatives
        states.begin_search()
        self._numbers: dict[Way, int] = {}
        self._ways: dict[LexerEntry, list[Way]] = {}
        self._may_follow: dict[tuple[int, int], bool] = {}

    def of(self, entry: LexerEntry) -> list[Way]:
        """The ways in which an entry ends; none if it is never read."""
        if entry not in self._ways:
            spend(20 + 2 * len(entry.before))
            self._ways[entry] = self._new(entry)
        return self._ways[entry]

    def may_end(self, way: Way) -> bool:
        """Whether the text may end after a terminal that has ended in some way."""
        return not way.excluded or any(not self._x.endings[excluded] for excluded in way.excluded)

    def may_precede(self, way: Way, others: Iterable[Way]) -> bool:
        """Whether texts of one of the others may follow a terminal that has ended in some way."""
        return any(
            self._possible(self._number(other), excluded) for other in others for excluded in way.excluded
        )

    def _possible(self, number: int, excluded: int) -> bool:
        key = number, excluded
        if key not in self._may_follow:
            self._may_follow[key] = self._derivatives.possible(number, excluded)
        return self._may_follow[key]

    def _number(self, way: Way) -> int:
        """The number of the texts that end in some way."""
        if way not in self._numbers:
            self._numbers[way] = self._states.load(way.texts)
        return self._numbers[way]

    def _new(self, entry: LexerEntry) -> list[Way]:
        own, first = self._states.expression(entry.symbol), self._states.first(entry.symbol)
        if entry.whole not in self._examined and not entry.before:
            return [Way(own, first, ALL_BYTES)]
        if entry.whole == entry.symbol and not entry.before and self._states.steps(entry.whole) is None:
            return [Way(own, first, ALL_BYTES)]
        earlier = map(self._states.start, entry.before)
        excluded = self._x.union(map(self._x.future, earlier))
        rest = whole = self._states.start(entry.whole)
        if entry.symbol != entry.whole:
            rest = self._x.both((self._states.start(entry.symbol), whole))
        states, endings = self._explored((rest, whole, excluded))
        if not states:
            return [Way(own, first, ALL_BYTES)]
        groups: dict[frozenset[int], list[int]] = {}
        for number, guards in endings.items():
            groups.setdefault(guards, []).append(number)
        steps = [(number, target) for number, (_, after) in enumerate(states) for _, target in after]
        ways = []
        for guards, group in groups.items():
            alive = nodes_reaching(steps, group)
            first = any_of(mask for mask, target in states[0][1] if target in alive)
            following = any_of(ALL_BYTES & ~self._x.first[guard] for guard in guards)
            ways.append(Way(texts_between(states, 0, group), first, following, guards))
        return ways

    def _explored(self, start: _Parts) -> tuple[list[State], dict[int, frozenset[int]]]:
        """The states of an entry, and for those at which it may end what each guard excludes then. No states
        if there are too many."""
        numbers = {start: 0}
        states: list[State] = []
        endings: dict[int, frozenset[int]] = {}
        for state in (reached := [start]):
            spend(40)
            steps: dict[int, int] = {}
            for mask, after in self._steps(state):
                if after not in numbers:
                    numbers[after] = len(reached)
                    reached.append(after)
                steps[numbers[after]] = steps.get(numbers[after], 0) | mask
            if len(reached) > MAX_STATES:
                return [], {}
            ends = frozenset(self._ends(*state))
            if ends:
                endings[len(states)] = ends
            states.append((bool(ends), [(mask, target) for target, mask in steps.items()]))
        return states, endings

    def _steps(self, state: _Parts) -> Iterator[tuple[int, _Parts]]:
        """The states after a state, each with bytes that lead to it, in the order of the least of these."""
        derivative, live = self._derivatives.derivative, self._derivatives.live
        partitions = [self._x.partition[part] for part in state]
        blocks = [one for one in classes(partitions[0]).items() if live(derivative(state[0], one[0]))]
        if any(mask & ~class_of(byte, other) for byte, mask in blocks for other in partitions):
            blocks = list(classes(meet(partitions)).items())
        for byte, mask in blocks:
            rest, whole, excluded = (derivative(part, byte) for part in state)
            if excluded != ANYTHING and live(rest):
                yield mask, (rest, whole, excluded)

    def _ends(self, rest: int, whole: int, excluded: int) -> Iterator[int]:
        """For each guard under which a match ends here the futures that are excluded then."""
        longer = self._derivatives.longer(whole)
        for guard in self._x.endings[rest]:
            futures = self._x.union((excluded, self._x.concat(guard, ANYTHING), longer))
            if futures != ANYTHING:
                yield futures if self._derivatives.live(futures) else NOTHING_EXCLUDED
