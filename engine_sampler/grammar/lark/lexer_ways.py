"""The ways in which the terminals of a lexer end, and what may follow them.

A lexer reads the longest match of the first terminal that matches. So what follows must not continue the
match, must be allowed by its look-aheads, and must not let a terminal that is tried earlier match after all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from ..derivatives.derivatives import Derivatives
from ..derivatives.expressions import ANYTHING, Expressions
from ..derivatives.expressions import EMPTY as NOTHING_EXCLUDED
from ..derivatives.limits import Meter, ReadingMeter
from ..derivatives.loading import Loader
from ..derivatives.partitions import class_of, classes, meet
from ..derivatives.states import State, first_steps, reached, texts_between
from ..program.expression import ALL_BYTES, EMPTY, LITERAL, Encoder, Expression, looks_ahead
from ..program.reaching import nodes_reaching
from ..work import spend
from .outer_bytes import any_of, first_bytes, inner_bytes

MAX_STATES = 64
"""The most states of a terminal that is examined; one with more is taken to lead on."""

MAX_STEPS = 100_000
"""The most steps of derivatives; a grammar that needs more is taken to have no dead ends."""


MANY_BYTES = 128
"""A terminal with more different bytes, such as a string or a comment, is examined in any case."""


class LexerEntry(NamedTuple):
    """An entry of a lexer.

    symbol  the terminal
    whole   the terminal that it is a keyword of, which may be itself
    kind    see `program.lalr`
    before  the terminals that are tried earlier and may match the same text, or one that begins as it does
    """

    symbol: int
    whole: int
    kind: int
    before: tuple[int, ...]


class Rivals:
    """Which terminals may match a text of another one, a beginning of it, or one that begins with it.

    first  the bytes with which each terminal begins
    """

    def __init__(
        self, symbols: Iterable[int], expressions: Sequence[Expression], first: Callable[[int], int]
    ) -> None:
        self._expressions = expressions
        self._first = first
        literals = {symbol: expressions[symbol][1] for symbol in symbols if expressions[symbol][0] == LITERAL}
        self._others = [(symbol, first(symbol)) for symbol in symbols if symbol not in literals]
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
        expression, first = self._expressions[symbol], self._first(symbol)
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


class _Tables:
    """The derivatives of terminals."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        self._of_symbol = expressions
        self.x = Expressions(Meter())
        self.derivatives = Derivatives(self.x)
        self._numbers: dict[int, int] = {}
        self._steps: dict[int, dict[int, dict[int, int]] | None] = {}

    def terminal(self, symbol: int) -> int:
        """The number of a terminal."""
        if symbol not in self._numbers:
            self._numbers[symbol] = self.load(self._of_symbol[symbol])
        return self._numbers[symbol]

    def load(self, texts: Expression) -> int:
        """The number of an expression."""
        encoder = Encoder()
        root = encoder.add(texts)
        return Loader(self.x, encoder.code).numbers[root]

    def first(self, symbol: int) -> int:
        """The bytes with which the texts of a terminal begin; perhaps too many."""
        self.x.meter.start()
        return first_steps(self.derivatives, self.terminal(symbol))

    def steps(self, symbol: int) -> dict[int, dict[int, int]] | None:
        """The steps from each state of a terminal; None if there are more than `MAX_STATES` states."""
        if symbol not in self._steps:
            self.x.meter.start()
            self._steps[symbol] = reached(self.derivatives, self.terminal(symbol), MAX_STATES)
        return self._steps[symbol]


