"""The search for the text of the language that is nearest to another text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from ..engines.reference.configurations import REJECTED
from ..errors import GrammarLimitError
from .approximation import FAR
from .rule_bounds import NEVER
from .search_space import CONTINUATION_BYTES, SearchSpace, shortest_completion

EXACT = 0
WEIGHTS = (EXACT, 16, 4)
"""The searches in order, each tried if the one before takes too long. The first one is exact; in the others,
which are greedy, one edit weighs as much as this many characters that are still unread."""

CALL = 4096
"""The steps that count as one call of the engine."""

DELETED, REPLACED, INSERTED, WORD = 0, 1, 2, 3
"""The damage of edits, which decides between equally many; WORD is added where a letter or digit is lost."""

EDIT = 1 << 32
"""The rank of one edit: greater than that of all damage."""


class Edit(NamedTuple):
    """units[start:end] of the text become `new`."""

    start: int
    end: int
    new: bytes


class _Node(NamedTuple):
    """A way to edit the first `at` characters; it extends `parent` by reading or writing `new`.

    edits   the number of inserted, deleted and replaced characters
    damage  the damage that they do to the text, see `DELETED`
    """

    edits: int
    damage: int
    at: int
    configuration: int
    parent: int
    new: bytes


class NearestSearch:
    """The search for the text that is nearest to one text.

    units          the characters of the text, or its bytes if it is not UTF-8: the units of edits
    in_characters  whether they are characters
    """

    def __init__(
        self, space: SearchSpace, units: Sequence[bytes], in_characters: bool, max_edits: int
    ) -> None:
        self._space = space
        self._parser = space.parser
        self._units = units
        self._free = CONTINUATION_BYTES if in_characters else 0
        self._max_edits = max_edits
        self._bounds = space.in_characters if in_characters else space.in_bytes
        self._approximation = space.approximation(self._free)
        self._edit_bounds = self._approximation.edit_bounds(units) if self._approximation else None
        self._nodes: list[_Node] = []
        self._waiting: list[tuple[int, int, int, bool]] = []
        self._ranks: dict[tuple[int, int], tuple[int, int]] = {}

    def best(self, configuration: int, steps: int) -> tuple[list[Edit], int, bool]:
        """The edits, the number of characters that they change, and whether fewer are certain not to suffice.

        configuration  the configuration after the text, REJECTED if it leaves the language
        steps          the bound on the steps of each search: of the exact one, and if it does not suffice, of
                       each greedy one

        Raises GrammarLimitError if the greedy searches find nothing either, or if `max_edits` is too small.
        """
        for weight in WEIGHTS:
            found = self._search(steps, weight)
            if found is not None and weight == EXACT:
                return self._edits(found), self._nodes[found].edits, True
            if found is not None:
                break
        ways = [] if found is None else [(self._edits(found), self._nodes[found].edits)]
        completed = self._completed(configuration, steps)
        ways += [] if completed is None else [completed]
        if not ways:
            raise GrammarLimitError(f"no repair was found in {steps} steps")
        return *min(ways, key=lambda way: way[1]), False

    def _search(self, steps: int, weight: int) -> int | None:
        """The number of the last node of the best way; None if it is not found within `steps`.

        Among nodes with equal bounds, the one with the least damage comes first, then the one that has read
        most. A node waits twice: to read the next character, and to be edited, which costs at least one.
        """
        self._nodes, self._waiting, self._ranks = [], [], {}
        self._add(_Node(0, 0, 0, self._parser.start, -1, b""), weight)
        done: set[tuple[int, int]] = set()
        for step in range(steps):
            if step % CALL == 0:
                self._space.tables.meter.start()
            if not self._waiting and weight != EXACT:
                return None
            if not self._waiting:
                raise GrammarLimitError(f"no text of the language is within max_edits={self._max_edits}")
            _, _, number, editing = heappop(self._waiting)
            node = self._nodes[number]
            state = node.at, node.configuration
            if not editing:
                if state in done:
                    continue
                done.add(state)
                if node.at == len(self._units) and self._parser.accepting(node.configuration):
                    return number
                self._queue(number, weight, True)
            for new in self._edit(number, node) if editing else self._read(number, node):
                if (new.at, new.configuration) not in done:
                    self._add(new, weight)
        return None

    def _add(self, node: _Node, weight: int) -> None:
        state, rank = (node.at, node.configuration), (node.edits, node.damage)
        known = self._ranks.get(state)
        if known is None or rank < known:
            self._ranks[state] = rank
            self._nodes.append(node)
            self._queue(len(self._nodes) - 1, weight, False)

    def _queue(self, number: int, weight: int, editing: bool) -> None:
        """Queue a node by the lower bound on the edits of the whole text."""
        node = self._nodes[number]
        left = len(self._units) - node.at
        bound = self._bound(node.at, node.configuration)
        if editing and not self._within_character(node):
            bound = max(1, bound)
        total = node.edits + bound
        if total <= self._max_edits:
            rank = total if weight == EXACT else weight * total + left
            heappush(self._waiting, (rank * EDIT + node.damage, left, number, editing))

    def _within_character(self, node: _Node) -> bool:
        """Whether a written character may continue, which costs nothing."""
        return bool(self._free) and len(node.new) == 1 and node.new[0] >= 0x80

    def _bound(self, at: int, configuration: int) -> int:
        """A lower bound on the edits that are needed from here."""
        bound = max(0, self._bounds(configuration) - (len(self._units) - at))
        if self._edit_bounds is not None and self._approximation is not None and bound < NEVER:
            of_state = self._edit_bounds[at]
            states = self._approximation.states(configuration)
            bound = max(bound, min((of_state[state] for state in states), default=FAR))
        return bound

    def _read(self, number: int, node: _Node) -> Iterator[_Node]:
        """The node that keeps the next character."""
        if node.at < len(self._units):
            unit = self._units[node.at]
            after = self._parser.run(node.configuration, unit)
            if after != REJECTED:
                yield _Node(node.edits, node.damage, node.at + 1, after, number, unit)

    def _edit(self, number: int, node: _Node) -> Iterator[_Node]:
        """The nodes that delete the next character, replace it, or insert one before it."""
        edits, damage, at = node.edits + 1, node.damage, node.at
        is_inside = at < len(self._units)
        damage_if_lost = damage + (WORD if is_inside and _is_word(self._units[at]) else 0)
        if is_inside:
            yield _Node(edits, damage_if_lost + DELETED, at + 1, node.configuration, number, b"")
        within = self._within_character(node)
        for byte in self._space.choices(node.configuration):
            after = self._parser.step(node.configuration, byte)
            if after == REJECTED:
                continue
            new = bytes((byte,))
            invented = 1 if _is_word(new) else 0
            if not self._free >> byte & 1:
                if is_inside:
                    yield _Node(edits, damage_if_lost + REPLACED, at + 1, after, number, new)
                yield _Node(edits, damage + INSERTED + invented, at, after, number, new)
            elif within:
                yield _Node(node.edits, damage, at, after, number, new)

    def _completed(self, configuration: int, steps: int) -> tuple[list[Edit], int] | None:
        """The edit that appends the shortest completion, if it is found quickly and is not too long."""
        if configuration == REJECTED:
            return None
        try:
            new = shortest_completion(self._space, configuration, 4 * self._max_edits, steps)
        except GrammarLimitError:
            return None
        count = sum(not self._free >> byte & 1 for byte in new or b"")
        end = len(self._units)
        return None if new is None or count > self._max_edits else ([Edit(end, end, new)], count)

    def _edits(self, number: int) -> list[Edit]:
        """The edits on the way to a node, with adjacent ones merged."""
        edits: list[Edit] = []
        node = self._nodes[number]
        while node.parent >= 0:
            parent = self._nodes[node.parent]
            if node.at == parent.at or node.edits > parent.edits:
                edit = Edit(parent.at, node.at, node.new)
                if edits and edits[-1].start == edit.end:
                    edit = Edit(edit.start, edits[-1].end, edit.new + edits.pop().new)
                edits.append(edit)
            node = parent
        return edits[::-1]


def _is_word(character: bytes) -> bool:
    return character.isalnum() or character[0] >= 0x80
