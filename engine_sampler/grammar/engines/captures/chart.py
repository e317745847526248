"""The chart of an Earley parser (1970) over the terminals of one text, from which derivations are read.

An item is a position in a rule (see `engines.reference.automata`) and where that rule began: at which of the
places between the terminals. A rule is completed, and begun, only where the next terminal may follow, or
begin it. So a list that is recursive at its end is completed once, at its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..reference.automata import Automata
from ..steps import Steps
from .expectations import Expectations

Next = tuple[int, ...]
"""The terminals that may be next; ANY for all."""

Item = tuple[int, int]
"""A position, and the place where its rule began."""

ANY: Next = ()


class Link(NamedTuple):
    """How an item came about: from the item at `position`, over a symbol that begins at place `start`."""

    position: int
    symbol: int
    start: int


class Completion(NamedTuple):
    """A rule that was completed: as which one in order, and at which positions of it."""

    number: int
    positions: list[int]


class Move(NamedTuple):
    """What a position may go on with before some terminals.

    scanned    the positions after one of the terminals, each with that
    empty      the terminals that match the empty text
    begun      the rules that may begin with one of the terminals, or be empty
    completed  the rule, if it may end before one of the terminals; else 0
    """

    scanned: tuple[tuple[int, int], ...]
    empty: tuple[int, ...]
    begun: tuple[int, ...]
    completed: int


class Moves:
    """The moves of a grammar, shared by its charts.

    targets(position)[symbol]   the positions after a symbol
    """

    def __init__(self, automata: Automata, expected: Expectations) -> None:
        self.automata = automata
        self._expected = expected
        self._known: dict[tuple[int, Next], Move] = {}

    def targets(self, position: int) -> dict[int, tuple[int, ...]]:
        return self.automata.transitions(position).targets

    def before(self, position: int, terminals: Next) -> Move:
        """What a position may go on with before some terminals."""
        found = self._known.get((position, terminals))
        if found is None:
            found = self._known[position, terminals] = self._found(position, terminals)
        return found

    def _found(self, position: int, terminals: Next) -> Move:
        targets, completes = self.automata.transitions(position)
        empty, expected = self.automata.empty, self._expected
        rule = self.automata.rule_of(position)
        return Move(
            tuple((one, target) for one in terminals for target in targets.get(one, ())),
            tuple(symbol for symbol in targets if symbol >= 0 and symbol in empty),
            tuple(
                symbol
                for symbol in targets
                if symbol < 0 and (symbol in empty or _meets(expected.first[-1 - symbol], terminals))
            ),
            rule if completes and _meets(expected.follow[-1 - rule], terminals) else 0,
        )


def _meets(expected: int, terminals: Next) -> bool:
    return terminals == ANY or any(expected >> terminal & 1 for terminal in terminals)


class Chart:
    """All items of a text.

    items      at each place, those there, with how they came about; None: their rule begins there
    completed  at each place, the rules that end there: by rule and where it began
    waiting    at each place, the items that wait for a rule that begins there
    """

    def __init__(self, moves: Moves, steps: Steps) -> None:
        self._moves = moves
        self._automata = moves.automata
        self._steps = steps
        self.items: list[dict[Item, list[Link | None]]] = [{}]
        self.completed: list[dict[Item, Completion]] = []
        self.waiting: list[dict[int, list[Item]]] = []
        self._count = 0
        self._next = ANY
        self._place = 0
        self._queue: list[Item] = []
        goal = self._automata.goal
        self._add((self._automata.start(goal), 0), None)

    def read(self, terminals: Iterable[Next]) -> Chart:
        """Read one of some terminals after the other; the last one may be the end."""
        for self._next in terminals:
            self._place = len(self.completed)
            self._read()
        return self

    def _read(self) -> None:
        """Complete the items of a place, and begin those of the next one."""
        self._queue = list(self.items[-1])
        self.completed.append({})
        self.waiting.append({})
        after: dict[Item, list[Link | None]] = {}
        for item in self._queue:  # which grows
            position, origin = item
            move = self._moves.before(position, self._next)
            self._steps.spend(1 + len(move.scanned) + len(move.begun))
            for terminal, target in move.scanned:
                after.setdefault((target, origin), []).append(Link(position, terminal, self._place))
            for symbol in move.empty:
                self._go_on(item, symbol, self._place)
            for rule in move.begun:
                self._begin(rule, item)
            if move.completed:
                self._complete(move.completed, origin, position)
        self.items.append(after)

    def _add(self, item: Item, link: Link | None) -> None:
        links = self.items[self._place].get(item)
        self._steps.spend()
        if links is None:
            self.items[self._place][item] = [link]
            self._queue.append(item)
        else:
            links.append(link)

    def _begin(self, rule: int, item: Item) -> None:
        """Let an item wait for a rule that begins here."""
        waiting = self.waiting[self._place].get(rule)
        if waiting is not None:
            waiting.append(item)
            if (rule, self._place) in self.completed[self._place]:
                self._go_on(item, rule, self._place)
            return
        self.waiting[self._place][rule] = [item]
        start = self._automata.start(rule), self._place
        if start not in self.items[self._place]:
            self._add(start, None)

    def _complete(self, rule: int, origin: int, position: int) -> None:
        completed = self.completed[self._place].get((rule, origin))
        if completed is not None:
            completed.positions.append(position)
            return
        self._count += 1
        self.completed[self._place][rule, origin] = Completion(self._count, [position])
        for item in list(self.waiting[origin].get(rule, ())):
            self._go_on(item, rule, origin)

    def _go_on(self, item: Item, symbol: int, start: int) -> None:
        """Add what an item becomes after a symbol."""
        position, origin = item
        for target in self._moves.targets(position)[symbol]:
            self._add((target, origin), Link(position, symbol, start))
