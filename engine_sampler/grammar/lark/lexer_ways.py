"""The ways in which the terminals of a lexer end, and what may follow them.

A lexer reads the longest match of the first terminal that matches. So what follows must not continue the
match, must be allowed by its look-aheads, and must not let a terminal that is tried earlier match after all.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ..derivatives.derivatives import Derivatives
from ..derivatives.expressions import ANYTHING, Expressions
from ..derivatives.expressions import EMPTY as NOTHING_EXCLUDED
from ..derivatives.limits import ReadingMeter
from ..derivatives.loading import Loader
from ..derivatives.partitions import meet, representatives
from ..derivatives.states import State, continuing_bytes, live_first_bytes, texts_between
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


class Earlier:
    """The terminals that a lexer tries before others.

    first  the bytes with which each terminal begins
    """

    def __init__(self, expressions: Sequence[Expression], first: Callable[[int], int]) -> None:
        self._expressions = expressions
        self._first = first
        self._others: list[int] = []
        self._literals: list[tuple[bytes, int]] = []
        self._lengths: dict[int, None] = {}

    def add(self, symbol: int) -> None:
        """Add a terminal that is tried next."""
        expression = self._expressions[symbol]
        if expression[0] != LITERAL:
            self._others.append(symbol)
            return
        insort(self._literals, (expression[1], symbol))
        self._lengths[len(expression[1])] = None

    def rivals(self, symbol: int) -> tuple[int, ...]:
        """Those that may match a text of a terminal, a beginning of it, or one that begins with it."""
        expression, first = self._expressions[symbol], self._first(symbol)
        found = [other for other in self._others if self._first(other) & first]
        if expression[0] != LITERAL:
            found += (other for _, other in self._literals if self._first(other) & first)
            return tuple(found)
        text = expression[1]
        for length in self._lengths:
            if length < len(text):
                found += self._beginning(text[:length], whole=True)
        return tuple(found + self._beginning(text, whole=False))

    def _beginning(self, text: bytes, whole: bool) -> list[int]:
        """The literals that begin with a text, or are the whole of it."""
        found = []
        for other, symbol in self._literals[bisect_left(self._literals, (text, -1)) :]:
            if not (other == text if whole else other.startswith(text)):
                break
            found.append(symbol)
        return found


class Way:
    """A way in which an entry ends.

    texts      the texts that end so
    first      the bytes that they begin with, as a mask
    following  bytes that may follow them, in whatever text
    excluded   for each guard under which they end the futures that it excludes, a number of `ExactWays`; none
               for a terminal that is looked at roughly
    """

    def __init__(
        self, texts: Expression, first: int, following: int, excluded: frozenset[int] = frozenset()
    ) -> None:
        self.texts = texts
        self.first = first
        self.following = following
        self.excluded = excluded


class RoughWays:
    """Each entry has one way to end: what begins with a byte that never continues its terminal may follow it.
    What begins with a byte with which an earlier entry begins is not taken to be read.

    expressions   of the terminals
    examined      the terminals whose states are examined; of others, the bytes that occur in them are taken
                  to continue them
    """

    def __init__(self, expressions: Sequence[Expression | None]) -> None:
        self._expressions = [one or EMPTY for one in expressions]
        self.examined: set[int] = set()
        self._first: dict[int, int] = {}
        self._following: dict[tuple[int, bool], int] = {}
        self._ways: dict[tuple[LexerEntry, bool], list[Way]] = {}

    def of(self, entry: LexerEntry) -> list[Way]:
        """The ways in which an entry ends."""
        key = entry, entry.whole in self.examined
        if key not in self._ways:
            own = self._expressions[entry.symbol]
            first = self.first(entry.symbol) & ~any_of(self._hidden(own, other) for other in entry.before)
            self._ways[key] = [Way(own, first, self._after(entry.whole))]
        return self._ways[key]

    def earlier(self) -> Earlier:
        """The terminals that a lexer tries before others, none yet."""
        return Earlier(self._expressions, self.first)

    def first(self, symbol: int) -> int:
        """The bytes with which a terminal begins."""
        if symbol not in self._first:
            own = self._expressions[symbol]
            self._first[symbol] = live_first_bytes(own) if looks_ahead(own) else first_bytes(own)
        return self._first[symbol]

    def _hidden(self, own: Expression, other: int) -> int:
        """The first bytes of texts of which an earlier terminal may match a beginning."""
        text = self._expressions[other]
        longer = own[0] == text[0] == LITERAL and not own[1].startswith(text[1])
        return 0 if longer else self.first(other)

    def may_end(self, way: Way) -> bool:
        """Whether the text may end after a terminal."""
        return True

    def may_follow(self, way: Way, other: Way) -> bool:
        """Whether one may follow the other although it does not begin with one of the bytes `following`."""
        return False

    def _after(self, whole: int) -> int:
        key = whole, whole in self.examined
        if key not in self._following:
            self._following[key] = ALL_BYTES & ~self._continuing(*key)
        return self._following[key]

    def _continuing(self, whole: int, examined: bool) -> int:
        """The bytes that may continue a terminal where it could end."""
        expression = self._expressions[whole]
        if expression[0] == LITERAL:
            return 0
        inner = inner_bytes(expression)
        examined |= inner.bit_count() > MANY_BYTES
        return continuing_bytes(expression, MAX_STATES) if examined else inner


class ExactWays:
    """The ways in which entries end, by derivatives.

    examined   terminals that may lead nowhere; others are taken to be followed by anything, unless an earlier
               entry may match in their place
    """

    def __init__(
        self, rough: RoughWays, expressions: Sequence[Expression | None], examined: set[int]
    ) -> None:
        self._rough = rough
        self._expressions = [one or EMPTY for one in expressions]
        self._examined = examined
        self._x = Expressions(ReadingMeter(MAX_STEPS))
        self._derivatives = Derivatives(self._x)
        self._numbers: dict[Expression, int] = {}
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

    def may_follow(self, way: Way, other: Way) -> bool:
        """Whether texts of another way may follow a terminal that has ended in some way."""
        number = self._number(other.texts)
        return any(self._possible(number, excluded) for excluded in way.excluded)

    def _possible(self, number: int, excluded: int) -> bool:
        key = number, excluded
        if key not in self._may_follow:
            self._may_follow[key] = self._derivatives.possible(number, excluded)
        return self._may_follow[key]

    def _number(self, texts: Expression) -> int:
        if texts not in self._numbers:
            encoder = Encoder()
            root = encoder.add(texts)
            self._numbers[texts] = Loader(self._x, encoder.code).numbers[root]
        return self._numbers[texts]

    def _new(self, entry: LexerEntry) -> list[Way]:
        own, first = self._expressions[entry.symbol], self._rough.first(entry.symbol)
        if entry.whole not in self._examined and not entry.before:
            return [Way(own, first, ALL_BYTES)]
        earlier = (self._number(self._expressions[symbol]) for symbol in entry.before)
        excluded = self._x.union(map(self._x.future, earlier))
        whole = self._number(self._expressions[entry.whole])
        rest = whole if entry.symbol == entry.whole else self._x.both((self._number(own), whole))
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

    def _states(self, start: tuple[int, int, int]) -> tuple[list[State], dict[int, frozenset[int]]]:
        """The states of an entry, and for those at which it may end what each guard excludes then. No states
        if there are too many.

        start   what is left of the entry, and of the whole terminal, and the futures in which others match
        """
        derivative = self._derivatives.derivative
        numbers = {start: 0}
        states: list[State] = []
        endings: dict[int, frozenset[int]] = {}
        for state in (waiting := [start]):
            spend(40)
            partition = meet(self._x.partition[part] for part in state)
            steps: dict[int, int] = {}
            for byte in representatives(partition):
                rest, whole, excluded = (derivative(part, byte) for part in state)
                if excluded == ANYTHING or not self._derivatives.live(rest):
                    continue
                after = rest, whole, excluded
                if after not in numbers:
                    numbers[after] = len(waiting)
                    waiting.append(after)
                block = sum(1 << other for other in range(256) if partition[other] == byte)
                steps[numbers[after]] = steps.get(numbers[after], 0) | block
            if len(waiting) > MAX_STATES:
                return [], {}
            ends = frozenset(self._ends(*state))
            if ends:
                endings[len(states)] = ends
            states.append((bool(ends), [(mask, target) for target, mask in steps.items()]))
        return states, endings

    def _ends(self, rest: int, whole: int, excluded: int) -> Iterator[int]:
        """For each guard under which a match ends here the futures that are excluded then."""
        longer = self._derivatives.longer(whole)
        for guard in self._x.endings[rest]:
            futures = self._x.union((excluded, self._x.concat(guard, ANYTHING), longer))
            if futures != ANYTHING:
                yield futures if self._derivatives.live(futures) else NOTHING_EXCLUDED
