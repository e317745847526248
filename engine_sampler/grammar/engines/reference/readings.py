"""The readings of a text, for people: the live threads of a matcher, and the rows that they are in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from ...derivatives.expressions import EMPTY
from ...printing.listing import Listing
from ...program.notation import class_text
from .configurations import Configurations
from .lexers import IGNORED_SYMBOL
from .lexing import BETWEEN_TERMINALS as BETWEEN_TOKENS
from .lexing import LalrConfigurations, LalrThread
from .lr import NO_ROW, LrRows
from .matcher import ReferenceMatcher
from .rows import EarleyRows
from .threads import BETWEEN_TERMINALS, EarleyConfigurations, EarleyThread

MAX_ROWS = 20
"""The rows that are described: those of the threads first, then those in which their rules began."""


class ThreadReading(NamedTuple):
    """One way to read a text.

    row       the row of the parser before the terminal
    terminal  the terminal that is being read; "" between two terminals
    rest      what is still to come of it, as an expression; "" between terminals
    next      the bytes that may come next, as a class; perhaps too many
    ends      whether the terminal, or the text between two, may end here
    excluded  an expression: what must not come next. Of an LALR parser, the whole texts in which another
              terminal is read. "" for nothing
    """

    row: int
    terminal: str
    rest: str
    next: str
    ends: bool
    excluded: str


class ItemReading(NamedTuple):
    """A position in a rule.

    rule       its name
    state      a state of its automaton
    registers  their values: bits, then counters; "" if the rule has none
    began      the row in which the rule began
    next       the symbols that may come next in the rule
    ends       whether the rule may end here
    """

    rule: str
    state: int
    registers: str
    began: int
    next: tuple[str, ...]
    ends: bool


class RowReading(NamedTuple):
    """A point between two terminals.

    items      the positions in rules that began before; none for an LALR parser
    stack      the symbols on the stack of an LALR parser, and its state; none for Earley's
    beginning  the rules that may begin here
    terminals  the terminals that may come next
    accepting  whether the text may end here
    """

    row: int
    items: tuple[ItemReading, ...]
    stack: tuple[str, ...]
    beginning: tuple[str, ...]
    terminals: tuple[str, ...]
    accepting: bool


class Readings(NamedTuple):
    """All readings of a text, and the rows that they are in.

    omitted   how many more rows there are
    """

    threads: tuple[ThreadReading, ...]
    rows: tuple[RowReading, ...]
    omitted: int


def readings_of(matcher: ReferenceMatcher) -> Readings:
    """The readings of the text that a matcher has accepted."""
    with matcher.inspected() as (tables, configuration):
        listing, configurations = Listing(tables.program), tables.configurations
        if isinstance(configurations, LalrConfigurations):
            return _LalrDescriber(listing, configurations).readings(configuration)
        assert isinstance(configurations, EarleyConfigurations)
        return _EarleyDescriber(listing, configurations).readings(configuration)


class _Describer:
    """What both parsers have in common."""

    def __init__(self, listing: Listing, configurations: Configurations[Any]) -> None:
        self.listing = listing
        self.configurations = configurations

    def readings(self, configuration: int) -> Readings:
        threads = self.configurations.threads[configuration]
        numbers = list(self._reachable(sorted({thread.row for thread in threads})))
        rows = tuple(map(self.row, numbers[:MAX_ROWS]))
        return Readings(tuple(map(self.thread, threads)), rows, len(numbers) - len(rows))

    def thread(self, thread: Any) -> ThreadReading:
        raise NotImplementedError

    def row(self, number: int) -> RowReading:
        raise NotImplementedError

    def origins(self, number: int) -> Iterable[int]:
        """The rows that the description of a row names."""
        raise NotImplementedError

    def names(self, symbols: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.listing.name(symbol) for symbol in sorted(symbols, key=lambda s: (s < 0, abs(s))))

    def _reachable(self, numbers: Sequence[int]) -> Iterator[int]:
        waiting, seen = list(numbers), set(numbers)
        for number in waiting:
            yield number
            new = sorted(set(self.origins(number)) - seen)
            seen.update(new)
            waiting += new


class _EarleyDescriber(_Describer):
    configurations: EarleyConfigurations

    def thread(self, thread: EarleyThread) -> ThreadReading:
        scans = self.configurations.scans
        expressions = scans.expressions
        remaining, guard = scans.pairs[thread.scan]
        excluded = "" if guard == EMPTY else expressions.text(guard)
        if thread.terminal == BETWEEN_TERMINALS:
            begun = self.configurations.beginnings(thread)
            first = reduce(or_, (expressions.first[scans.pairs[one.scan][0]] for one in begun), 0)
            return ThreadReading(thread.row, "", "", class_text(first), True, excluded)
        name = self.listing.name(thread.terminal) + " (ignored)" * thread.ignored
        following, ends = class_text(expressions.first[remaining]), scans.can_end(thread.scan)
        return ThreadReading(thread.row, name, expressions.text(remaining), following, ends, excluded)

    def row(self, number: int) -> RowReading:
        rows = self.configurations.rows
        items, beginning, terminals, accepting = rows.rows[number]
        described = tuple(self._item(rows, *item) for item in items if item[0] >= 0)
        rules = {rows.automata.rule_of(position) for position in beginning} - {rows.automata.goal}
        return RowReading(number, described, (), self.names(rules), self.names(terminals), accepting)

    def origins(self, number: int) -> Iterable[int]:
        return (origin for _, origin in self.configurations.rows.rows[number].items if origin >= 0)

    def _item(self, rows: EarleyRows, position: int, origin: int) -> ItemReading:
        state, (bits, *counters) = rows.automata.state_of(position)
        rule, number = self.listing.state_in_rule(state)
        name = "(the text)" if rule == rows.automata.goal else self.listing.name(rule)
        targets, ends = rows.automata.transitions(position)
        registers = " ".join([f"bits {bits:b}"] * (bits > 0) + [f"c{i}={c}" for i, c in enumerate(counters)])
        return ItemReading(name, number, registers, origin, self.names(targets), ends)


class _LalrDescriber(_Describer):
    configurations: LalrConfigurations

    def __init__(self, listing: Listing, configurations: LalrConfigurations) -> None:
        super().__init__(listing, configurations)
        self._entered = _entering_symbols(configurations.rows)

    def thread(self, thread: LalrThread) -> ThreadReading:
        configurations, expressions = self.configurations, self.configurations.expressions
        excluded = "" if thread.excluded == EMPTY else expressions.text(thread.excluded)
        if thread.symbol == BETWEEN_TOKENS:
            begun = configurations.lexers.begin(configurations.rows.state(thread.row))
            first = reduce(or_, (expressions.first[match.rest] for match, _ in begun), 0)
            return ThreadReading(thread.row, "", "", class_text(first), True, excluded)
        name = "(ignored)" if thread.symbol == IGNORED_SYMBOL else self.listing.name(thread.symbol)
        remaining, ends = expressions.text(thread.rest), expressions.nullable(thread.rest)
        following = class_text(expressions.first[thread.rest])
        return ThreadReading(thread.row, name, remaining, following, ends, excluded)

    def row(self, number: int) -> RowReading:
        rows = self.configurations.rows
        actions = rows.parser.states[rows.state(number)].actions
        terminals = [terminal for terminal, _ in actions if rows.advance(number, terminal) is not None]
        return RowReading(
            number, (), tuple(self._stack(rows, number)), (), self.names(terminals), rows.accepting(number)
        )

    def origins(self, number: int) -> Iterable[int]:
        return ()

    def _stack(self, rows: LrRows, number: int) -> list[str]:
        symbols = [f"state {rows.state(number)}"]
        while rows.rows[number].below != NO_ROW:
            state, number = rows.rows[number]
            symbols.append(self._symbol(self._entered[state]))
        return symbols[::-1]

    def _symbol(self, symbol: int) -> str:
        return self.listing.name(symbol if symbol >= 0 else self.listing.first_side + 1 + symbol)


def _entering_symbols(rows: LrRows) -> dict[int, int]:
    """For each state the symbol after which it is entered: a terminal, or -1 - the left side of a rule."""
    found: dict[int, int] = {}
    for state in rows.parser.states:
        found.update({target: terminal for terminal, target in state.actions if target >= 0})
        found.update({target: -1 - side for side, target in state.gotos})
    return found
