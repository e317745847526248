"""The terminals with which the texts of an LALR parser go on to an end.

Many states of a parser have the same actions: they are one kind. Most actions reduce a rule. The parser is
then in any state that the left side of the rule leads to, and what leads on there leads on before.

Sets are masks: of terminals, and of ways in which the entries of lexers end. In both, bit 0 is the end of the
text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...program.byte_sets import any_of
from ...program.expression import Expression
from ...program.lalr import ACCEPT, IGNORED, LalrState, Pairs, Parser, once
from ...work import spend
from .lalr_analysis import bits_of
from .lexer_endings import ExactWays, LexerEntry, RoughWays, Way

END = 1
"""The set of the end of the text."""


def terminal(symbol: int) -> int:
    """The set of a terminal."""
    return 2 << symbol


class Lexer:
    """The lexer of some kinds of states.

    ways     the ways in which its entries end
    skipped  those of ignored ones
    """

    def __init__(self, entries: Sequence[LexerEntry]) -> None:
        self.entries = entries
        self.ways = self.skipped = 0


class Side:
    """The left side of some rules, and the kinds of states that it leads to."""

    def __init__(self) -> None:
        self.goals: list[Kind] = []
        self._expected: dict[int, bool] = {}

    def expects(self, symbols: int) -> bool:
        """Whether the parser shifts one of these terminals after a rule of this side."""
        if symbols not in self._expected:
            self._expected[symbols] = self._find(symbols)
        return self._expected[symbols]

    def _find(self, symbols: int) -> bool:
        sides = {self}
        for side in (waiting := [self]):
            spend(1 + len(side.goals) // 2)
            for goal in side.goals:
                if goal.shifted & symbols:
                    return True
                new = [other for other, before in goal.reductions if before & symbols and other not in sides]
                sides.update(new)
                waiting += new
        return False


class Kind:
    """States of a parser with the same actions.

    state       one of them
    reductions  the left sides of rules to reduce, each with the terminals before which they are reduced
    shifts      the kinds of states after terminals, each with these terminals
    shifted     all of these terminals, and the end of the text if it may end before anything is reduced
    special     whether the text may go on with a special token
    sides       the left sides that lead here
    lexer       of the states
    leading     the ways that lead on to an end if they are read here, whichever lexer reads them
    first       the bytes with which those of its own lexer begin
    """

    def __init__(self, state: LalrState, reductions: Sequence[tuple[Side, int]]) -> None:
        self.state = state
        self.reductions = reductions
        self.shifts: Sequence[tuple[Kind, int]] = ()
        self.shifted = END if state.end == ACCEPT else 0
        self.special = False
        self.sides: list[Side] = []
        self.lexer = Lexer(())
        self.leading = self.first = 0

    @property
    def leads_on(self) -> bool:
        """Whether all ways of its entries lead on."""
        return not self.lexer.ways & ~self.leading

    def expects(self, entry: LexerEntry) -> bool:
        """Whether the parser expects an entry of the lexer."""
        symbols = terminal(entry.symbol)
        if entry.kind & IGNORED or self.shifted & symbols:
            return True
        return any(before & symbols and side.expects(symbols) for side, before in self.reductions)


def kinds_of(parser: Parser, expressions: Sequence[Expression | None]) -> list[Kind]:
    """The kind of each state.

    expressions  of the terminals; None for special tokens
    """
    sides = [Side() for _ in range(1 + max((side for side, _ in parser.rules), default=-1))]
    reading = _Reading([sides[side] for side, _ in parser.rules])
    kinds = list(map(reading.kind, parser.states))
    special = any_of(terminal(symbol) for symbol, one in enumerate(expressions) if one is None)
    for kind, shifts in reading.shifts.items():
        targets: dict[Kind, int] = {}
        for symbol, target in shifts:
            targets[kinds[target]] = targets.get(kinds[target], 0) | terminal(symbol)
        kind.shifts = list(targets.items())
        kind.shifted |= any_of(targets.values())
        kind.special = any(special & some for _, some in [(kind, kind.shifted), *kind.reductions])
    gotos = ((sides[side], kinds[target]) for state in parser.states for side, target in state.gotos)
    for side, goal in dict.fromkeys(gotos):
        side.goals.append(goal)
        goal.sides.append(side)
    return kinds


class _Reading:
    """Finds out which states have the same actions.

    shifts  of each kind: the state after each terminal
    """

    def __init__(self, side_of: Sequence[Side]) -> None:
        self._side_of = side_of
        self._known: dict[object, Kind] = {}
        self._sets: dict[tuple[int, ...], int] = {}
        self._numbers: dict[tuple[tuple[int, int], ...], int] = {}
        self._parts = once(self._parts_of)
        self.shifts: dict[Kind, Pairs] = {}

    def kind(self, state: LalrState) -> Kind:
        """The kind of a state."""
        spend()
        shifts, number, before = self._parts(state.actions)
        reductions = tuple(self._reductions(before, state.end).items())
        key = number, reductions, state.end == ACCEPT, bool(state.entries)
        if key not in self._known:
            self._known[key] = kind = Kind(state, reductions)
            self.shifts[kind] = shifts
        return self._known[key]

    def _parts_of(self, actions: Pairs) -> tuple[Pairs, int, Mapping[int, int]]:
        """The shifts among some actions, a number that equal ones share, and the terminals before which each
        other action reduces a rule."""
        spend(len(actions) // 8)
        before: dict[int, list[int]] = {}
        for symbol, action in actions:
            if action < 0:
                before.setdefault(action, []).append(symbol)
        shifts = [one for one in actions if one[1] >= 0]
        number = self._numbers.setdefault(tuple(shifts), len(self._numbers))
        return shifts, number, {action: self._set(tuple(symbols)) for action, symbols in before.items()}

    def _reductions(self, before: Mapping[int, int], end: int) -> dict[Side, int]:
        """The left sides of rules that a state reduces, each with the terminals before which it does."""
        found = {self._side_of[-1 - end]: END} if end < 0 else {}
        for action, symbols in before.items():
            side = self._side_of[-1 - action]
            found[side] = found.get(side, 0) | symbols
        return found

    def _set(self, symbols: tuple[int, ...]) -> int:
        if symbols not in self._sets:
            self._sets[symbols] = any_of(map(terminal, symbols))
        return self._sets[symbols]


class LeadingWays:
    """The ways that lead on, from the ends of texts backwards.

    before    for each kind of states, those from which terminals lead there, each with the ways of these
    possible  the ways that may be read before it
    left      those of them that have not been found to lead on
    behind    for each left side, the kinds of states that reduce it, each with the ways before which they do
    beyond    the ways that lead on after it
    new       for kinds of states, ways that have been found to lead on, and whatever they follow not yet
    """

    def __init__(self, kinds: Sequence[Kind], ways: RoughWays | ExactWays) -> None:
        self._kinds = kinds
        self._ways = ways
        self._numbered: list[Way | None] = [None]
        self._of_entry: dict[LexerEntry, int] = {}
        self._of_symbol: dict[int, int] = {}
        for lexer in dict.fromkeys(kind.lexer for kind in kinds):
            self._number(lexer)
        self._of_symbols = {END: END}
        self._before: dict[Kind, list[tuple[Kind, int]]] = {kind: [] for kind in kinds}
        self._behind: dict[Side, list[tuple[Kind, int]]] = {}
        for kind in kinds:
            self._connect(kind)
        read = self._ways_read()
        self._possible = {
            kind: any_of(ways & read[other] for other, ways in before)
            for kind, before in self._before.items()
        }

    def find(self) -> None:
        """Set what leads on in each kind of states."""
        for kind in self._kinds:
            kind.leading = kind.first = 0
        self._left = self._possible.copy()
        self._beyond = dict.fromkeys(self._behind, 0)
        ends = {kind: kind.shifted & END for kind in self._kinds}
        self._new = {kind: end for kind, end in ends.items() if end or kind.special}
        while self._new:
            new, self._new = self._new, {}
            beyond: dict[Side, int] = {}
            for kind, some in new.items():
                self._go_back(kind, some)
                for side in kind.sides:
                    beyond[side] = beyond.get(side, 0) | some
            for side, some in beyond.items():
                self._reduce_back(side, some)

    def _number(self, lexer: Lexer) -> None:
        """Number the ways of the entries of a lexer."""
        lexer.ways = lexer.skipped = 0
        for entry in lexer.entries:
            if entry not in self._of_entry:
                ways = self._ways.of(entry)
                self._of_entry[entry] = (1 << len(ways)) - 1 << len(self._numbered)
                for number, way in enumerate(ways, len(self._numbered)):
                    way.number = number
                self._numbered += ways
                if not entry.kind & IGNORED:
                    known = self._of_symbol.get(entry.symbol, 0)
                    self._of_symbol[entry.symbol] = known | self._of_entry[entry]
            lexer.ways |= self._of_entry[entry]
            if entry.kind & IGNORED:
                lexer.skipped |= self._of_entry[entry]

    def _connect(self, kind: Kind) -> None:
        """Add the steps from states of a kind."""
        spend(1 + (len(kind.shifts) + len(kind.reductions)) // 2)
        for target, symbols in kind.shifts:
            self._before[target].append((kind, self._ways_of(symbols)))
        if kind.lexer.skipped:
            self._before[kind].append((kind, kind.lexer.skipped))
        for side in kind.sides:
            self._behind.setdefault(side, [])
        for side, symbols in kind.reductions:
            self._behind.setdefault(side, []).append((kind, self._ways_of(symbols)))

    def _ways_of(self, symbols: int) -> int:
        """The ways of terminals."""
        if symbols not in self._of_symbols:
            spend(1 + symbols.bit_count() // 4)
            ways = any_of(self._of_symbol.get(number - 1, 0) for number in bits_of(symbols & ~END))
            self._of_symbols[symbols] = ways | symbols & END
        return self._of_symbols[symbols]

    def _ways_read(self) -> dict[Kind, int]:
        """For each kind of states the ways of its lexer, and of lexers of states that were reduced to it."""
        ways_of = {kind: kind.lexer.ways for kind in self._kinds}
        passed = dict.fromkeys(self._behind, 0)
        sides_to_visit = dict.fromkeys(self._behind)
        while sides_to_visit:
            side, _ = sides_to_visit.popitem()
            spend(1 + len(self._behind[side]) // 4)
            ways = any_of(ways_of[user] & before for user, before in self._behind[side]) & ~passed[side]
            passed[side] |= ways
            for goal in side.goals if ways else ():
                ways_of[goal] |= ways
                sides_to_visit.update((other, None) for other, _ in goal.reductions)
        return ways_of

    def _add(self, kind: Kind, ways: int) -> None:
        """Note ways that lead on if they are read in states of a kind."""
        if new := ways & ~kind.leading:
            self._new[kind] = self._new.get(kind, 0) | new

    def _go_back(self, kind: Kind, ways: int) -> None:
        """Go back from ways that lead on in states of a kind."""
        kind.leading |= ways
        if self._left[kind]:
            read = ways & kind.lexer.ways
            kind.first |= any_of(way.first for way in self._listed(read))
            if read or ways & END or kind.special:
                found = self._leading_to(kind)
                self._left[kind] &= ~found
                for other, before in self._before[kind]:
                    self._add(other, before & found)

    def _reduce_back(self, side: Side, ways: int) -> None:
        """Go back from ways that lead on after rules to the states in which these are reduced."""
        if new := ways & ~self._beyond[side]:
            self._beyond[side] |= new
            spend(1 + len(self._behind[side]) // 4)
            for user, before in self._behind[side]:
                self._add(user, before & new)

    def _leading_to(self, kind: Kind) -> int:
        """The ways left that lead on to states of a kind."""
        leading_ways = 0
        ends = kind.special or kind.leading & END
        leading: list[Way] = []
        for way in self._listed(self._left[kind]):
            if way.following & kind.first or (ends and self._ways.may_end(way)):
                leading_ways |= 1 << way.number
            elif way.excluded:
                leading = leading or list(self._listed(kind.leading & kind.lexer.ways))
                leading_ways |= self._ways.may_precede(way, leading) << way.number
        return leading_ways

    def _listed(self, ways: int) -> Iterator[Way]:
        """The ways of a set."""
        return (way for number in bits_of(ways) if (way := self._numbered[number]) is not None)
