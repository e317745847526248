"""The captures of a text that grows, each as soon as no more text can change it.

Where all ways to read a text are one thread between two terminals, every text that goes on from there has the
terminals that it has. These are read once, into the chart that the whole text would have. What its rules are
is decided there if one item is left, one rule waits for another one throughout, and each item came about in
one way: then all that has ended within them is certain. Where that is not so, it is tried again once there
are twice as many terminals since.
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import NamedTuple

from ....contract.work import CAPTURE_STEPS_AT_ONCE
from ...errors import GrammarLimitError
from ...limits import capture_steps
from ...program.rules import Program
from ..reference.configurations import REJECTED
from ..reference.lexing import LalrConfigurations
from ..reference.lr import LrRows
from ..steps import Steps
from .capture import Capture, Captures
from .chart import Chart, Item, Link, Moves
from .derivation import Derivation, SymbolSpan
from .lalr import Reductions
from .reading import CaptureReader, reader_of
from .splitting import TerminalSpan, split_between
from .units import units_of_bytes

Named = tuple[str, Capture]
"""A capture and its name."""


class Open(NamedTuple):
    """A rule that is open: where it began, the position in it, and the place that it has come to; and the one
    around it that had begun before."""

    rule: int
    begin: int
    position: int
    place: int
    outer: Open | None


class _Cut(NamedTuple):
    """Where one thread is between terminals.

    at        how many bytes are before it
    pieces    how many terminals
    told      how many of these there were when the derivation was last decided
    captures  how many captures have been told then
    next_try  from how many on it is tried again
    decided   the innermost open rule at that time; None for none
    """

    at: int = 0
    pieces: int = 0
    told: int = 0
    captures: int = 0
    next_try: int = 1
    decided: Open | None = None


class _Undecided(Exception):
    """The derivation is not decided yet."""


class GrowingChart(Chart):
    """A chart that can be cut back: the items of places are kept as they are before they are completed."""

    def __init__(self, moves: Moves, steps: Steps) -> None:
        super().__init__(moves, steps)
        self.begun: list[dict[Item, list[Link | None]]] = [_copied(self.items[0])]
        self._counts = [0]

    def _read(self) -> None:
        self.items[-1] = _copied(self.begun[-1])
        super()._read()
        self.begun.append(_copied(self.items[-1]))
        self._counts.append(self._count)

    def shrink(self, places: int) -> None:
        """Forget all terminals but the first ones."""
        del self.completed[places:], self.waiting[places:]
        for one in (self.items, self.begun, self._counts):
            del one[places + 1 :]
        self._count = self._counts[-1]

    def fork(self, steps: Steps) -> GrowingChart:
        """A chart that grows on its own."""
        other = GrowingChart(self._moves, steps)
        other.items, other.completed, other.waiting = self.items[:], self.completed[:], self.waiting[:]
        other.begun, other._counts, other._count = self.begun[:], self._counts[:], self._count
        return other


def _copied(items: dict[Item, list[Link | None]]) -> dict[Item, list[Link | None]]:
    return {item: links[:] for item, links in items.items()}


class GrowingCaptures:
    """The captures of one text. Each call takes time for the new bytes, and for the rules that are open."""

    def __init__(self, reader: CaptureReader) -> None:
        self._reader = reader
        self._steps = Steps(capture_steps(0))
        self._per_byte = capture_steps(1) - capture_steps(0)
        self._is_over = False
        self.data = bytearray()
        self._reached = array("i", [reader.tables.configurations.start])
        self._pieces: list[TerminalSpan] = []
        self._cuts = [_Cut()]
        self._told: list[Named] = []
        self._reductions: Reductions | None = None
        is_lalr = isinstance(reader.tables.configurations, LalrConfigurations)
        self._chart = None if is_lalr else GrowingChart(reader.moves, self._steps)

    @property
    def steps_left(self) -> int:
        """The steps that are left for the bytes so far."""
        return self._steps.left - self._per_byte * len(self.data)

    def feed(self, data: bytes, shared: Steps | None = None) -> list[Named]:
        """The captures that are certain with some more bytes, in the order in which they end. There are no
        more of them once the text is none of the grammar, or has taken too many steps: in all, or for these
        bytes.

        shared  the steps that several texts may take together: where none are left, the rest is read with
                the next bytes
        """
        found: list[Named] = []
        told, tables = len(self._told), self._reader.tables
        self._steps.left += self._per_byte * len(data)
        self.data += data
        if self._is_over or (shared is not None and shared.left <= 0):
            return found
        at_once = CAPTURE_STEPS_AT_ONCE + (self._per_byte * len(data) if shared is None else shared.left)
        kept = max(0, self._steps.left - at_once)
        self._steps.left -= kept
        before = self._steps.left
        try:
            with tables.lock:
                tables.meter.start(self._steps.left)
                self._read(0 if shared is None else before - shared.left)
                if self._cuts[-1].pieces >= self._cuts[-1].next_try:
                    found = self._certain()
        except GrammarLimitError:
            self._is_over = True
        except BaseException:  # an interruption, perhaps in the middle of a change: the rest comes at the end
            self._is_over = True
            del self._told[told:]
            raise
        finally:
            if shared is not None:
                shared.left -= before - self._steps.left
            self._steps.left += kept
        return found

    def shrink(self, length: int) -> None:
        """Forget all bytes but the first ones."""
        if length >= len(self.data):
            return
        del self.data[length:]
        del self._reached[length + 1 :]
        while self._cuts[-1].at > length:
            self._cuts.pop()
        pieces = self._cuts[-1].pieces
        del self._pieces[pieces:], self._told[self._cuts[-1].captures :]
        self._reductions = None
        if self._chart is not None:
            self._chart.shrink(min(pieces, len(self._chart.completed)))

    def rest(self, captures: Captures) -> list[Named]:
        """Those of all captures of the text that have not been told."""
        told = Counter((name, one.start, one.end) for name, one in self._told)
        found = []
        for name, some in captures.items():
            for one in some:
                told[name, one.start, one.end] -= 1
                if told[name, one.start, one.end] < 0:
                    found.append((name, one))
        return found

    def fork(self) -> GrowingCaptures:
        """The same text, to go on independently."""
        other = GrowingCaptures(self._reader)
        other._steps.left, other._is_over = self._steps.left, self._is_over
        other.data, other._reached = self.data[:], self._reached[:]
        other._pieces, other._cuts, other._told = self._pieces[:], self._cuts[:], self._told[:]
        other._chart = None if self._chart is None else self._chart.fork(other._steps)
        return other

    def _read(self, least: int) -> None:
        """Follow the bytes that are new, and read the terminals up to each cut, until no more steps than
        `least` are left."""
        configurations, threads = self._reader.tables.configurations, self._reader.threads
        at = self._reached[-1]
        for byte in self.data[len(self._reached) - 1 :]:
            if self._steps.left < least:
                return
            self._steps.spend()
            at = configurations.step(at, byte)
            self._reached.append(at)
            if at == REJECTED:
                continue
            found = configurations.threads[at]
            if len(found) == 1 and threads.is_between(found[0]):
                self._cut(len(self._reached) - 1)

    def _cut(self, at: int) -> None:
        """Read the terminals up to a cut."""
        last = self._cuts[-1]
        units = units_of_bytes(bytes(self.data[last.at : at]))
        reached = self._reached[last.at : at + 1]
        reader = self._reader
        for terminals, start, end in split_between(
            reader.tables.configurations,
            reader.threads,
            units,
            reached,
            self._steps,
            is_first=not last.at,
        ):
            self._pieces.append(TerminalSpan(terminals, start + last.at, end + last.at))
        self._cuts.append(last._replace(at=at, pieces=len(self._pieces)))
        if self._chart is not None:
            new = self._pieces[len(self._chart.completed) :]
            self._chart.read(piece.terminals for piece in new)

    # --- What is certain ---

    def _certain(self) -> list[Named]:
        """The captures that have become certain with the last cut."""
        last = self._cuts[-1]
        decided = last.decided
        configurations = self._reader.tables.configurations
        try:
            if isinstance(configurations, LalrConfigurations):
                parts = self._reduced(configurations.rows)
            elif self._chart is not None:
                parts, decided = _Walk(self._reader, self._chart, self._steps).run(decided)
        except _Undecided:
            self._cuts[-1] = last._replace(next_try=2 * last.pieces - last.told + 1)
            return []
        names = self._reader.names
        found = [(names[part.symbol], self._capture(part)) for part in parts if part.symbol in names]
        found.sort(key=lambda one: (one[1].end, -one[1].start))
        self._told += found
        self._cuts[-1] = _Cut(last.at, last.pieces, last.pieces, len(self._told), last.pieces + 1, decided)
        return found

    def _capture(self, part: SymbolSpan) -> Capture:
        start, end = self._span(part)
        data = bytes(self.data[start:end])
        self._steps.spend(len(data) // 64)
        return Capture(data, start, end)

    def _span(self, part: SymbolSpan) -> tuple[int, int]:
        """The bytes of a part, without ignored text at its ends."""
        skipped = self._reader.skipped
        start, end = part.start, part.end
        while start < end and not skipped.isdisjoint(self._pieces[start].terminals):
            start += 1
        while start < end and not skipped.isdisjoint(self._pieces[end - 1].terminals):
            end -= 1
        if start < end:
            return self._pieces[start].start, self._pieces[end - 1].end
        before = part.start
        while before and not skipped.isdisjoint(self._pieces[before - 1].terminals):
            before -= 1
        end = self._pieces[before - 1].end if before else 0
        return end, end

    def _reduced(self, rows: LrRows) -> list[SymbolSpan]:
        """The rules of an LALR parser that have ended since the last cut of which these were told."""
        told = self._cuts[-1].told
        if self._reductions is None:
            self._reductions = Reductions(rows, self._steps)
            list(self._reductions.read([piece.terminals for piece in self._pieces[:told]], 0))
        return list(self._reductions.read([piece.terminals for piece in self._pieces[told:]], told))


class _Walk:
    """The walk over the open rules of one place."""

    def __init__(self, reader: CaptureReader, chart: GrowingChart, steps: Steps) -> None:
        self._automata = reader.moves.automata
        self._relevant = reader.expected.relevant
        self._derivation = Derivation(chart, reader.moves, reader.expected, steps)
        self._chart = chart
        self._steps = steps
        self._ended: dict[tuple[int, int], Open] = {}
        """The rules that were open before, by where they began."""
        self._begins: set[int] = set()
        """Where these began."""
        self._waiting: list[tuple[Open, Open | None]] = []
        """Rules, each with what it was before."""
        self._place = len(chart.completed)
        self._links: dict[Item, Link] = {}
        """How items at this place come about that are not in the chart yet."""
        self._finished: dict[tuple[int, int], int] = {}
        """The positions at which rules end here, whatever follows."""

    def run(self, before: Open | None) -> tuple[list[SymbolSpan], Open]:
        items = self._chart.begun[-1]
        if len(items) != 1:
            raise _Undecided
        [item] = items
        found = self._opened(*self._ended_here(item), before)
        parts: list[SymbolSpan] = []
        while self._waiting:
            parts += self._ended_in(*self._waiting.pop())
        return parts, found

    def _ended_here(self, item: Item) -> Item:
        """The item that waits for what ends here with an item, if nothing else can follow."""
        while True:
            self._steps.spend()
            position, origin = item
            targets, completes = self._automata.transitions(position)
            rule = self._automata.rule_of(position)
            waiting = self._chart.waiting[origin].get(rule, ()) if not targets and completes else ()
            if len(waiting) != 1 or (rule, origin) in self._finished:
                return item
            [(outer, begin)] = waiting
            after = self._automata.transitions(outer).targets[rule]
            if len(after) != 1:
                return item
            self._finished[rule, origin] = position
            item = after[0], begin
            self._links[item] = Link(outer, rule, origin)

    def _opened(self, position: int, begin: int, before: Open | None) -> Open:
        """The open rules from an item on, the innermost one."""
        place = self._place
        new: list[tuple[int, int, int, int]] = []
        known: Open | None = None
        while True:
            self._steps.spend()
            rule = self._automata.rule_of(position)
            new.append((rule, begin, position, place))
            while before is not None and before.begin > begin:
                before = self._end(before)
            known = _with(rule, begin, before)
            around = None if known else self._around(rule, begin)
            if around is None:
                break
            place = begin
            position, begin = around
        while before is not None and before is not known and before.begin == begin:
            before = self._end(before)
        outer = known.outer if known else None
        for one in reversed(new):
            outer = Open(*one, outer)
            self._waiting.append((outer, known))
            known = None
        assert outer is not None
        return outer

    def _end(self, rule: Open) -> Open | None:
        """Note that an open rule has ended; returns the one around it."""
        self._ended[rule.rule, rule.begin] = rule
        self._begins.add(rule.begin)
        return rule.outer

    def _around(self, rule: int, begin: int) -> Item | None:
        """The item that waits for a rule, or for what this is the beginning of; None for that of the whole
        text. How many rules begin with it is not decided before they end."""
        found: set[Item | None] = set()
        queue = [rule]
        seen = set(queue)
        for one in queue:  # which grows
            if (one, begin) == (self._automata.goal, 0):
                found.add(None)
            for position, origin in self._chart.waiting[begin].get(one, ()):
                self._steps.spend()
                outer = self._automata.rule_of(position)
                if origin < begin:
                    found.add((position, origin))
                elif position != self._automata.start(outer):
                    raise _Undecided
                elif outer not in seen:
                    seen.add(outer)
                    queue.append(outer)
        if len(found) != 1:
            raise _Undecided
        return found.pop()

    def _ended_in(self, rule: Open, before: Open | None) -> list[SymbolSpan]:
        """The relevant rules that have ended in a rule since it was what it was `before`."""
        found: list[SymbolSpan] = []
        position, place = rule.position, rule.place
        while before is None or (position, place) != (before.position, before.place):
            self._steps.spend()
            link = self._link(place, (position, rule.begin))
            if link is None:
                if before is not None:
                    raise _Undecided
                break
            if before is not None and (link.symbol, link.start) == (before.rule, before.begin):
                self._end(before)  # it has become the beginning of another one
                before = None
            self._add(SymbolSpan(link.symbol, link.start, place), found)
            position, place = link.position, link.start
        return found

    def _link(self, place: int, item: Item) -> Link | None:
        """How an item came about, if only in one way."""
        at = self._chart.begun if place == self._place else self._chart.items
        links = set(at[place].get(item, ()))
        if place == self._place and item in self._links:
            links.add(self._links[item])
        if len(links) != 1:
            raise _Undecided
        return links.pop()

    def _add(self, part: SymbolSpan, found: list[SymbolSpan]) -> None:
        if part.symbol not in self._relevant:
            return
        if part.end == self._place:
            positions = {self._finished[part.symbol, part.start]}
        elif part.start in self._begins:
            positions = set(self._chart.completed[part.end][part.symbol, part.start].positions)
        else:
            found += self._derivation.within([part])
            return
        known = self._ended.get((part.symbol, part.start))
        found.append(part)  # what has ended in it while it was open, or one that it begins with, is known
        if len(positions) != 1:
            raise _Undecided
        [position] = positions
        self._waiting.append((Open(part.symbol, part.start, position, part.end, None), known))


def _with(rule: int, begin: int, opened: Open | None) -> Open | None:
    """The rule among those that begin where `opened` does; None if there is none."""
    while opened is not None and opened.begin == begin:
        if opened.rule == rule:
            return opened
        opened = opened.outer
    return None


def growing_captures(program: Program) -> GrowingCaptures | None:
    """The captures of a text that grows; None for a grammar without captures."""
    return GrowingCaptures(reader_of(program)) if program.captures else None