class RoughWays:
    """Each entry has one way to end: what begins with a byte that never continues its terminal may follow it.
    What begins with a byte with which an earlier entry begins is not taken to be read.

    expressions   of the terminals
    """

    def __init__(self, expressions: Sequence[Expression | None]) -> None:
        self._expressions = [one or EMPTY for one in expressions]
        self._tables = _Tables(self._expressions)
        self._first: dict[int, int] = {}
        self._following: dict[int, int] = {}
        self._ways: dict[LexerEntry, list[Way]] = {}

    def of(self, entry: LexerEntry) -> list[Way]:
        """The ways in which an entry ends."""
        if entry not in self._ways:
            own = self._expressions[entry.symbol]
            first = self.first(entry.symbol) & ~any_of(self._hidden(own, other) for other in entry.before)
            self._ways[entry] = [Way(own, first, self._after(entry.whole))]
        return self._ways[entry]

    def examine(self, symbols: Collection[int]) -> None:
        """Examine the states of terminals; of others, the bytes that occur in them may continue them."""
        self._following |= {symbol: ALL_BYTES & ~self._continuing(symbol) for symbol in symbols}
        for entry, ways in self._ways.items():
            ways[0].following = self._after(entry.whole)

    def exact(self, symbols: Collection[int]) -> ExactWays:
        """The ways in which entries end, where these terminals are examined, which may lead nowhere."""
        return ExactWays(self._tables, self._expressions, self.first, symbols)

    def rivals(self, symbols: Iterable[int]) -> Rivals:
        """Which of these terminals may match in the place of another one."""
        return Rivals(symbols, self._expressions, self.first)

    def first(self, symbol: int) -> int:
        """The bytes with which a terminal begins."""
        if symbol not in self._first:
            own = self._expressions[symbol]
            self._first[symbol] = self._tables.first(symbol) if looks_ahead(own) else first_bytes(own)
        return self._first[symbol]

    def _hidden(self, own: Expression, other: int) -> int:
        """The first bytes of texts of which an earlier terminal may match a beginning."""
        text = self._expressions[other]
        longer = own[0] == text[0] == LITERAL and not own[1].startswith(text[1])
        return 0 if longer else self.first(other)

    def may_end(self, way: Way) -> bool:
        """Whether the text may end after a terminal."""
        return True

    def may_precede(self, way: Way, others: Iterable[Way]) -> bool:
        """Whether one of the others may follow it although none begins with one of the bytes `following`."""
        return False

    def _after(self, symbol: int) -> int:
        """The bytes that may follow a terminal in whatever text."""
        if symbol not in self._following:
            inner = 0 if self._expressions[symbol][0] == LITERAL else inner_bytes(self._expressions[symbol])
            many = inner.bit_count() > MANY_BYTES
            self._following[symbol] = ALL_BYTES & ~(self._continuing(symbol) if many else inner)
        return self._following[symbol]

    def _continuing(self, symbol: int) -> int:
        """The bytes that may continue a terminal where it could end, or that may be forbidden there."""
        if self._expressions[symbol][0] == LITERAL:
            return 0
        steps = self._tables.steps(symbol)
        if steps is None:
            return ALL_BYTES
        x = self._tables.x
        ending = [state for state in steps if x.endings[state]]
        forbidden = any_of(x.first[guard] for state in ending for guard in x.endings[state])
        return forbidden | any_of(mask for state in ending for mask in steps[state].values())


class ExactWays:
    """The ways in which entries end, by derivatives.

    examined   terminals that may lead nowhere; others are taken to be followed by anything, unless an earlier
               entry may match in their place
    """

    def __init__(
        self,
        tables: _Tables,
        expressions: Sequence[Expression],
        first: Callable[[int], int],
        examined: Collection[int],
    ) -> None:
        self._tables = tables
        self._expressions = expressions
        self._first = first
        self._examined = examined
        self._x = tables.x
        self._x.meter = ReadingMeter(MAX_STEPS)
        self._derivatives = tables.derivatives
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
            self._numbers[way] = self._tables.load(way.texts)
        return self._numbers[way]

    def _new(self, entry: LexerEntry) -> list[Way]:
        own, first = self._expressions[entry.symbol], self._first(entry.symbol)
        if entry.whole not in self._examined and not entry.before:
            return [Way(own, first, ALL_BYTES)]
        if entry.whole == entry.symbol and not entry.before and self._tables.steps(entry.whole) is None:
            return [Way(own, first, ALL_BYTES)]
        earlier = map(self._tables.terminal, entry.before)
        excluded = self._x.union(map(self._x.future, earlier))
        rest = whole = self._tables.terminal(entry.whole)
        if entry.symbol != entry.whole:
            rest = self._x.both((self._tables.terminal(entry.symbol), whole))
        states, endings = self._states((rest, whole, excluded))
        if not states:
            return [Way(own, first, ALL_BYTES)]
        groups: dict[frozenset[int], list[int]] = {}
        for number, guards in endings.items():
            groups.setdefault(guards, []).append(number)
        steps = [(number, target) for number, (_, after) in enumerate(states) for _, target in after]
        found = []
        for guards, group in groups.items():
            alive = nodes_reaching(steps, group)
            first = any_of(mask for mask, target in states[0][1] if target in alive)
            following = any_of(ALL_BYTES & ~self._x.first[guard] for guard in guards)
            found.append(Way(texts_between(states, 0, group), first, following, guards))
        return found

    def _states(self, start: _Parts) -> tuple[list[State], dict[int, frozenset[int]]]:
        """The states of an entry, and for those at which it may end what each guard excludes then. No states
        if there are too many."""
        numbers = {start: 0}
        states: list[State] = []
        endings: dict[int, frozenset[int]] = {}
        for state in (waiting := [start]):
            spend(40)
            steps: dict[int, int] = {}
            for mask, after in self._steps(state):
                if after not in numbers:
                    numbers[after] = len(waiting)
                    waiting.append(after)
                steps[numbers[after]] = steps.get(numbers[after], 0) | mask
            if len(waiting) > MAX_STATES:
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
