"""The search for a text of the language that is nearest to another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from ..engines.reference.configurations import REJECTED
from ..errors import GrammarLimitError
from .demands import NEVER
from .outline import FAR
from .search import CONTINUATION_BYTES, Ground, shortest

CERTAIN = 0
PATIENCE = (CERTAIN, 16, 4)
"""The searches, each where the one before it was too long: a hasty one gives an edit for so many characters
that it gets ahead."""

CALL = 4096
"""Steps that are one call of the engine."""

DELETED, REPLACED, INSERTED, WORD = 0, 1, 2, 3
"""The harm of edits, where there are as many: WORD is added where a letter or digit is lost."""

EDIT = 1 << 32
"""The rank of one edit: more than that of all harm."""


class Edit(NamedTuple):
    """The characters `start` to `end` of the text become `new`."""

    start: int
    end: int
    new: bytes


class _Node(NamedTuple):
    """A reading of the first `at` characters; made from `parent` by reading or writing `new`.

    edits  characters that were inserted, deleted or replaced
    harm   what that does to the text, see `DELETED`
    """

    edits: int
    harm: int
    at: int
    configuration: int
    parent: int
    new: bytes


class Repairs:
    """The search for one text.

    units          its characters, or its bytes where it is no UTF-8: what is inserted, deleted, replaced
    in_characters  which of the two
    """

    def __init__(self, ground: Ground, units: Sequence[bytes], in_characters: bool, max_edits: int) -> None:
        self._ground = ground
        self._threads = ground.threads
        self._units = units
        self._free = CONTINUATION_BYTES if in_characters else 0
        self._max_edits = max_edits
        self._lengths = ground.in_characters if in_characters else ground.in_bytes
        self._outline = ground.outline(self._free)
        self._needed = self._outline.needed(units) if self._outline else None
        self._nodes: list[_Node] = []
        self._waiting: list[tuple[int, int, int, bool]] = []
        self._best: dict[tuple[int, int], tuple[int, int]] = {}

    def best(self, behind: int, steps: int) -> tuple[list[Edit], int, bool]:
        """Edits, how many characters they change, and whether it is certain that fewer would not do.

        behind  the configuration behind the text, REJECTED if it leaves the language
        steps   of each search: of one that is certain, and where they do not suffice, of hasty ones

        Raises GrammarLimitError if these find nothing either, or if `max_edits` are too few.
        """
        for patience in PATIENCE:
            found = self._search(steps, patience)
            if found is not None and patience == CERTAIN:
                return self._edits(found), self._nodes[found].edits, True
            if found is not None:
                break
        ways = [] if found is None else [(self._edits(found), self._nodes[found].edits)]
        completed = self._completed(behind, steps)
        ways += [] if completed is None else [completed]
        if not ways:
            raise GrammarLimitError(f"no repair was found in {steps} steps")
        return *min(ways, key=lambda way: way[1]), False

    def _search(self, steps: int, patience: int) -> int | None:
        """The number of the last node of the best way; None if it is not found in `steps`.

        Of several that are equally good, the one goes first that does least harm, then the one that has
        read most. A node waits twice: to read on, and to be edited, which costs one at least.
        """
        self._nodes, self._waiting, self._best = [], [], {}
        self._add(_Node(0, 0, 0, self._threads.start, -1, b""), patience)
        done: set[tuple[int, int]] = set()
        for step in range(steps):
            if step % CALL == 0:
                self._ground.tables.meter.start()
            if not self._waiting and patience != CERTAIN:
                return None
            if not self._waiting:
                raise GrammarLimitError(f"no text of the language is within max_edits={self._max_edits}")
            _, _, number, editing = heappop(self._waiting)
            node = self._nodes[number]
            place = node.at, node.configuration
            if not editing:
                if place in done:
                    continue
                done.add(place)
                if node.at == len(self._units) and self._threads.accepting(node.configuration):
                    return number
                self._wait(number, patience, True)
            for new in self._edited(number, node) if editing else self._read(number, node):
                if (new.at, new.configuration) not in done:
                    self._add(new, patience)
        return None

    def _add(self, node: _Node, patience: int) -> None:
        place, rank = (node.at, node.configuration), (node.edits, node.harm)
        known = self._best.get(place)
        if known is None or rank < known:
            self._best[place] = rank
            self._nodes.append(node)
            self._wait(len(self._nodes) - 1, patience, False)

    def _wait(self, number: int, patience: int, editing: bool) -> None:
        """Put a node where it is due: by the edits that the whole text needs, at least."""
        node = self._nodes[number]
        left = len(self._units) - node.at
        lacking = self._bound(node.at, node.configuration)
        if editing and not self._within_character(node):
            lacking = max(1, lacking)
        total = node.edits + lacking
        if total <= self._max_edits:
            rank = total if patience == CERTAIN else patience * total + left
            heappush(self._waiting, (rank * EDIT + node.harm, left, number, editing))

    def _within_character(self, node: _Node) -> bool:
        """Whether a written character may go on, which costs nothing."""
        return bool(self._free) and len(node.new) == 1 and node.new[0] >= 0x80

    def _bound(self, at: int, configuration: int) -> int:
        """The edits that are needed from here, or fewer."""
        lacking = max(0, self._lengths(configuration) - (len(self._units) - at))
        if self._needed is not None and self._outline is not None and lacking < NEVER:
            needed = self._needed[at]
            places = self._outline.places(configuration)
            lacking = max(lacking, min((needed[place] for place in places), default=FAR))
        return lacking

    def _read(self, number: int, node: _Node) -> Iterator[_Node]:
        """The next character stays as it is."""
        if node.at < len(self._units):
            unit = self._units[node.at]
            after = self._threads.run(node.configuration, unit)
            if after != REJECTED:
                yield _Node(node.edits, node.harm, node.at + 1, after, number, unit)

    def _edited(self, number: int, node: _Node) -> Iterator[_Node]:
        """The next character goes, becomes another one, or another one comes before it."""
        edits, harm, at = node.edits + 1, node.harm, node.at
        more = at < len(self._units)
        lost = harm + (WORD if more and _in_word(self._units[at]) else 0)
        if more:
            yield _Node(edits, lost + DELETED, at + 1, node.configuration, number, b"")
        within = self._within_character(node)
        for byte in self._ground.choices(node.configuration):
            after = self._threads.step(node.configuration, byte)
            if after == REJECTED:
                continue
            new = bytes((byte,))
            invented = 1 if _in_word(new) else 0
            if not self._free >> byte & 1:
                if more:
                    yield _Node(edits, lost + REPLACED, at + 1, after, number, new)
                yield _Node(edits, harm + INSERTED + invented, at, after, number, new)
            elif within:
                yield _Node(node.edits, harm, at, after, number, new)

    def _completed(self, behind: int, steps: int) -> tuple[list[Edit], int] | None:
        """The text with its shortest completion, where that is soon found and not too long."""
        if behind == REJECTED:
            return None
        try:
            new = shortest(self._ground, behind, 4 * self._max_edits, steps)
        except GrammarLimitError:
            return None
        count = sum(not self._free >> byte & 1 for byte in new or b"")
        end = len(self._units)
        return None if new is None or count > self._max_edits else ([Edit(end, end, new)], count)

    def _edits(self, number: int) -> list[Edit]:
        """What was done on the way to a node, neighbouring edits as one."""
        found: list[Edit] = []
        node = self._nodes[number]
        while node.parent >= 0:
            parent = self._nodes[node.parent]
            if node.at == parent.at or node.edits > parent.edits:
                edit = Edit(parent.at, node.at, node.new)
                if found and found[-1].start == edit.end:
                    edit = Edit(edit.start, found[-1].end, edit.new + found.pop().new)
                found.append(edit)
            node = parent
        return found[::-1]


def _in_word(character: bytes) -> bool:
    return character.isalnum() or character[0] >= 0x80
